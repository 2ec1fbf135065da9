#include "client/marks/stream_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <new>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

// The used parts of cuda.h.
using CudaResult = int;
using DevicePointer = unsigned long long;
constexpr CudaResult kSuccess = 0;
constexpr CudaResult kNotSupported = 801;
constexpr CudaResult kCapturesImplicitly = 906;  // of the default stream, while another one is captured
constexpr unsigned kPortable = 1;
constexpr unsigned kDeviceMapped = 2;
constexpr unsigned kWriteInOrder = 0;
constexpr int kNotCaptured = 0;

constexpr std::size_t kWords = 256;
using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == sizeof(std::uint32_t) && Word::is_always_lock_free);

struct CudaFunctions {
  CudaResult (*get_context)(void** context) = nullptr;
  CudaResult (*allocate_host)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  CudaResult (*get_device_pointer)(DevicePointer* pointer, void* memory, unsigned flags) = nullptr;
  CudaResult (*write_value)(void* stream, DevicePointer at, std::uint32_t value, unsigned flags) = nullptr;
  CudaResult (*fill)(DevicePointer at, unsigned value, std::size_t count, void* stream) = nullptr;
  CudaResult (*is_capturing)(void* stream, int* status) = nullptr;
  CudaResult (*error_name)(CudaResult error, const char** text) = nullptr;
};

template <typename Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
}

CudaFunctions load(const std::string& file) {
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: the process' own CUDA is in it
  if (library == nullptr) {
    const char* words = dlerror();
    throw Error(fmt::format("{}: {}", printable(file), printable(words != nullptr ? words : "cannot be loaded")));
  }
  CudaFunctions cuda;
  find(library, "cuCtxGetCurrent", cuda.get_context);
  find(library, "cuMemHostAlloc", cuda.allocate_host);
  find(library, "cuMemHostGetDevicePointer_v2", cuda.get_device_pointer);
  find(library, "cuStreamWriteValue32_v2", cuda.write_value);
  find(library, "cuMemsetD32Async", cuda.fill);
  find(library, "cuStreamIsCapturing", cuda.is_capturing);
  find(library, "cuGetErrorName", cuda.error_name);
  const bool complete = cuda.get_context != nullptr && cuda.allocate_host != nullptr &&
                        cuda.get_device_pointer != nullptr && cuda.fill != nullptr && cuda.is_capturing != nullptr;
  if (!complete) throw Error(fmt::format("{}: lacks functions of CUDA 10 and later", printable(file)));
  return cuda;
}

std::string text_of(const CudaFunctions& cuda, CudaResult error) {
  const char* text = nullptr;
  if (cuda.error_name == nullptr || cuda.error_name(error, &text) != kSuccess || text == nullptr) {
    return fmt::format("CUDA error {}", error);
  }
  return fmt::format("{} ({})", printable(text), error);
}

class CudaStreamDriver final : public StreamDriver {
 public:
  explicit CudaStreamDriver(const std::string& file) : cuda_(load(file)) {
    void* context = nullptr;
    check(cuda_.get_context(&context), "cuCtxGetCurrent");
    if (context == nullptr) {
      throw Error("this thread has no CUDA context: name the stream after the framework has chosen its GPU");
    }
    void* memory = nullptr;
    check(cuda_.allocate_host(&memory, kWords * sizeof(Word), kPortable | kDeviceMapped), "cuMemHostAlloc");
    check(cuda_.get_device_pointer(&device_, memory, 0), "cuMemHostGetDevicePointer");
    words_ = new (memory) Word[kWords]{};  // NOLINT(cppcoreguidelines-owning-memory): the driver's
  }

  [[nodiscard]] std::span<const Word> words() const override { return {words_, kWords}; }

  [[nodiscard]] int write(Stream stream, std::size_t word, std::uint32_t number) noexcept override {
    int capture = kNotCaptured;
    // A graph would write the number whenever it is launched, and capturing fails where it meets the default stream.
    const CudaResult asked = cuda_.is_capturing(stream, &capture);
    if (asked == kCapturesImplicitly || capture != kNotCaptured) return kCaptured;
    if (asked != kSuccess) return asked;
    const DevicePointer at = device_ + word * sizeof(Word);
    if (cuda_.write_value != nullptr) {
      const CudaResult result = cuda_.write_value(stream, at, number, kWriteInOrder);
      if (result != kNotSupported) return result;
      cuda_.write_value = nullptr;
    }
    return cuda_.fill(at, number, 1, stream);
  }

  [[nodiscard]] std::string describe(int failure) const override { return text_of(cuda_, failure); }

 private:
  void check(CudaResult result, const char* call) const {
    if (result != kSuccess) throw Error(fmt::format("{}: {}", call, text_of(cuda_, result)));
  }

  CudaFunctions cuda_;
  DevicePointer device_ = 0;
  const Word* words_ = nullptr;
};

}  // namespace

std::unique_ptr<StreamDriver> open_cuda_stream_driver(const std::string& file) {
  return std::make_unique<CudaStreamDriver>(file);
}

}  // namespace lowgear::client
