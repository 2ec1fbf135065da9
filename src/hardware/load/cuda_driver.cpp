#include "hardware/load/cuda_driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

#include "hardware/gpu/gpu.h"

namespace lowgear::load {
namespace {

constexpr const char* kFile = "libcuda.so.1";
// Of cuda.h.
constexpr int kAttributeMultiprocessors = 16;
constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;
constexpr int kMostDynamicSharedBytes = 8;
constexpr unsigned kHostMemoryMapped = 2;

[[noreturn]] void fail(gpu::GpuErrorCode code, const std::string& message) { throw gpu::GpuError(code, message); }

template <typename... Parameters>
void find(void* handle, int (*&function)(Parameters...), const char* name) {
  function = reinterpret_cast<int (*)(Parameters...)>(dlsym(handle, name));
  if (function != nullptr) return;
  fail(gpu::GpuErrorCode::driver_missing, fmt::format("{} lacks {}: install a newer NVIDIA driver", kFile, name));
}

}  // namespace

struct CudaDriver::Library {
  Library() : handle(dlopen(kFile, RTLD_NOW | RTLD_LOCAL)) {
    if (handle == nullptr) {
      fail(gpu::GpuErrorCode::driver_missing,
           fmt::format("CUDA's driver library {} cannot be loaded; install NVIDIA's driver (Debian: libcuda1)", kFile));
    }
    find(handle, init, "cuInit");
    find(handle, get_error_string, "cuGetErrorString");
    find(handle, device_by_pci, "cuDeviceGetByPCIBusId");
    find(handle, device_attribute, "cuDeviceGetAttribute");
    find(handle, retain_context, "cuDevicePrimaryCtxRetain");
    find(handle, release_context, "cuDevicePrimaryCtxRelease_v2");
    find(handle, set_context, "cuCtxSetCurrent");
    find(handle, synchronize, "cuCtxSynchronize");
    find(handle, load_module, "cuModuleLoadDataEx");
    find(handle, get_function, "cuModuleGetFunction");
    find(handle, set_function_attribute, "cuFuncSetAttribute");
    find(handle, allocate, "cuMemAlloc_v2");
    find(handle, allocate_host, "cuMemHostAlloc");
    find(handle, host_address, "cuMemHostGetDevicePointer_v2");
    find(handle, launch, "cuLaunchKernel");
  }
  ~Library() { dlclose(handle); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* handle;
  int (*init)(unsigned) = nullptr;
  int (*get_error_string)(int, const char**) = nullptr;
  int (*device_by_pci)(int*, const char*) = nullptr;
  int (*device_attribute)(int*, int, int) = nullptr;
  int (*retain_context)(void**, int) = nullptr;
  int (*release_context)(int) = nullptr;
  int (*set_context)(void*) = nullptr;
  int (*synchronize)() = nullptr;
  int (*load_module)(void**, const void*, unsigned, int*, void**) = nullptr;
  int (*get_function)(void**, void*, const char*) = nullptr;
  int (*set_function_attribute)(void*, int, int) = nullptr;
  int (*allocate)(Address*, std::size_t) = nullptr;
  int (*allocate_host)(void**, std::size_t, unsigned) = nullptr;
  int (*host_address)(Address*, void*, unsigned) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                void**) = nullptr;
};

CudaDriver::CudaDriver(const std::string& pci_address) : library_(std::make_unique<Library>()) {
  check(library_->init(0), "initialise CUDA");
  check(library_->device_by_pci(&device_, pci_address.c_str()), "find the GPU at " + pci_address);
  int major = 0;
  int minor = 0;
  check(library_->device_attribute(&multiprocessors_, kAttributeMultiprocessors, device_), "count multiprocessors");
  check(library_->device_attribute(&major, kAttributeMajor, device_), "read the compute capability");
  check(library_->device_attribute(&minor, kAttributeMinor, device_), "read the compute capability");
  compute_capability_ = 10 * major + minor;
  check(library_->retain_context(&context_, device_), "open a context");
  check(library_->set_context(context_), "open a context");
}

CudaDriver::~CudaDriver() {
  if (context_ != nullptr) library_->release_context(device_);  // frees memory and modules, too
}

void CudaDriver::check(int code, std::string_view what) const {
  if (code == 0) return;
  const char* words = nullptr;
  library_->get_error_string(code, &words);
  fail(gpu::GpuErrorCode::driver_error,
       fmt::format("CUDA cannot {}: {}", what, words != nullptr ? words : "unknown error"));
}

void* CudaDriver::load_module(const std::string& ptx) const {
  // CU_JIT_ERROR_LOG_BUFFER and its size.
  std::array<char, 2048> log{};
  std::array<int, 2> options = {5, 6};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
  void* module = nullptr;
  const int code = library_->load_module(&module, ptx.c_str(), options.size(), options.data(), values.data());
  check(code, fmt::format("compile the load's kernel ({})", printable(log.data())));
  return module;
}

CudaDriver::Function CudaDriver::function(void* module, const char* name) const {
  Function function = nullptr;
  check(library_->get_function(&function, module, name), "find a kernel");
  return function;
}

void CudaDriver::allow_shared_bytes(Function function, unsigned bytes) const {
  check(library_->set_function_attribute(function, kMostDynamicSharedBytes, static_cast<int>(bytes)),
        "give a kernel shared memory");
}

CudaDriver::Address CudaDriver::allocate(std::size_t bytes) const {
  Address address = 0;
  check(library_->allocate(&address, bytes), "allocate memory");
  return address;
}

CudaDriver::SharedMemory CudaDriver::allocate_shared(std::size_t bytes) const {
  SharedMemory memory;
  check(library_->allocate_host(&memory.host, bytes, kHostMemoryMapped), "allocate memory of the host");
  check(library_->host_address(&memory.device, memory.host, 0), "map memory of the host");
  return memory;
}

void CudaDriver::launch(Function function, unsigned blocks, unsigned threads, unsigned shared_bytes,
                        void** parameters) const {
  check(library_->launch(function, blocks, 1, 1, threads, 1, 1, shared_bytes, nullptr, parameters, nullptr),
        "start a kernel");
}

void CudaDriver::synchronize() const { check(library_->synchronize(), "run the load"); }

}  // namespace lowgear::load
