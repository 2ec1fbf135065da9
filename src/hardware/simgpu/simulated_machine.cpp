#include "hardware/simgpu/simulated_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "hardware/simgpu/mapped_gpu.h"
#include "hardware/simgpu/shared_state.h"

namespace lowgear::simgpu {
namespace {

class MappedMachine final : public SimulatedMachine {
 public:
  explicit MappedMachine(SharedState state) : state_(std::move(state)) {
    for (SharedGpu& gpu : state_.gpus()) gpus_.push_back(std::make_unique<MappedGpu>(gpu, MachineClock(state_)));
  }
  ~MappedMachine() override = default;
  MappedMachine(const MappedMachine&) = delete;  // its GPUs refer to its state
  MappedMachine& operator=(const MappedMachine&) = delete;

  int gpus() const override { return static_cast<int>(gpus_.size()); }
  SimulatedGpu& gpu(int index) override {
    if (index < 0 || index >= gpus()) {
      throw InputError(fmt::format("there is no simulated GPU {}; there are {}", index, gpus()));
    }
    return *gpus_[static_cast<std::size_t>(index)];
  }
  bool root_required() const override { return state_.header().constant.root_required != 0; }
  SimulatedClock clock() const override { return state_.header().constant.clock; }
  double now_s() override { return static_cast<double>(state_.now_ns()) * 1e-9; }
  void advance(double time_s) override {
    if (clock() == SimulatedClock::real)
      throw Error("simulated machine: it runs in real time, which cannot be advanced");
    wait(time_s);
  }
  void wait(double time_s) override { MachineClock(state_).wait(time_s); }

 private:
  SharedState state_;
  std::vector<std::unique_ptr<MappedGpu>> gpus_;
};

}  // namespace

std::unique_ptr<SimulatedMachine> SimulatedMachine::create(const std::filesystem::path& path,
                                                           const SimulatedMachineConfig& config) {
  return std::make_unique<MappedMachine>(SharedState::create(path, config));
}

std::unique_ptr<SimulatedMachine> SimulatedMachine::open(const std::filesystem::path& path) {
  return std::make_unique<MappedMachine>(SharedState::open(path));
}

std::filesystem::path SimulatedMachine::path_from_environment() {
  const char* const path = std::getenv("LOWGEAR_SIMGPU");
  if (path == nullptr || *path == '\0') {
    throw InputError("LOWGEAR_SIMGPU is not set; set it to the file of the simulated machine, e.g. /dev/shm/simgpu");
  }
  return path;
}

std::unique_ptr<SimulatedMachine> SimulatedMachine::from_environment() {
  const std::filesystem::path path = path_from_environment();
  std::error_code unknown;  // a folder that may not be entered: making the machine there says so
  if (!std::filesystem::exists(path, unknown)) {
    const char* const gpus = std::getenv("LOWGEAR_SIMGPU_GPUS");
    const SimulatedMachineConfig config{.gpus = gpu_models_from_text(gpus == nullptr || *gpus == '\0' ? "H100" : gpus)};
    try {
      return create(path, config);
    } catch (const InputError&) {
      // Another process was faster, unless it is not there even now.
      if (!std::filesystem::exists(path, unknown)) throw;
    }
  }
  return open(path);
}

std::vector<SimulatedGpuModel> gpu_models_from_text(std::string_view text) {
  std::vector<SimulatedGpuModel> models;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string_view item = text.substr(begin, end - begin);
    long long count = 1;
    if (const std::size_t times = item.find_first_not_of("0123456789");
        times != 0 && times != std::string_view::npos && (item[times] == 'x' || item[times] == 'X')) {
      count = parse_integer(item.substr(0, times)).value_or(0);
      item.remove_prefix(times + 1);
    }
    constexpr std::string_view kPowerFeatures = "+power";
    const bool power_features = item.ends_with(kPowerFeatures);
    if (power_features) item.remove_suffix(kPowerFeatures.size());
    const SimulatedGpuModel& found = find_gpu_model(item);
    const SimulatedGpuModel model = power_features ? with_power_features(found) : found;
    if (count < 1 || count + static_cast<long long>(models.size()) > kMaxSimulatedGpus) {
      throw InputError(fmt::format("{}: a simulated machine has 1 to {} GPUs", quote(text), kMaxSimulatedGpus));
    }
    models.insert(models.end(), static_cast<std::size_t>(count), model);
    begin = end + 1;
  }
  return models;
}

}  // namespace lowgear::simgpu
