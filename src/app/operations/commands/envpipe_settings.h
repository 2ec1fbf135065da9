#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lowgear::operations {

/// The options of `lowgear train` that are settings of the policy `envpipe`.
struct EnvPipeSettings {
  /// As the configuration has them: `energy.envpipe.type=uniform`.
  std::vector<std::string> settings;
};

/// `--envpipe-type`, `-scheduling`, `-reconfig`, `-threshold-scale`, `-start-clock`, `-lowest-clock`, `-transfer`,
/// `-config`, `-profile`, `-blocking-power`, `-log` and `--memory-limit`. Values are checked where the configuration is
/// read; paths are relative to the current folder. The settings must outlive `app`.
void add_envpipe_settings(CLI::App& app, EnvPipeSettings& settings);

}  // namespace lowgear::operations
