#include "training/trainer/measuring/simulated_gpu.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::trainer {
namespace {

constexpr double kNsPerS = 1e9;

}  // namespace

UnitKernel simulated_kernel(const launcher::SimulatedGpuConfig& config, const StageRange& range,
                            std::int64_t frozen_blocks, OpKind kind, double attention) {
  const std::int64_t skipped = kind == OpKind::forward ? 0 : frozen_blocks;
  const double layer_s = config.layer_forward_s * (1 + config.attention_share * (attention - 1));
  double time_s = static_cast<double>(range.layers.size() - skipped) * layer_s;
  if (range.first && skipped == 0) time_s += config.embedding_forward_s;
  if (range.last) time_s += config.head_forward_s;
  if (kind != OpKind::forward) time_s *= config.backward_factor;
  if (kind == OpKind::input_gradient || kind == OpKind::weight_gradient) time_s /= 2;
  return {time_s * (1 - config.memory_share), time_s * config.memory_share, config.load};
}

/// The simulation's own calls (hardware/simgpu/lowgear_simgpu.h) in the library that also stands for NVML.
class SimulatedDevice::Library {
 public:
  explicit Library(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw InputError(fmt::format("simulated_gpu: {}", ::dlerror()));
    find_ = symbol<int (*)(const char*, int*)>("lowgear_simgpu_find");
    attach_ = symbol<int (*)(int)>("lowgear_simgpu_attach");
    detach_ = symbol<int (*)(int)>("lowgear_simgpu_detach");
    run_kernel_ = symbol<int (*)(int, double, double, double, double, double*)>("lowgear_simgpu_run_kernel");
    error_ = symbol<const char* (*)()>("lowgear_simgpu_error");
  }
  ~Library() { ::dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  [[nodiscard]] int find(const std::string& uuid) const {
    int index = 0;
    check(find_(uuid.c_str(), &index));
    return index;
  }
  void attach(int index) const { check(attach_(index)); }
  void detach(int index) const { (void)detach_(index); }
  void run_kernel(int index, const UnitKernel& kernel) const {
    check(run_kernel_(index, kernel.compute_s, kernel.memory_s, kernel.load, kernel.load, nullptr));
  }

 private:
  template <typename Function>
  Function symbol(const char* name) const {
    void* found = ::dlsym(handle_, name);
    if (found == nullptr) {
      throw InputError(
          "simulated_gpu: this machine's NVML is not the simulation; set LOWGEAR_NVML to its libnvidia-ml.so.1, or "
          "leave "
          "simulated_gpu out");
    }
    return reinterpret_cast<Function>(found);
  }
  void check(int code) const {
    if (code != 0) throw InputError(fmt::format("simulated_gpu: {}", error_()));
  }

  void* handle_;
  int (*find_)(const char*, int*) = nullptr;
  int (*attach_)(int) = nullptr;
  int (*detach_)(int) = nullptr;
  int (*run_kernel_)(int, double, double, double, double, double*) = nullptr;
  const char* (*error_)() = nullptr;
};

SimulatedDevice::SimulatedDevice(const std::string& nvml_library, const std::string& uuid)
    : library_(std::make_unique<Library>(nvml_library)), index_(library_->find(uuid)) {
  library_->attach(index_);
  thread_ = std::thread([this] { run(); });
}

SimulatedDevice::~SimulatedDevice() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  library_->detach(index_);
}

void SimulatedDevice::begin(const UnitKernel& kernel) {
  const std::scoped_lock lock(mutex_);
  kernel_ = kernel;
  running_ = true;
  begun_ns_ = monotonic_ns();
  changed_.notify_all();
}

void SimulatedDevice::end() {
  const std::int64_t computed_ns = monotonic_ns();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !running_; });
  if (!failure_.empty()) throw Error(failure_);
  ++times_.units;
  times_.kernel_s += static_cast<double>(done_ns_ - begun_ns_) / kNsPerS;
  if (computed_ns <= done_ns_) return;
  ++times_.outlasted;
  times_.excess_s += static_cast<double>(computed_ns - done_ns_) / kNsPerS;
}

void SimulatedDevice::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return running_ || stopping_; });
    if (stopping_) return;
    const UnitKernel kernel = kernel_;
    lock.unlock();
    std::string failure;
    try {
      library_->run_kernel(index_, kernel);
    } catch (const Error& error) {
      failure = error.what();
    }
    lock.lock();
    failure_ = std::move(failure);
    done_ns_ = monotonic_ns();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace lowgear::trainer
