#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "estimating/curve/curve_sample.h"
#include "hardware/load/cuda_driver.h"
#include "hardware/load/load_kernel.h"

namespace lowgear::load {

/// Work that was done since a load began.
struct LoadWork {
  double operations = 0;
  double bytes = 0;
  double cache_bytes = 0;
};

/// Loads a GPU; reads and changes none of its settings. One load at a time.
class GpuLoad {
 public:
  virtual ~GpuLoad() = default;
  [[nodiscard]] virtual int multiprocessors() const = 0;
  /// Whether its tensor cores multiply this type.
  [[nodiscard]] virtual bool multiplies(curve::ProductType type) const = 0;
  /// Starts the load, which runs until `stop`, or ends by itself after a minute.
  virtual void start(const curve::CurveLoad& load) = 0;
  [[nodiscard]] virtual LoadWork work() const = 0;
  /// Ends the load and waits until it has ended.
  virtual void stop() = 0;
};

/// Loads a GPU through NVIDIA's driver.
class CudaLoad final : public GpuLoad {
 public:
  /// The GPU at this PCI address. Throws gpu::GpuError without driver or GPU.
  explicit CudaLoad(const std::string& pci_address);
  ~CudaLoad() override;

  [[nodiscard]] int multiprocessors() const override { return driver_.multiprocessors(); }
  [[nodiscard]] bool multiplies(curve::ProductType type) const override;
  void start(const curve::CurveLoad& load) override;
  [[nodiscard]] LoadWork work() const override;
  void stop() override;

 private:
  struct Compiled {
    LoadKernel kernel;
    CudaDriver::Function work = nullptr;
  };
  const Compiled& compiled(const curve::CurveLoad& load);

  CudaDriver driver_;
  CudaDriver::SharedMemory control_;
  CudaDriver::Address memory_ = 0;
  std::size_t region_bytes_ = 0;
  std::map<curve::ProductType, Compiled> kernels_;
  curve::CurveLoad load_;
  const Compiled* running_ = nullptr;
};

}  // namespace lowgear::load
