#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

/// The measurements of one rank in one iteration.
struct IterationReport {
  std::int64_t iteration = 0;
  int plan_version = 0;  ///< that the rank followed throughout; 0: none of the server's
  double time_s = 0;
  double compute_s = 0;            ///< of its units, without waiting
  std::optional<double> energy_j;  ///< empty: no GPU, or its counter has no value
  double energy_error_j = 0;
  double throttled_power = 0;       ///< share of the time in which the power limit held the clock down
  double throttled_thermal = 0;     ///< share of the time in which heat did
  std::optional<double> begin_s{};  ///< since 1970, by the rank's clock; empty: the server has not asked for it
  double delay_s = 0;               ///< that the rank waited before it began, as the server asked it to
  bool cannot_wait = false;         ///< its program lets no iteration be delayed
  /// Time from the unit before it (or the iteration's begin) to each unit, in order; not a number: not known. Empty
  /// unless the job's policy decides by it.
  std::vector<double> wait_s{};
  // Of a job of the policy `steps`.
  std::optional<double> units_time_s{};      ///< from the iteration's begin to the end of its last unit
  std::optional<double> predicted_time_s{};  ///< of the longest replica's units at full clocks; empty: not known
  bool full_clocks = false;                  ///< the rank had no clocks of its own for the iteration's lengths
  friend bool operator==(const IterationReport&, const IterationReport&) = default;
};

/// State of a rank's GPU in its last iterations; values that it does not report are empty.
struct GpuNow {
  std::optional<double> power_w;           ///< energy over time
  std::optional<double> sm_clock_mhz;      ///< time-weighted
  std::optional<double> sm_clock_min_mhz;  ///< of its readings
  std::optional<double> sm_clock_max_mhz;
  std::optional<double> temperature_c;  ///< the newest reading
  friend bool operator==(const GpuNow&, const GpuNow&) = default;
};

/// The body of POST .../reports (docs/server-api.md): measurements of a rank in its last iterations.
struct RankReports {
  int rank = 0;
  std::vector<IterationReport> reports;  ///< iterations rise
  GpuNow gpu;
  std::optional<double> sent_s{};  ///< since 1970, by the rank's clock; empty: no report has `begin_s`
  std::string refusal{};           ///< why the rank follows no plans, although it could; empty: it does
  friend bool operator==(const RankReports&, const RankReports&) = default;
};

/// Longest iteration that a report may state, or a prediction of one.
inline constexpr double kMaxIterationS = 1e6;
/// Shortest.
inline constexpr double kMinIterationS = 1e-9;
/// Units of an iteration of one rank of which waits are reported.
inline constexpr std::size_t kMaxReportedWaits = 16'384;
inline constexpr std::size_t kMaxReportsPerRequest = 1'000;

/// Throws InputError with the JSON path, also when iterations do not rise.
[[nodiscard]] RankReports read_rank_reports(const JsonView& body);
/// As the server keeps it.
[[nodiscard]] Json to_json(const RankReports& reports);
/// As a rank sends it: one line of text, in which readings that are whole numbers have no decimal point.
[[nodiscard]] std::string write_rank_reports(const RankReports& reports);

/// The body of POST .../finish (docs/server-api.md): this rank has ended.
struct RankFinish {
  int rank = 0;
  std::string failure{};  ///< what ended it, such as the type of an exception, without its text; empty: nothing did
  friend bool operator==(const RankFinish&, const RankFinish&) = default;
};

/// Begins the failure of a rank that left no word itself: its launcher speaks for it, later.
inline constexpr std::string_view kNoWordOfRank = "no word of it";

/// Throws InputError with the JSON path. `ranks`: number of ranks of the job.
[[nodiscard]] RankFinish read_rank_finish(const JsonView& body, int ranks);
[[nodiscard]] std::string write_rank_finish(const RankFinish& finish);

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
  std::int64_t from_iteration = 0;  ///< the first iteration that follows it
  std::string technique;            ///< the technique that decides, as a word: `freezing`
  std::string change;               ///< as a word: `adopt`
  std::string configuration;        ///< of the job from then on, at most kMaxNameBytes
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
