#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "server/job/iteration_log.h"

namespace lowgear::server {

/// The progress of a job when a new plan is about to be handed out.
struct IterationProgress {
  std::int64_t latest_complete = -1;  ///< highest iteration that any rank is known to have completed; -1: none
  double since_complete_s = 0;        ///< how long ago it was
  double iteration_time_s = 0;  ///< shortest that an iteration may take: the faster they are, the sooner it is late
};

/// The first iteration that runs with a new plan: the earliest that no rank has begun when `delivery_budget_s`, in
/// which all ranks receive, is over. The iteration after the latest complete one is taken to have begun at once and
/// the others to follow without a gap, so it is never before latest + 2. Throws InputError when a time is negative or
/// not finite, when iterations take no time, when the progress is below -1, or when the boundary is more than 10^9
/// iterations away.
[[nodiscard]] std::int64_t switch_boundary(const IterationProgress& progress, double delivery_budget_s);

/// Ranks that have reported an iteration without following the plan that was due in it.
struct NotFollowing {
  int ranks = 0;
  int first_rank = 0;
};

/// Iterations that were counted without the reports of some ranks: their time is that of the other ranks, and their
/// energy is not known.
struct Incomplete {
  std::int64_t iterations = 0;
  std::int64_t last = -1;
  std::vector<int> ranks;  ///< that have not reported the last one; lowest first
};

/// Iterations in which one rank's time was far above those of all others, and does not count.
struct TimesApart {
  std::int64_t iterations = 0;
  std::int64_t last = -1;
  int rank = 0;  ///< of the last one
  double time_s = 0;
  double other_s = 0;  ///< of the rank that counts
};

/// A job's iterations: from the reports of its ranks to the last ones that are complete.
class IterationHistory {
 public:
  explicit IterationHistory(int ranks) : log_(ranks), unfollowed_since_(static_cast<std::size_t>(ranks), -1) {}

  /// As IterationLog::require_plausible.
  void require_plausible(const protocol::RankReports& reports, double now_s) const {
    log_.require_plausible(reports, now_s);
  }
  /// As IterationLog::add.
  std::size_t add(const protocol::RankReports& reports, double now_s);
  /// As IterationLog::restore.
  std::size_t restore(const protocol::RankReports& reports, double since_s) { return log_.restore(reports, since_s); }
  /// As IterationLog::next.
  [[nodiscard]] std::optional<JobIteration> next(double now_s) { return log_.next(now_s); }
  /// No more reports will come from this rank.
  void finish(int rank) { log_.finish(rank); }
  /// As IterationLog::end.
  void end() { left_out_ = log_.end(); }
  /// As IterationLog::count_elsewhere.
  void count_elsewhere(int rank, bool elsewhere) { log_.count_elsewhere(rank, elsewhere); }
  /// Keeps a complete iteration, without the ranks' reports. `due_version`: of the newest plan that ranks should follow
  /// in it; 0: there is none.
  void keep(const JobIteration& iteration, int due_version);

  /// The last iterations that were kept, newest last.
  [[nodiscard]] const std::deque<JobIteration>& kept() const { return kept_; }
  /// In the newest iteration.
  [[nodiscard]] const NotFollowing& not_following() const { return not_following_; }
  /// The last ones that were kept, as far as all ranks followed this plan in them. Newest first.
  [[nodiscard]] std::vector<JobIteration> recent(int plan_version, std::size_t most = kRecent) const;
  /// The last ones that were kept from this iteration on, whatever plans ranks followed; at most kRecent. Newest first.
  [[nodiscard]] std::vector<JobIteration> recent_since(std::int64_t iteration) const;
  /// The first of the newest iterations in which this rank has not followed the plan that was due; -1: it follows it.
  [[nodiscard]] std::int64_t unfollowed_since(int rank) const {
    return unfollowed_since_.at(static_cast<std::size_t>(rank));
  }
  [[nodiscard]] const Incomplete& incomplete() const { return incomplete_; }
  [[nodiscard]] const TimesApart& times_apart() const { return times_apart_; }
  /// As IterationLog::held_up.
  [[nodiscard]] std::optional<HeldUp> held_up() const { return log_.held_up(); }
  /// Iterations that were incomplete when the job ended, and are not counted.
  [[nodiscard]] const std::optional<HeldUp>& left_out() const { return left_out_; }
  /// As IterationLog::last_iteration.
  [[nodiscard]] std::int64_t last_iteration(int rank) const { return log_.last_iteration(rank); }
  /// As IterationLog::latest.
  [[nodiscard]] std::int64_t latest() const { return log_.latest(); }
  /// The first iteration in which all ranks can begin a plan that is issued now.
  [[nodiscard]] std::int64_t next_boundary(double now_s) const;

  static constexpr std::size_t kKept = 2'000;
  static constexpr std::size_t kRecent = 20;  ///< iterations that present figures are means of

 private:
  IterationLog log_;
  std::deque<JobIteration> kept_;
  double latest_s_ = 0;  ///< when the newest iteration was reported
  NotFollowing not_following_;
  std::vector<std::int64_t> unfollowed_since_;  ///< by rank
  Incomplete incomplete_;
  TimesApart times_apart_;
  std::optional<HeldUp> left_out_;
};

}  // namespace lowgear::server
