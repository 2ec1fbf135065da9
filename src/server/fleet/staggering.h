#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "planning/api/power/stagger.h"
#include "protocol/answers.h"
#include "server/job/job_record.h"

namespace lowgear::server {

/// The present state of a job whose iterations can be staggered against those of others.
struct StaggeredJob {
  std::string id;
  int plan_version = 0;
  api::JobCycle cycle;   ///< planned power of an iteration, of the GPUs that count
  double waiting_w = 0;  ///< that these draw while the pipeline is empty
  std::optional<IterationBegins::Pace> pace;
  double most_delay_s = 0;    ///< by which an iteration may be delayed
  std::string not_delayed{};  ///< why that is 0; empty: it is not
};

/// After its plan a job's GPUs wait, while gradients are reduced and the optimizer steps, for as long as its recent
/// iterations took more. `share`: of its GPUs, those that count. Empty: it follows no plan.
[[nodiscard]] std::optional<StaggeredJob> staggered_job(const JobRecord& job, double share);

/// The job's power when its iterations begin once a period.
[[nodiscard]] api::JobCycle cycle_of(const StaggeredJob& job, double period_s);

/// Share of the time that the job's guard still allows an iteration which delays may take.
inline constexpr double kSlackShare = 0.25;
/// No delay is longer than this share of an iteration.
inline constexpr double kMostDelayShare = 0.1;

/// A job whose iterations may be delayed, one by one, so that it keeps a phase against others.
struct PhasedJob {
  double begin_s = 0;       ///< of the first iteration that a delay can act on, predicted; all jobs by one clock
  double time_s = 0;        ///< from begin to begin of its iterations, without delays
  double most_delay_s = 0;  ///< of one iteration
  double offset_s = 0;      ///< how long after the others' common begin its own should be
};

/// How jobs come to their phases and keep them.
struct Phases {
  double period_s = 0;          ///< of all: the longest iteration
  std::vector<double> error_s;  ///< by job: delays that are still needed, in [0, period)
  std::vector<double> delay_s;  ///< by job: of each of the next iterations
};

/// Jobs that can keep one period, as indices: by delays of at most `most_delay_s` an iteration all take as long as the
/// longest of them, which is named first. Every job is in one group, those that no other can follow alone.
[[nodiscard]] std::vector<std::vector<std::size_t>> same_period_groups(std::span<const PhasedJob> jobs);

/// Delays of the next `iterations` (at least 1) of each job. A job can wait for others and never catch up. So the
/// phases are against each other, and not against a clock: the job for which all come to their offsets in the fewest
/// iterations does not wait, and the others wait for it. Each also waits for the rest of the period after its own
/// iteration.
///
/// `jobs` are one group of `same_period_groups`. Throws InputError when it is empty, a time is not finite or not above
/// 0, or a delay is below 0.
[[nodiscard]] Phases keep_phases(std::span<const PhasedJob> jobs, int iterations);

/// Keeps the iterations of jobs at phases against each other for which their power together swings least, by delays
/// before iterations: small ones, again and again, as the times of iterations are never quite the same. Only jobs that
/// can keep one period by their delays are kept at phases; the others are named with the reason.
class PhaseKeeping {
 public:
  /// `most_pct`: as of `api::stagger_jobs`. To be called about once a second.
  void follow(std::span<const StaggeredJob> jobs, double most_pct, double now_s);

  /// Delays of the first rank of the job's pipeline; empty: none.
  [[nodiscard]] std::optional<protocol::IterationDelays> delays(const std::string& job) const;
  /// From begin to begin of the iterations of a job that is kept at its phase; 0 of another.
  [[nodiscard]] double period_s(const std::string& job) const;
  /// Whether any job waits at present.
  [[nodiscard]] bool acts() const;
  /// Adds the job's phase to its entry in GET /v1/budgets.
  void describe(const std::string& job, Json& entry) const;

 private:
  /// A job that is followed.
  struct Kept {
    std::optional<protocol::IterationDelays> order;  ///< the last one
    double period_s = 0;                             ///< 0: it is left out
    double offset_s = 0;
    double error_s = 0;
    std::string left_out;     ///< why; empty: it is not
    std::string not_delayed;  ///< why it never waits; empty: it can
  };
  /// Jobs whose offsets were chosen together.
  struct Group {
    std::vector<std::pair<std::string, int>> members;  ///< jobs and their plans
    double period_s = 0;
    double most_pct = 0;
    std::vector<double> offset_s;
  };

  [[nodiscard]] PhasedJob predicted(const StaggeredJob& job) const;
  void keep(std::span<const StaggeredJob* const> group, std::vector<PhasedJob> phased, double most_pct);
  [[nodiscard]] const std::vector<double>& offsets(std::span<const StaggeredJob* const> group, double period_s,
                                                   double most_pct);

  std::map<std::string, Kept, std::less<>> kept_;  ///< by job
  std::vector<Group> groups_;
  std::vector<Group> former_;  ///< of the follow before
};

/// How a budget staggers its jobs.
struct StaggerSettings {
  double most_pct = 0;   ///< longest delay against the others, in per cent of an iteration; 0: they are not staggered
  bool applies = false;  ///< jobs are delayed; otherwise it is only planned
  friend bool operator==(const StaggerSettings&, const StaggerSettings&) = default;
};

/// How the power of a budget's jobs would swing if they began their iterations together, and with the best delays that
/// were found: *planned*. Where the budget says so, jobs are also brought to these delays, and kept there.
class BudgetStagger {
 public:
  /// Plans only where anything has changed.
  void follow(const std::vector<StaggeredJob>& jobs, const StaggerSettings& settings, double now_s);
  /// Delays of the first rank of a job's pipeline.
  [[nodiscard]] std::optional<protocol::IterationDelays> delays(const std::string& job) const {
    return keeping_.delays(job);
  }
  /// The member `stagger` of a budget (docs/server-api.md).
  [[nodiscard]] Json to_json() const;

 private:
  std::vector<std::string> jobs_;
  std::vector<api::JobCycle> cycles_;
  StaggerSettings settings_;
  api::Stagger stagger_;
  PhaseKeeping keeping_;
};

}  // namespace lowgear::server
