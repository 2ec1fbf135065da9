#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/adapt/freezing/controller.h"

namespace lowgear::adapt::freezing {

/// A window, and what was decided after it.
struct Step {
  Observation observation;
  Decision decision;
};

/// A controller's life, from its start or from a state on.
struct Record {
  std::int64_t blocks = 0;  ///< of the model
  Options options;
  State start;
  std::vector<Step> steps;
};

/// The record as lines of JSON (docs/formats.md): the first is by `write_header`, each other one by `write_line`,
/// without their ends. Numbers are written so that they are read back bit for bit; NaN and infinity as null. Each has
/// the last step before it as `step`.
[[nodiscard]] std::string write_header(std::int64_t blocks, const Options& options, const State& start,
                                       std::int64_t steps_done);
[[nodiscard]] std::string write_line(const Step& step);
/// Throws InputError with file, line and JSON path on anything else. A header in the middle begins another record: a
/// run that was continued.
[[nodiscard]] std::vector<Record> read_records(std::string_view text, const std::string& source);

/// What a controller decides on the record's observations.
[[nodiscard]] std::vector<Decision> replay(const Record& record);

// Parts of the record, which records of more than freezing contain, too. Those that read throw InputError with the JSON
// path.
[[nodiscard]] Json options_json(const Options& options);
[[nodiscard]] Options options_of(const JsonView& map);
[[nodiscard]] Json state_json(const State& state);
[[nodiscard]] State state_of(const JsonView& map);
[[nodiscard]] Json observation_json(const Observation& seen);
[[nodiscard]] Observation observation_of(const JsonView& map);

/// A state as JSON, for checkpoints.
[[nodiscard]] std::string write_state(const State& state);
/// Throws InputError with the JSON path.
[[nodiscard]] State parse_state(std::string_view text, const std::string& source);

}  // namespace lowgear::adapt::freezing
