#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/adapt/change_controller.h"
#include "planning/adapt/freezing/controller.h"

namespace lowgear::adapt {

/// An iteration as a controller observed it, and its decisions.
struct ChangeStep {
  std::optional<freezing::Observation> window;  ///< that ended with it; observed before the iteration
  IterationSeen iteration;
  std::vector<ChangeDecision> decisions;
};

/// A controller's life, from its start or from a state on.
struct ChangeRecord {
  ChangeOptions options;
  ChangeState start;
  std::vector<ChangeStep> steps;
};

/// The record as lines of JSON (docs/formats.md): the first is by `write_change_header`, each other one by
/// `write_change_line`, without their ends. Numbers are written so that they are read back bit for bit; NaN and
/// infinity as null. Each has the last step before it as `step`.
[[nodiscard]] std::string write_change_header(const ChangeOptions& options, const ChangeState& start,
                                              std::int64_t steps_done);
[[nodiscard]] std::string write_change_line(const ChangeStep& step);
/// Throws InputError with file, line and JSON path on anything else. A header in the middle begins another record: a
/// run that was continued.
[[nodiscard]] std::vector<ChangeRecord> read_change_records(std::string_view text, const std::string& source);

/// The decisions of a controller on the record's observations, step by step.
[[nodiscard]] std::vector<std::vector<ChangeDecision>> replay(const ChangeRecord& record);

/// For lines of metrics: without the number of steps.
[[nodiscard]] Json decision_json(const ChangeDecision& decision);

/// A state as JSON, for checkpoints.
[[nodiscard]] Json change_state_json(const ChangeState& state);
/// Throws InputError with the JSON path.
[[nodiscard]] ChangeState change_state_of(const JsonView& map);

}  // namespace lowgear::adapt
