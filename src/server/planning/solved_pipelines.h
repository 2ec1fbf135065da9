#pragma once

#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <utility>

#include "base/core/progress.h"
#include "planning/api/pipeline_solver.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/plan/plan.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/schedule/schedule.h"

namespace lowgear::server {

/// A number that is equal for equal sequences of values, and hardly ever for others. Not against attackers.
class Fingerprint {
 public:
  /// The finalizer of MurmurHash3 (Appleby, public domain), on the sum with the values before.
  void add(std::uint64_t value) {
    value_ += 0x9e3779b97f4a7c15 + value;
    value_ = (value_ ^ (value_ >> 33U)) * 0xff51afd7ed558ccd;
    value_ = (value_ ^ (value_ >> 33U)) * 0xc4ceb9fe1a85ec53;
    value_ ^= value_ >> 33U;
  }
  /// 0 and -0 are equal.
  void add(double value) { add(std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value)); }
  [[nodiscard]] std::size_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

/// Actions of the schedules whose solved pipelines are kept: some 1 GiB, as one takes 2 kB. That is 500 pipelines of 8
/// stages and 64 microbatches, or 4,000 of 4 and 16, each once for all jobs that have it.
inline constexpr std::size_t kKeptActions = 500'000;

using api::PipelineProblem;

[[nodiscard]] bool is_same(const PipelineProblem& a, const PipelineProblem& b);
/// Of problems that are the same it is equal.
[[nodiscard]] std::size_t fingerprint(const PipelineProblem& problem);
[[nodiscard]] std::size_t fingerprint(const schedule::Schedule& schedule);

/// A pipeline's frontier, and its plans, for all jobs that have it. Thread-safe.
class KeptPipeline final : public api::SolvedPipeline {
 public:
  /// Solves the frontier. `progress` may be null; an exception of it ends this. Throws InputError when the profile
  /// lacks a stage or kind of the schedule.
  KeptPipeline(const PipelineProblem& problem, Progress* progress);

  [[nodiscard]] const planner::Frontier& frontier() const override { return planner_.frontier(); }
  [[nodiscard]] bool is_prepared() const override { return is_prepared_; }
  [[nodiscard]] double fastest_s() const override { return planner_.fastest_s(); }
  [[nodiscard]] plan::Plan plan(double deadline_s, Progress* progress) const override;

 private:
  /// Of the job that plans at present: jobs have limits of their own.
  class CallersProgress final : public Progress {
   public:
    void update(std::string_view activity, double fraction) override {
      if (caller != nullptr) caller->update(activity, fraction);
    }
    Progress* caller = nullptr;
  };

  mutable CallersProgress progress_;
  mutable std::mutex mutex_;                                 ///< of what follows
  mutable std::deque<std::pair<double, plan::Plan>> plans_;  ///< by deadline, made last first
  mutable planner::PipelinePlanner planner_;
  mutable std::atomic<bool> is_prepared_ = false;
};

/// The solved pipelines of all jobs: jobs whose pipelines are the same share one. Those that were needed longest ago go
/// first; a pipeline that a job still holds stays valid. Thread-safe.
class SolvedPipelines final : public api::PipelineSolver {
 public:
  /// Keeps pipelines of `kept_actions` actions together, and one in any case.
  explicit SolvedPipelines(std::size_t kept_actions = kKeptActions) : kept_actions_(kept_actions) {}

  [[nodiscard]] Solved find(const PipelineProblem& problem) override;
  /// Solved now, on the calling thread, unless it is kept or another thread is solving it, for which it waits. Where
  /// that fails, one of those that wait begins anew; an exception is not kept. `progress` is also called while this
  /// waits.
  [[nodiscard]] Solved solve(const PipelineProblem& problem, Progress* progress) override;

 private:
  struct Entry {
    PipelineProblem problem;
    std::size_t fingerprint = 0;
    Solved solved;  ///< null while a thread is solving it
  };
  using Entries = std::list<Entry>;

  [[nodiscard]] Entries::iterator find(const PipelineProblem& problem, std::size_t fingerprint);
  void drop_old();

  std::size_t kept_actions_;
  std::mutex mutex_;
  std::condition_variable changed_;  ///< an entry was solved, or given up
  Entries entries_;                  ///< needed last first
};

}  // namespace lowgear::server
