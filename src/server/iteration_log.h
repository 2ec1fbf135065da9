#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/json.h"

namespace lowgear {

/// What one rank measured of one iteration.
struct IterationReport {
  std::int64_t iteration = 0;
  int plan_version = 0;  ///< in force on the rank
  double time_s = 0;
  double compute_s = 0;  ///< of its units, without waiting
  std::optional<double> energy_j;
  double energy_error_j = 0;
  double throttled_power = 0;    ///< share of the time in which the power limit held the clock down
  double throttled_thermal = 0;  ///< share of the time in which heat did
};

/// What a rank's GPU was last seen at; what it does not report is empty.
struct GpuNow {
  std::optional<double> power_w;
  std::optional<double> sm_clock_mhz;
  std::optional<double> temperature_c;
};

/// The body of POST .../reports.
struct RankReports {
  int rank = 0;
  std::vector<IterationReport> reports;  ///< iterations rise
  GpuNow gpu;
};

inline constexpr std::size_t kMaxReportsPerRequest = 1'000;

/// Throws InputError with the JSON path, also when iterations do not rise.
[[nodiscard]] RankReports read_rank_reports(const JsonView& body);
[[nodiscard]] Json to_json(const RankReports& reports);

/// One iteration of the whole job.
struct JobIteration {
  std::int64_t iteration = 0;
  int plan_version = 0;            ///< of all ranks; kMixedPlans when they differ
  int ranks = 0;                   ///< that reported it
  double time_s = 0;               ///< of the slowest rank
  std::optional<double> energy_j;  ///< sum; empty unless every rank of the job measured it
  double energy_error_j = 0;
  /// By rank, of those that reported; otherwise empty.
  std::vector<std::optional<IterationReport>> reports;
};

inline constexpr int kMixedPlans = -1;

[[nodiscard]] Json to_json(const JobIteration& iteration);

/// Puts the reports of all ranks of a job together, iteration by iteration.
class IterationLog {
 public:
  explicit IterationLog(int ranks);

  /// Adds what a rank reported, but what it had reported before. Returns how many were new.
  std::size_t add(const RankReports& reports);
  /// No more reports will come from this rank.
  void finish(int rank);

  /// The next iteration in order that every unfinished rank has reported, or that is given up because some rank is
  /// kOpenIterations behind; empty when there is none yet.
  [[nodiscard]] std::optional<JobIteration> next();

  /// Newest iteration that `rank` has reported; -1: none.
  [[nodiscard]] std::int64_t last_iteration(int rank) const { return last_.at(static_cast<std::size_t>(rank)); }
  /// Newest iteration that any rank has reported; -1: none.
  [[nodiscard]] std::int64_t latest() const { return latest_; }

  /// Iterations that wait for reports at most, so that a rank that went silent does not hold the job's memory.
  static constexpr std::size_t kOpenIterations = 32;

 private:
  struct Open {
    std::vector<std::optional<IterationReport>> reports;
    int reported = 0;
  };
  [[nodiscard]] bool complete(const Open& open) const;

  int ranks_;
  std::vector<std::int64_t> last_;
  std::vector<bool> finished_;
  int finished_ranks_ = 0;
  std::int64_t latest_ = -1;
  std::int64_t next_ = 0;  ///< iterations below are closed
  std::map<std::int64_t, Open> open_;
};

}  // namespace lowgear
