#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/iteration/pipeline_times.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/power/power_model.h"

namespace lowgear::estimator {

/// Least energy of some ops that run one after another, beyond blocking power x time, as a function of the time that
/// they take together: convex and piecewise linear, as if each op could share its time between two clocks.
class LeastEnergy {
 public:
  LeastEnergy() = default;  ///< of no op
  LeastEnergy(const WorkEnergy& work, std::span<const int> clocks_mhz, double blocking_w);
  LeastEnergy& operator+=(const LeastEnergy& other);

  /// J. A time below the fastest counts as the fastest, one above the slowest as the slowest.
  [[nodiscard]] double at(double time_s) const;
  /// Beyond this time nothing is saved.
  [[nodiscard]] double slowest_s() const { return points_.back().time_s; }

 private:
  std::vector<TimedEnergy> points_{{}};  ///< fastest first; energy falls, ever more slowly
};

/// Times at which a mean power is looked for.
struct TimesWithin {
  double fastest_s = 0;
  double flat_s = 0;     ///< from here on energy grows by waiting alone
  double waiting_w = 0;  ///< power of all GPUs that wait
};
/// The least time from `fastest_s` on at which `energy_j(time)`, which is convex, is at most power x time, up to
/// rounding below it. Empty where there is none.
[[nodiscard]] std::optional<double> fastest_within(double power_w, const TimesWithin& times,
                                                   const std::function<double(double)>& energy_j);

/// All computations of a job at one clock.
struct OneClock {
  int clock_mhz = 0;
  JobFigures figures;
};

/// What a layout can do within a power of its GPUs. One iteration of the whole job. *Estimated*.
///
/// The bound: for each pipeline rank r, its ops and the forwards and backwards of one microbatch on the ranks before it
/// follow each other, so that its ops take at most T - head_r. In 1F1B the rank also waits twice for one microbatch to
/// pass through all ranks after it, while only its other w = S - 1 - r forwards and backwards can run. Each rank uses
/// at least the least energy of its ops within those times, and blocking power for T.
class CappedLayout {
 public:
  /// The job must outlive it.
  CappedLayout(const TrainingJob& job, const IterationEstimate& estimate);

  [[nodiscard]] const JobFigures& full_clocks() const { return full_clocks_; }
  [[nodiscard]] JobFigures at_clock(int clock_mhz) const;
  /// At most the energy of any plan of the planner that takes `time_s`.
  [[nodiscard]] double least_energy_j(double time_s) const;
  /// At most the time of any plan with a mean power of at most `power_w`; empty where there is none.
  [[nodiscard]] std::optional<double> fastest_s(double power_w) const;
  /// The highest clock for all computations with a mean power of at most `power_w`; empty where there is none.
  [[nodiscard]] std::optional<OneClock> one_clock(double power_w) const;

 private:
  /// Virtual stages with the same work.
  struct StageKind {
    std::vector<WorkEnergy> passes;  ///< forward, then the whole backward or its two parts
    LeastEnergy least;               ///< of one microbatch
  };
  struct StageKinds {
    std::vector<StageKind> kinds;
    std::vector<std::size_t> of_stage;  ///< by virtual stage
  };
  struct RankBound {
    std::size_t least;    ///< index into `least_`
    double head_s = 0;    ///< of the ranks before it
    double detour_s = 0;  ///< of the ranks after it, twice; 0: not counted
    double warmup = 0;    ///< microbatches that run meanwhile
  };

  [[nodiscard]] StageKinds stage_kinds(const IterationEstimate& estimate) const;
  void add_ranks(const IterationEstimate& estimate);
  [[nodiscard]] double replayed_s(const IterationEstimate& estimate) const;
  [[nodiscard]] PipelineCosts costs_at(int clock_mhz) const;
  [[nodiscard]] JobFigures job_in(double pipeline_s, double effective_j) const;
  [[nodiscard]] double effective_j(int clock_mhz) const;
  [[nodiscard]] double least_j(const RankBound& rank, double pipeline_s) const;
  [[nodiscard]] double flat_s(const RankBound& rank) const;

  const TrainingJob* job_;
  double microbatches_;
  bool whole_backwards_;
  std::vector<int> clocks_mhz_;
  StageKinds stages_;
  std::vector<LeastEnergy> least_;  ///< of one microbatch, by kind of rank
  std::vector<RankBound> ranks_;
  double replayed_s_;
  JobScale scale_;
  JobFigures full_clocks_;
};

}  // namespace lowgear::estimator
