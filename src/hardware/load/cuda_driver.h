#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace lowgear::load {

/// NVIDIA's library libcuda.so.1 and one GPU, loaded for the lifetime of this object: no CUDA is needed to build or run
/// it, only the driver. It changes no setting. Every call throws gpu::GpuError when it fails.
class CudaDriver {
 public:
  using Address = std::uint64_t;  ///< of the GPU's memory
  using Function = void*;

  /// The GPU at this PCI address.
  explicit CudaDriver(const std::string& pci_address);
  ~CudaDriver();
  CudaDriver(const CudaDriver&) = delete;
  CudaDriver& operator=(const CudaDriver&) = delete;

  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  /// 90: 9.0
  [[nodiscard]] int compute_capability() const { return compute_capability_; }

  /// Compiles PTX. Functions of it live as long as this object.
  [[nodiscard]] void* load_module(const std::string& ptx) const;
  [[nodiscard]] Function function(void* module, const char* name) const;
  void allow_shared_bytes(Function function, unsigned bytes) const;
  [[nodiscard]] Address allocate(std::size_t bytes) const;
  /// Memory of the host that the GPU reads and writes while kernels run.
  struct SharedMemory {
    void* host = nullptr;
    Address device = 0;
  };
  [[nodiscard]] SharedMemory allocate_shared(std::size_t bytes) const;
  /// `parameters`: addresses of the arguments. Returns at once.
  void launch(Function function, unsigned blocks, unsigned threads, unsigned shared_bytes, void** parameters) const;
  /// Waits until everything that was launched has ended.
  void synchronize() const;

 private:
  struct Library;
  void check(int code, std::string_view what) const;

  std::unique_ptr<Library> library_;
  void* context_ = nullptr;
  int device_ = 0;
  int multiprocessors_ = 0;
  int compute_capability_ = 0;
};

}  // namespace lowgear::load
