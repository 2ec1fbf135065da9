#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "app/operations/runs/child_process.h"

namespace lowgear::simgpu {
class SimulatedMachine;
}

namespace lowgear::operations {

/// Simulated GPUs with an agent that sets their clocks, in a folder of their own that is removed with this.
class SimulatedNode {
 public:
  /// `gpus` as `lowgear simgpu create` takes them: `4xA100`; `log` gets what the agent writes. Throws InputError on
  /// unknown GPUs and where the simulation's library is not installed, and Error where the agent does not start within
  /// a minute. Throws Interrupted.
  SimulatedNode(const std::string& gpus, const std::filesystem::path& log);
  ~SimulatedNode();
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  /// With which a process uses them.
  [[nodiscard]] const std::map<std::string, std::string>& environment() const { return environment_; }

 private:
  void wait_for_agent();

  std::filesystem::path folder_;
  std::filesystem::path log_;
  std::map<std::string, std::string> environment_;
  std::unique_ptr<simgpu::SimulatedMachine> machine_;
  std::unique_ptr<ChildProcess> agent_;
};

/// The simulation's NVML library: that of LOWGEAR_NVML, or the one built or installed with this program. Throws
/// InputError where there is none.
[[nodiscard]] std::filesystem::path simulated_nvml();

}  // namespace lowgear::operations
