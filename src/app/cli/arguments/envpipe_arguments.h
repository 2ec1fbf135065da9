#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/cli/arguments/pipeline_input.h"
#include "rivals/policies/envpipe/envpipe_config.h"

namespace lowgear::cli {

/// The settings of the policy `envpipe` on the command line.
struct EnvPipeArguments {
  std::string config;  ///< EnvPipe's own file; empty: none
  /// Given options, which override the file.
  std::vector<std::function<void(policies::EnvPipeOptions& options)>> given;
};

/// `--envpipe-type`, `-scheduling`, `-reconfig`, `-threshold-scale`, `-start-clock`, `-lowest-clock`, `-transfer`,
/// `-config`. The arguments must outlive `app`.
void add_envpipe_options(CLI::App& app, EnvPipeArguments& arguments);

/// The settings for a pipeline, the time of a transfer as its profile states it, its memory as `--memory-limit` or
/// `--extra-activations` has it. Throws InputError when both are given, when the limit is below the memory of 1F1B, and
/// when the file is not in EnvPipe's format.
[[nodiscard]] policies::EnvPipeOptions envpipe_options(const EnvPipeArguments& arguments,
                                                       const std::optional<std::string>& memory_limit,
                                                       const std::optional<int>& extra_activations,
                                                       const PipelineInput& input);

}  // namespace lowgear::cli
