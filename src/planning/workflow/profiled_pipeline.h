#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/plan/plan.h"
#include "planning/planner/frontier/frontier.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule.h"

namespace lowgear::workflow {

/// A pipeline with its profile, schedule and graph: the input of every function of this module.
struct ProfiledPipeline {
  profile::StageProfile profile;         ///< by virtual stage of the schedule, split where the schedule is
  schedule::Schedule schedule;           ///< computations only
  schedule::PipelineDag dag;             ///< of `schedule`
  std::vector<double> blocking_power_w;  ///< by rank: what one GPU draws while it waits
  std::vector<std::string> doubts = {};  ///< why its profile may be wrong (planning/profile/plausibility.h)

  /// The problem refers to this pipeline, which must outlive it.
  [[nodiscard]] planner::PlanningProblem problem(Progress* progress = nullptr) const {
    return {&schedule, &dag, &profile, blocking_power_w, progress};
  }
};

/// Everything that the plans of Lowgear's planner for one pipeline depend on.
struct PipelineProblem {
  std::shared_ptr<const schedule::Schedule> schedule;
  profile::StageProfile profile;         ///< slow ranks included
  std::vector<double> blocking_power_w;  ///< by rank
  planner::PlannerOptions options = {};
};

/// A pipeline's frontier, and its plans. Its answers depend on its problem alone.
class SolvedPipeline {
 public:
  virtual ~SolvedPipeline() = default;
  [[nodiscard]] virtual const planner::Frontier& frontier() const = 0;
  /// Whether another plan takes milliseconds: the first one prepares those for all deadlines.
  [[nodiscard]] virtual bool is_prepared() const = 0;
  /// T_min, the least deadline that `plan` keeps.
  [[nodiscard]] virtual double fastest_s() const = 0;
  /// As `planner::PipelinePlanner::plan`. `progress` may be null; an exception of it ends this, and the next call does
  /// the work anew.
  [[nodiscard]] virtual plan::Plan plan(double deadline_s, Progress* progress) const = 0;
};

/// Solves pipelines, and may keep them: a server has one for all its jobs, a command for its own pipeline.
class PipelineSolver {
 public:
  using Solved = std::shared_ptr<const SolvedPipeline>;

  virtual ~PipelineSolver() = default;
  /// Null when the pipeline is not kept, or not solved yet.
  [[nodiscard]] virtual Solved find(const PipelineProblem& problem) = 0;
  /// Solves the pipeline now, unless it is kept. `progress` as in `SolvedPipeline`. Throws InputError when the profile
  /// lacks what the schedule needs.
  [[nodiscard]] virtual Solved solve(const PipelineProblem& problem, Progress* progress) = 0;
};

/// Shares of a measured op that stand for an unmeasured one; empty: not stated.
struct FittingShares {
  std::optional<double> backward_split = {};  ///< share of a backward that its input gradient takes
  std::optional<double> recomputation = {};   ///< a recomputation's time and energy as a share of its forward's
};

/// `profile` with the stages and kinds of operation that the schedule runs: cut into virtual stages, backwards split
/// and recomputations added where it was not measured so. Throws InputError that names the option to state when that
/// cannot be done.
[[nodiscard]] profile::StageProfile fit_profile(profile::StageProfile profile, const schedule::Schedule& schedule,
                                                const FittingShares& shares);

/// `profile` with each backward divided, `share` of it to the input gradient. Throws InputError where a stage is split
/// already.
[[nodiscard]] profile::StageProfile split_backward(const profile::StageProfile& profile, double share);

/// The figures that the schedule `envpipe` depends on, by stage: the forward at the clock at which it uses least
/// energy, waiting included, and the backward at the highest. `blocking_power_w` by stage, empty where it is not known.
[[nodiscard]] std::vector<schedule::EnvPipeStage> envpipe_stages(const profile::StageProfile& profile,
                                                                 std::span<const double> blocking_power_w,
                                                                 std::optional<int> extra_activations);

/// Bytes of memory that planning `ranks` x `microbatches` x `chunks` takes, rounded up.
[[nodiscard]] double planning_memory_bytes(int ranks, int microbatches, int chunks);

/// Throws InputError with the estimate when it exceeds `available_bytes`. Does nothing where that is not known.
void require_planning_memory(int ranks, int microbatches, int chunks, std::optional<std::uint64_t> available_bytes);

}  // namespace lowgear::workflow
