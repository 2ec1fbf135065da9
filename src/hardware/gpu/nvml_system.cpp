#include "hardware/gpu/nvml_system.h"

#include <utility>

#include "hardware/gpu/nvml_gpu.h"

namespace lowgear::gpu {
namespace {

class NvmlSystem final : public GpuSystem {
 public:
  explicit NvmlSystem(std::shared_ptr<const NvmlLibrary> library)
      : library_(std::move(library)), gpus_(open_gpus(library_)) {}

  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const override { return gpus_.gpus; }
  [[nodiscard]] const std::string& driver_version() const override { return library_->driver_version(); }
  [[nodiscard]] bool simulated() const override { return library_->simulated(); }
  [[nodiscard]] std::vector<std::string> problems() const override { return gpus_.problems; }

 private:
  std::shared_ptr<const NvmlLibrary> library_;
  NvmlGpus gpus_;
};

}  // namespace

std::unique_ptr<GpuSystem> open_nvml() { return std::make_unique<NvmlSystem>(NvmlLibrary::open()); }

}  // namespace lowgear::gpu
