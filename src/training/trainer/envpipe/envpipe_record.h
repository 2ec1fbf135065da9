#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/planner/policies/envpipe/envpipe_reconfiguration.h"
#include "planning/schedule/dag.h"
#include "training/trainer/measuring/metrics_file.h"

namespace lowgear::trainer {

/// The file `energy.envpipe.log` (docs/formats.md): what each step of the reconfiguration measured and decided.
class EnvPipeRecord {
 public:
  /// Throws what MetricsFile throws.
  EnvPipeRecord(const std::filesystem::path& path, std::int64_t first_step) : file_(path, first_step) {}

  /// Before the first decision, with the clocks that it starts from, by op.
  void begin(std::int64_t step, const Json& settings, const schedule::PipelineDag& dag,
             const planner::EnvPipeState& state);
  /// Receives and clocks by op.
  void add(std::int64_t step, const schedule::PipelineDag& dag, std::span<const double> receive_s,
           const planner::EnvPipeReconfiguration::Step& decided, const planner::EnvPipeState& state);

 private:
  void write(const Json& line);

  MetricsFile file_;
};

}  // namespace lowgear::trainer
