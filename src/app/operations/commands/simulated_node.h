#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::operations {

/// A program that this one starts.
struct ChildCommand {
  std::filesystem::path program;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  ///< in addition to this process' own
  std::filesystem::path output;                    ///< file that standard output and error are appended to
};

/// A running child in a process group of its own, so that a terminal's Ctrl-C reaches this process alone. The child
/// receives SIGTERM when this process ends in any way.
class ChildProcess {
 public:
  /// Throws Error when the child does not start, and InputError when the output cannot be written.
  explicit ChildProcess(const ChildCommand& command);
  /// Ends the child: SIGTERM, and SIGKILL after 30 s.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Exit status as a shell reports it (128 + signal); empty while the child runs.
  [[nodiscard]] std::optional<int> status();

 private:
  pid_t child_ = -1;
  std::optional<int> status_;
};

/// Simulated GPUs with an agent that sets their clocks, in a folder of their own that is removed with this.
class SimulatedNode {
 public:
  /// `gpus` as `lowgear simgpu create` takes them: `4xA100`; `log` gets the agent's output. Throws InputError on
  /// unknown GPUs and where the simulation's library is not installed, and Error where the agent does not start within
  /// a minute. Throws Interrupted.
  SimulatedNode(const std::string& gpus, const std::filesystem::path& log);
  ~SimulatedNode();
  SimulatedNode(const SimulatedNode&) = delete;
  SimulatedNode& operator=(const SimulatedNode&) = delete;

  /// Environment variables with which a process uses these GPUs.
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
/// InputError when there is none.
[[nodiscard]] std::filesystem::path simulated_nvml();

}  // namespace lowgear::operations
