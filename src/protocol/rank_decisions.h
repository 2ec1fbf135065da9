#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

/// The part of a job's work that may change while it trains.
struct JobWork {
  int layers = 1;         ///< of the model
  int frozen_layers = 0;  ///< of them
  std::string precision;  ///< in which most is computed, as a word: `bf16`
  friend bool operator==(const JobWork&, const JobWork&) = default;
};

/// A decision about how the job runs that the training program made.
struct TrainingDecision {
  std::int64_t number = 1;          ///< counts up within the process
  double age_s = 0;                 ///< time since it was made
  std::int64_t from_iteration = 0;  ///< the first one that runs as it says
  std::string technique;            ///< what decides, as a word: `freezing`
  std::string change;               ///< what it does, as a word: `adopt`
  std::string configuration;        ///< how the job runs from then on, at most kMaxNameBytes
  std::string reason;               ///< at most kMaxReasonBytes
  friend bool operator==(const TrainingDecision&, const TrainingDecision&) = default;
};

/// The body of POST .../decisions (docs/server-api.md).
struct RankDecisions {
  int rank = 0;
  std::optional<JobWork> work;              ///< empty: as it was
  std::vector<TrainingDecision> decisions;  ///< numbers rise
  friend bool operator==(const RankDecisions&, const RankDecisions&) = default;
};

inline constexpr std::size_t kMaxDecisionsPerRequest = 100;
inline constexpr std::size_t kMaxReasonBytes = 1'000;
inline constexpr std::size_t kMaxWordBytes = 32;
inline constexpr int kMaxLayers = 1'000'000;

/// Whether the text is 1 to kMaxWordBytes of a-z, 0-9 and `_`: metrics have it as a label.
[[nodiscard]] bool is_word(std::string_view text);

/// Throws InputError with the JSON path, also when numbers do not rise.
[[nodiscard]] RankDecisions read_rank_decisions(const JsonView& body);
/// As a rank sends it: one line of text.
[[nodiscard]] std::string write_rank_decisions(const RankDecisions& decisions);

[[nodiscard]] Json to_json(const JobWork& work);
/// Throws InputError with the JSON path.
[[nodiscard]] JobWork read_job_work(const JsonView& value);

}  // namespace lowgear::protocol
