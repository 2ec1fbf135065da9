#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/op_kind.h"
#include "base/core/progress.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/iteration/job_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/power/predicted_clocks.h"
#include "planning/api/plan_request.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"
#include "planning/simulator/replay.h"

namespace lowgear::estimator {

/// One iteration of a whole job: all its GPUs, from the first forward to the updated weights.
struct JobFigures {
  double time_s = 0;
  double energy_j = 0;
  /// One standard error of the energy, from those of the GPU file; empty: without such a file, or not computed.
  std::optional<double> energy_error_j = {};

  [[nodiscard]] double mean_power_w() const { return time_s > 0 ? energy_j / time_s : 0; }
};

/// The pipeline of a job as input of the planner. All values are estimated.
struct EstimatedPipeline {
  profile::StageProfile profile;         ///< emitted_profile
  schedule::Schedule schedule;           ///< computations only
  std::vector<double> blocking_power_w;  ///< by rank
};
[[nodiscard]] EstimatedPipeline estimated_pipeline(const TrainingJob& job, const IterationEstimate& estimate);

/// Scales one pipeline with one GPU a rank to the job, whose pipelines run the same plan on each of tp x cp x dp GPUs a
/// rank. Work outside the planner's graph takes the same time and energy under every plan: messages between stages, as
/// far as they make the pipeline longer, gradient sums and the optimizer.
class JobScale {
 public:
  /// `replayed_s` is the pipeline's time on the planner's graph at full clocks.
  JobScale(const TrainingJob& job, const IterationEstimate& estimate, double replayed_s);

  /// The job whose pipeline has this time and energy on that graph.
  [[nodiscard]] JobFigures job(double pipeline_s, double pipeline_j) const;
  /// Time of the pipeline in an iteration of `job_s`.
  [[nodiscard]] double pipeline_s(double job_s) const { return job_s - rest_s_; }

 private:
  double rest_s_ = 0;
  double rest_j_ = 0;  ///< of one GPU of every rank
  double gpus_per_rank_ = 1;
};

/// Replayed time and energy of a policy's clocks.
struct PolicyFigures {
  JobFigures figures;
  std::string note;                              ///< of the policy; may be empty
  std::optional<schedule::Schedule> order = {};  ///< if it differs from the job's
};

/// Default options of planning: a frontier within a thousandth of its proven bound takes a tiny part of the time of an
/// exact one, and is far more precise than estimated values.
inline const planner::PlannerOptions kEstimatePlannerOptions{.method = planner::FrontierMethod::sandwich,
                                                             .epsilon = 1e-3};

/// A job planned from its estimate: the saving by clocks before there is a GPU. *Planned* on *estimated* values.
class PlannedJob {
 public:
  PlannedJob(const TrainingJob& job, const IterationEstimate& estimate,
             const planner::PlannerOptions& options = kEstimatePlannerOptions, Progress* progress = nullptr);

  /// Everything at its highest clock, replayed, with its energy's error.
  [[nodiscard]] const JobFigures& full_clocks() const { return full_clocks_; }
  /// Vertices, fastest first: the least energy with clocks between the GPU's.
  [[nodiscard]] std::vector<JobFigures> frontier() const;
  /// The plan for an iteration of at most `time_s`, clamped to T_min and T*, with its energy's error.
  [[nodiscard]] JobFigures plan(double time_s);
  /// The clock of each op of that plan.
  [[nodiscard]] std::vector<int> clocks_mhz(double time_s);
  /// Proven: no plan for an iteration of at most `time_s` uses less energy, nor beyond T* any plan.
  [[nodiscard]] double least_energy_j(double time_s) const;
  /// The plan that takes no longer than full clocks.
  [[nodiscard]] JobFigures plan_in_time() { return plan(full_clocks_.time_s); }
  /// The clocks of another policy, replayed; for an iteration of at most `time_s` if the policy has a deadline. Throws
  /// what the policy throws.
  [[nodiscard]] PolicyFigures plan_with(const planner::Policy& policy, std::optional<double> time_s) const;
  /// Lowgear's plan for an iteration of at most `time_s`, within T_min and T*, replayed like plans of other policies.
  [[nodiscard]] PolicyFigures replayed_plan(double time_s);
  /// The same in the order of another policy, of the same stages and microbatches.
  [[nodiscard]] PolicyFigures replayed_plan(double time_s, const schedule::Schedule& order) const;
  /// T_min and T* of the job.
  [[nodiscard]] double fastest_s() const;
  [[nodiscard]] double slowest_s() const;

 private:
  PlannedJob(const TrainingJob& job, const IterationEstimate& estimate, EstimatedPipeline pipeline,
             const planner::PlannerOptions& options, Progress* progress);
  [[nodiscard]] plan::Plan plan_within(double time_s);
  [[nodiscard]] std::optional<double> energy_error_j(const plan::OpChoicesView& choices) const;
  [[nodiscard]] JobFigures replayed(const schedule::PipelineDag& dag, const plan::OpChoicesView& choices) const;
  [[nodiscard]] PolicyFigures replayed_plan(double time_s, planner::PipelinePlanner& planner) const;

  EstimatedPipeline pipeline_;
  planner::PlannerOptions options_;
  planner::PipelinePlanner planner_;
  simulator::Timeline baseline_;  ///< everything at its highest clock
  JobScale scale_;
  /// The job with one of the power's figures a standard error off.
  struct Off {
    EstimatedPipeline pipeline;
    JobScale scale;
  };
  std::vector<Off> one_error_off_;
  JobFigures full_clocks_;
};

/// Clocks that a profile of a GPU is made for: every one that it can be locked to, highest first, down to a third of
/// the highest. Lower ones take more time and more energy on every GPU measured so far.
[[nodiscard]] std::vector<int> profiled_clocks_mhz(const power::ClockSteps& clocks);

/// A stage profile for `lowgear plan` from an estimate: time and energy of forward and backward of every virtual stage
/// on one of its tp x cp GPUs at every clock of `profiled_clocks_mhz` (WorkEnergy), and of input and weight gradient
/// where the estimate tells them apart. No row draws more than the GPU's power limit: a pass runs at the clock that it
/// sustains by itself. *Estimated*, not measured.
[[nodiscard]] profile::StageProfile emitted_profile(const GpuModel& gpu, const IterationEstimate& estimate);

/// The part of the time of each pass in `emitted_profile` that follows the SM clock, at the clock that the pass
/// sustains. *Estimated*.
[[nodiscard]] std::map<std::pair<int, OpKind>, power::ClockShare> clock_shares(const GpuModel& gpu,
                                                                               const IterationEstimate& estimate);

/// That the energy of `what`, which runs down to this clock, relies on a voltage that was not measured: `the best plan
/// runs down to 900 MHz; below 1359 MHz the voltage curve is extrapolated`. Empty where its voltage is measured.
[[nodiscard]] std::string curve_note(const GpuModel& gpu, std::string_view what, int lowest_clock_mhz);

/// How to plan a job from its estimate; as it stands: full clocks, no later than they, and least energy.
struct EstimatePlanOptions {
  api::Deadlines deadline = {};                 ///< one more plan; `plans` is not used
  std::string policy{planner::kLowgearPolicy};  ///< another than Lowgear's makes one more plan
  planner::PolicyTable policies{};              ///< `policy` is one of them
};

/// One way to clock the job.
struct ClockedJob {
  std::string name;   ///< `full clocks`, `no later`, ...
  std::string basis;  ///< `estimated`, `planned`, `replayed`
  JobFigures figures;
};

/// A job at different clocks, from estimates alone. One iteration of all GPUs.
struct PlannedEstimate {
  std::vector<ClockedJob> rows;      ///< full clocks first
  std::vector<JobFigures> frontier;  ///< vertices, fastest first
  std::string note;                  ///< of the policy and the voltage curve; may be empty
};

/// Plans a job. `available_bytes` of memory; empty: not known. Throws InputError when the deadline cannot be met, there
/// is no such policy or memory does not hold the plan, and what `progress` throws.
[[nodiscard]] PlannedEstimate plan_estimate(const JobEstimate& estimate, const EstimatePlanOptions& options,
                                            std::optional<std::uint64_t> available_bytes, Progress& progress);

}  // namespace lowgear::estimator
