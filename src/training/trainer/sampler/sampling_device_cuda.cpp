#include <ATen/ATen.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <torch/csrc/api/include/torch/version.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "training/trainer/sampler/sampling_device.h"

// Of a build with a libtorch that has CUDA.

namespace lowgear::trainer {
namespace {

class Event {
 public:
  Event() { C10_CUDA_CHECK(cudaEventCreate(&event_)); }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;

  void record() { C10_CUDA_CHECK(cudaEventRecord(event_, c10::cuda::getCurrentCUDAStream())); }
  [[nodiscard]] double seconds_since(const Event& earlier) const {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, earlier.event_, event_));
    return static_cast<double>(milliseconds) / 1e3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class CudaDevice final : public SamplingDevice {
 public:
  explicit CudaDevice(int index) {
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties_, index));
    const auto options = at::device(at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index))).dtype(at::kByte);
    cache_ = at::empty({2 * static_cast<std::int64_t>(properties_.l2CacheSize)}, options);
  }

  [[nodiscard]] std::string name() const override { return properties_.name; }

  [[nodiscard]] std::vector<double> time_s(const TimedWork& work, int repeats) override {
    while (events_.size() < 2 * static_cast<std::size_t>(repeats)) events_.emplace_back();
    hold_back(repeats);
    for (int i = 0; i < repeats; ++i) {
      work.before_each();
      begin_of(i).record();
      work.run();
      end_of(i).record();
    }
    if (work.meanwhile) work.meanwhile();
    synchronize();
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i) times.push_back(end_of(i).seconds_since(begin_of(i)));
    return times;
  }

  void flush_cache() override { cache_.zero_(); }
  void synchronize() override { c10::cuda::device_synchronize(); }

 private:
  Event& begin_of(int repeat) { return events_[2 * static_cast<std::size_t>(repeat)]; }
  Event& end_of(int repeat) { return events_[2 * static_cast<std::size_t>(repeat) + 1]; }

  /// Lets the GPU wait until the host has launched about as many repeats, so that no launch is on the clock.
  static void hold_back(int repeats) {
    constexpr std::int64_t kCyclesPerRepeat = 150'000;  // some 80 us
    constexpr std::int64_t kMostRepeats = 40;
    at::cuda::sleep(kCyclesPerRepeat * std::min<std::int64_t>(repeats, kMostRepeats));
  }

  cudaDeviceProp properties_{};
  at::Tensor cache_;
  std::vector<Event> events_;
};

}  // namespace

std::unique_ptr<SamplingDevice> open_sampling_device(bool gpu, int local_rank) {
  if (!gpu) throw InputError("--device: cpu needs a build with Debian's libtorch, as this one is for GPUs");
  const int devices = c10::cuda::device_count();
  if (local_rank >= devices) {
    throw InputError(
        fmt::format("--device: this machine has {} GPUs, and rank {} needs one of its own", devices, local_rank));
  }
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(local_rank));
  return std::make_unique<CudaDevice>(local_rank);
}

std::string torch_version() { return TORCH_VERSION; }

}  // namespace lowgear::trainer
