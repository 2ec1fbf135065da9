#include "client/fake_cuda/fake_cuda.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace {

constexpr int kSuccess = 0;
constexpr int kInvalidValue = 1;
constexpr std::size_t kMaxWork = 1 << 16;

/// Preallocated, so that a test which counts allocations sees those of the library alone.
struct Gpu {
  struct Work {
    unsigned long long at = 0;
    std::uint32_t value = 0;
  };
  std::mutex mutex;
  std::array<Work, kMaxWork> work{};
  std::size_t asked = 0;
  std::size_t done = 0;
  bool has_context = true;
  bool is_idle = false;
  bool is_capturing = false;
  int write_result = kSuccess;
  int fill_result = kSuccess;
  int capture_result = kSuccess;
  int writes = 0;
  int fills = 0;
  alignas(4096) std::array<std::array<std::uint32_t, 1024>, 64> memory{};
  std::size_t pages = 0;
};

Gpu& gpu() {
  static Gpu the_gpu;
  return the_gpu;
}

void do_work(Gpu& gpu, std::size_t items) {
  for (; items > 0 && gpu.done < gpu.asked; --items, ++gpu.done) {
    const Gpu::Work& work = gpu.work[gpu.done % kMaxWork];
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a device pointer
    reinterpret_cast<std::atomic<std::uint32_t>*>(work.at)->store(work.value, std::memory_order_release);
  }
}

int ask(Gpu& gpu, unsigned long long at, std::uint32_t value) {
  gpu.work[gpu.asked++ % kMaxWork] = {at, value};
  if (gpu.is_idle) do_work(gpu, kMaxWork);
  return kSuccess;
}

}  // namespace

extern "C" {

void fake_cuda_reset() {
  Gpu& now = gpu();
  const std::lock_guard lock(now.mutex);
  now.asked = now.done = 0;
  now.has_context = true;
  now.is_idle = now.is_capturing = false;
  now.write_result = now.fill_result = now.capture_result = kSuccess;
  now.writes = now.fills = 0;
}
void fake_cuda_set_context(int has_context) { gpu().has_context = has_context != 0; }
void fake_cuda_set_write_result(int result) { gpu().write_result = result; }
void fake_cuda_set_fill_result(int result) { gpu().fill_result = result; }
void fake_cuda_set_capturing(int is_capturing) { gpu().is_capturing = is_capturing != 0; }
void fake_cuda_set_capture_result(int result) { gpu().capture_result = result; }
void fake_cuda_set_idle(int is_idle) { gpu().is_idle = is_idle != 0; }
void fake_cuda_work(int items) {
  const std::lock_guard lock(gpu().mutex);
  do_work(gpu(), static_cast<std::size_t>(items));
}
int fake_cuda_waiting() {
  const std::lock_guard lock(gpu().mutex);
  return static_cast<int>(gpu().asked - gpu().done);
}
int fake_cuda_writes() { return gpu().writes; }
int fake_cuda_fills() { return gpu().fills; }

// CUDA's.

int cuCtxGetCurrent(void** context) {
  *context = gpu().has_context ? &gpu() : nullptr;
  return kSuccess;
}

int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  Gpu& now = gpu();
  if (flags != 3 || bytes > sizeof now.memory[0]) return kInvalidValue;
  *memory = now.memory[now.pages++ % now.memory.size()].data();
  return kSuccess;
}

int cuMemHostGetDevicePointer_v2(unsigned long long* pointer, void* memory, unsigned flags) {
  if (flags != 0) return kInvalidValue;
  *pointer = reinterpret_cast<unsigned long long>(memory);
  return kSuccess;
}

int cuStreamWriteValue32_v2(void* stream, unsigned long long at, std::uint32_t value, unsigned flags) {
  if (stream == nullptr || flags != 0) return kInvalidValue;
  Gpu& now = gpu();
  const std::lock_guard lock(now.mutex);
  ++now.writes;
  return now.write_result != kSuccess ? now.write_result : ask(now, at, value);
}

int cuMemsetD32Async(unsigned long long at, unsigned value, std::size_t count, void* stream) {
  if (stream == nullptr || count != 1) return kInvalidValue;
  Gpu& now = gpu();
  const std::lock_guard lock(now.mutex);
  ++now.fills;
  return now.fill_result != kSuccess ? now.fill_result : ask(now, at, value);
}

int cuStreamIsCapturing(void* /*stream*/, int* status) {
  *status = gpu().is_capturing ? 1 : 0;
  return gpu().capture_result;
}

int cuGetErrorName(int error, const char** text) {
  if (error != 700) return kInvalidValue;
  *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
  return kSuccess;
}
}
