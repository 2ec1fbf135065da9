#include "app/operations/doctor/gpu_load.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "base/core/error.h"
#include "base/core/stopwatch.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::operations::doctor {
namespace {

class SimulatedLoad final : public GpuLoad {
 public:
  explicit SimulatedLoad(const std::string& uuid)
      : machine_(simgpu::SimulatedMachine::from_environment()), gpu_(&find(*machine_, uuid)) {
    gpu_->attach_context();
  }
  ~SimulatedLoad() override { gpu_->detach_context(); }
  SimulatedLoad(const SimulatedLoad&) = delete;
  SimulatedLoad& operator=(const SimulatedLoad&) = delete;

  void run() override { gpu_->run({.compute_s = kGpuLoadS, .compute_load = kLoad, .memory_load = 0}); }

 private:
  static constexpr double kLoad = 0.1;  ///< no power limit holds the clock down

  static simgpu::SimulatedGpu& find(simgpu::SimulatedMachine& machine, const std::string& uuid) {
    for (int index = 0; index < machine.gpus(); ++index) {
      if (machine.gpu(index).uuid() == uuid) return machine.gpu(index);
    }
    throw InputError(fmt::format("LOWGEAR_SIMGPU names a simulated machine without the GPU {}", uuid));
  }

  std::unique_ptr<simgpu::SimulatedMachine> machine_;
  simgpu::SimulatedGpu* gpu_;
};

/// One thread that multiplies and adds: its cycles do not depend on the clock. It stores its result, so that no
/// compiler leaves it out.
constexpr const char* kSpinKernel = R"(
.version 6.0
.target sm_60
.address_size 64
.visible .entry lowgear_spin(.param .u32 rounds, .param .u64 result)
{
  .reg .pred %again;
  .reg .b32 %round, %rounds;
  .reg .f32 %value, %factor;
  .reg .b64 %result;
  ld.param.u32 %rounds, [rounds];
  ld.param.u64 %result, [result];
  cvta.to.global.u64 %result, %result;
  mov.u32 %round, 0;
  mov.f32 %value, 0f3F000000;
  mov.f32 %factor, 0f3F7FFFFF;
SPIN:
  fma.rn.f32 %value, %value, %factor, %value;
  fma.rn.f32 %value, %value, %factor, %factor;
  fma.rn.f32 %value, %value, %factor, %value;
  fma.rn.f32 %value, %value, %factor, %factor;
  add.u32 %round, %round, 1;
  setp.lt.u32 %again, %round, %rounds;
  @%again bra SPIN;
  st.global.f32 [%result], %value;
  ret;
}
)";

/// What is used of CUDA's driver API (cuda.h of CUDA 12). Its library comes with the driver, so it is loaded, not
/// linked.
class CudaDriver {
 public:
  using Device = int;
  using Handle = void*;  ///< CUcontext, CUmodule, CUfunction
  using DevicePointer = std::uint64_t;

  CudaDriver() : library_(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw Error(fmt::format("CUDA's driver library cannot be loaded: {}", ::dlerror()));
    load(init, "cuInit");
    load(error_name, "cuGetErrorName");
    load(device_by_pci, "cuDeviceGetByPCIBusId");
    load(retain_context, "cuDevicePrimaryCtxRetain");
    load(release_context, "cuDevicePrimaryCtxRelease_v2");
    load(set_context, "cuCtxSetCurrent");
    load(synchronize, "cuCtxSynchronize");
    load(load_module, "cuModuleLoadData");
    load(find_function, "cuModuleGetFunction");
    load(allocate, "cuMemAlloc_v2");
    load(launch, "cuLaunchKernel");
  }

  void check(int code, const char* what) const {
    if (code == 0) return;
    const char* name = nullptr;
    (void)error_name(code, &name);
    throw Error(fmt::format("CUDA cannot {}: {}", what, name != nullptr ? name : fmt::to_string(code)));
  }

  int (*init)(unsigned) = nullptr;
  int (*error_name)(int, const char**) = nullptr;
  int (*device_by_pci)(Device*, const char*) = nullptr;
  int (*retain_context)(Handle*, Device) = nullptr;
  int (*release_context)(Device) = nullptr;
  int (*set_context)(Handle) = nullptr;
  int (*synchronize)() = nullptr;
  int (*load_module)(Handle*, const void*) = nullptr;
  int (*find_function)(Handle*, Handle, const char*) = nullptr;
  int (*allocate)(DevicePointer*, std::size_t) = nullptr;
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                void**) = nullptr;

 private:
  struct Closer {
    void operator()(void* library) const { ::dlclose(library); }
  };

  template <typename Function>
  void load(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library_.get(), name));
    if (function == nullptr) throw Error(fmt::format("CUDA's driver library has no {}: install a newer driver", name));
  }

  std::unique_ptr<void, Closer> library_;
};

class CudaLoad final : public GpuLoad {
 public:
  explicit CudaLoad(const std::string& pci_address) {
    cuda_.check(cuda_.init(0), "start");
    cuda_.check(cuda_.device_by_pci(&device_, pci_address.c_str()), "find the GPU");
    context_ = Context(cuda_, device_);
    cuda_.check(cuda_.set_context(context_.get()), "use the GPU");
    CudaDriver::Handle module = nullptr;
    cuda_.check(cuda_.load_module(&module, kSpinKernel), "load a kernel");
    cuda_.check(cuda_.find_function(&spin_, module, "lowgear_spin"), "find its kernel");
    cuda_.check(cuda_.allocate(&result_, sizeof(float)), "allocate memory");
    calibrate();
  }

  void run() override {
    std::array<void*, 2> arguments = {&rounds_, &result_};
    cuda_.check(cuda_.launch(spin_, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments.data(), nullptr), "start a kernel");
    cuda_.check(cuda_.synchronize(), "run a kernel");
  }

 private:
  /// The primary context of a device. Its release frees module and memory, too.
  class Context {
   public:
    Context() = default;
    Context(const CudaDriver& cuda, CudaDriver::Device device) : cuda_(&cuda), device_(device) {
      cuda.check(cuda.retain_context(&handle_, device), "make a context");
    }
    ~Context() {
      if (cuda_ != nullptr) (void)cuda_->release_context(device_);
    }
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    Context& operator=(Context&& other) noexcept {
      std::swap(cuda_, other.cuda_);
      std::swap(device_, other.device_);
      std::swap(handle_, other.handle_);
      return *this;
    }
    [[nodiscard]] CudaDriver::Handle get() const { return handle_; }

   private:
    const CudaDriver* cuda_ = nullptr;
    CudaDriver::Device device_ = 0;
    CudaDriver::Handle handle_ = nullptr;
  };

  /// At the clock of a GPU that no one has locked, which is its highest: hardly any power is drawn.
  void calibrate() {
    constexpr std::uint32_t kFirstRounds = 10'000;
    constexpr int kWarmUps = 20;
    rounds_ = kFirstRounds;
    run();
    while (true) {
      double fastest_s = INFINITY;
      for (int i = 0; i < kWarmUps; ++i) {
        const Stopwatch stopwatch;
        run();
        fastest_s = std::min(fastest_s, stopwatch.elapsed_s());
      }
      const double factor = std::clamp(kGpuLoadS / fastest_s, 1.0, 10.0);
      rounds_ = static_cast<std::uint32_t>(rounds_ * factor);
      if (factor < 10) return;
    }
  }

  CudaDriver cuda_;
  CudaDriver::Device device_ = 0;
  Context context_;
  CudaDriver::Handle spin_ = nullptr;
  CudaDriver::DevicePointer result_ = 0;
  std::uint32_t rounds_ = 0;
};

}  // namespace

std::unique_ptr<GpuLoad> simulated_gpu_load(const std::string& uuid) { return std::make_unique<SimulatedLoad>(uuid); }

std::unique_ptr<GpuLoad> cuda_gpu_load(const std::string& pci_address) {
  return std::make_unique<CudaLoad>(pci_address);
}

}  // namespace lowgear::operations::doctor
