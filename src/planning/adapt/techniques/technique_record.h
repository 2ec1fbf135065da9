#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/adapt/techniques/technique_controller.h"

namespace lowgear::adapt {

/// What a controller saw after an iteration, and what it decided.
struct TechniqueStep {
  std::optional<freezing::Observation> window;  ///< that ended with it; observed before the iteration
  IterationSeen iteration;
  std::vector<TechniqueDecision> decisions;
};

/// A controller's life, from its start or from a state on.
struct TechniqueRecord {
  TechniqueOptions options;
  TechniqueState start;
  std::vector<TechniqueStep> steps;
};

/// The record as lines of JSON (docs/formats.md): the first is by `write_technique_header`, each other one by
/// `write_technique_line`, without their ends. Numbers are written so that they are read back bit for bit; NaN and
/// infinity as null. Each has the last step before it as `step`.
[[nodiscard]] std::string write_technique_header(const TechniqueOptions& options, const TechniqueState& start,
                                                 std::int64_t steps_done);
[[nodiscard]] std::string write_technique_line(const TechniqueStep& step);
/// Throws InputError with file, line and JSON path on anything else. A header in the middle begins another record: a
/// run that was continued.
[[nodiscard]] std::vector<TechniqueRecord> read_technique_records(std::string_view text, const std::string& source);

/// What a controller decides on the record's observations, step by step.
[[nodiscard]] std::vector<std::vector<TechniqueDecision>> replay(const TechniqueRecord& record);

/// For lines of metrics: without the number of steps.
[[nodiscard]] Json decision_json(const TechniqueDecision& decision);

/// A state as JSON, for checkpoints.
[[nodiscard]] Json technique_state_json(const TechniqueState& state);
/// Throws InputError with the JSON path.
[[nodiscard]] TechniqueState technique_state_of(const JsonView& map);

}  // namespace lowgear::adapt
