#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/api/comparison.h"
#include "planning/api/plan_request.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/api/run_file.h"
#include "planning/api/run_folder.h"
#include "planning/plan/plan.h"
#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/policy.h"
#include "planning/simulator/cluster.h"

namespace lowgear::api {

/// How to plan; by default twenty plans of Lowgear's own planner, from T_min to T*; equal ones are made once.
struct PlanOptions {
  /// Policy, cap and slow ranks (of replica 0); another policy than Lowgear's and a cap make one plan. The deadlines
  /// are the next ones.
  PlanRequest request = {};
  planner::PlannerOptions planner = {};
  Deadlines deadlines = {};
  std::string gpu_name = {};          ///< written into the plans, at most kMaxGpuNameBytes; empty: not stated
  double clock_lead_s = 0;            ///< written into the plans (`plan::Plan`)
  std::optional<double> late_s = {};  ///< also replay the shown plan with this switch latency
  SecondsClock now_s = {};            ///< for the times that other policies took
  TaskStarter start = {};             ///< lets other policies plan concurrently; empty: after Lowgear
};

/// A plan that was made as if clocks changed at once, replayed with changes this late: as if nobody requested them
/// ahead.
struct LateReplay {
  double switch_latency_s = 0;
  simulator::PipelineFigures plan;
  simulator::PipelineFigures baseline;
};

/// A frontier with its proof.
struct CertifiedFrontier {
  planner::FrontierMethod method = planner::FrontierMethod::exact;  ///< never `automatic`
  std::vector<simulator::PipelineFigures> vertices;                 ///< fastest first
  std::vector<simulator::PipelineFigures> lower_bound;              ///< at the same times; empty for an exact frontier
  double epsilon = 0;                                               ///< largest relative distance between the two
  std::string certificate;                                          ///< that proves it (`lowgear.certificate/1`)
};

/// What planning has found: the frontier, and all but the ops of the plans.
struct PlanResult {
  ProfiledPipeline pipeline;  ///< as it was planned: slow ranks, and an order of the policy's own
  CertifiedFrontier frontier;
  std::vector<simulator::PipelineFigures>
      policy_frontier;                     ///< the policy's own where it has one (`Policy::frontier`), fastest first
  simulator::PipelineFigures baseline;     ///< everything at its highest clock, replayed
  std::optional<double> asked_deadline_s;  ///< where one plan was asked for; that of another policy may miss it
  std::vector<PlanFigures> plans;          ///< numbered from 0, fastest first
  int shown_plan = 0;                      ///< number of `shown`, as `plan_to_show` has it
  plan::Plan shown;
  std::optional<LateReplay> late;       ///< of the shown plan
  std::vector<ComparisonRow> policies;  ///< the other policies; empty for pipelines that are too large for that
  std::vector<std::string> warnings;    ///< warnings for the user, one line each
  std::vector<std::string> findings;    ///< of `warnings`: the plans differ from what was asked for, or are in doubt
};

/// Whether a plan takes longer than the deadline that was asked for, by more than rounding.
[[nodiscard]] bool misses_deadline(const PlanResult& result);

/// Receives every plan as soon as it is made, with its number and the pipeline that it is for. Plans of all deadlines
/// together may be larger than memory.
using PlanReceiver = std::function<void(const ProfiledPipeline& pipeline, int number, const plan::Plan& plan)>;

/// Plans a pipeline: the proven frontier, plans for the requested deadlines, their savings and those of other policies.
/// The same request gives the same result, on a laptop and in a server. `receive` may be empty, `progress` null. Throws
/// InputError when there is no such policy, it cannot plan this pipeline or makes one plan and several were asked for,
/// when a deadline cannot be kept, clocks cannot be requested `clock_lead_s` ahead, or the profile lacks what the
/// schedule needs; and what `receive` and `progress` throw.
[[nodiscard]] PlanResult plan(ProfiledPipeline pipeline, const PlanOptions& options, const PlanReceiver& receive = {},
                              Progress* progress = nullptr);

/// `run.json` of a result, but for what only the caller knows: version, command and the profile's name.
[[nodiscard]] RunFile run_file_of(const PlanResult& result, const PlanOptions& options);

/// The same for a pipeline and how its frontier was solved: what all plans of a pipeline have in common.
[[nodiscard]] RunFile run_file_of(const ProfiledPipeline& pipeline, planner::FrontierMethod method,
                                  const PlanOptions& options);

/// Options of a report's comparison with the other policies, without policies that would take long.
[[nodiscard]] ComparisonOptions comparison_with_others(const PlanOptions& options, planner::FrontierMethod method);

/// Whether the other policies plan in about a second: then the report compares with them at once.
[[nodiscard]] bool is_quick_to_compare(const ProfiledPipeline& pipeline);

/// Whether this many plans are verified in about one or two seconds: before they are handed out. Others are verified on
/// demand (`verify`).
[[nodiscard]] bool is_quick_to_verify(const ProfiledPipeline& pipeline, std::size_t plans);

}  // namespace lowgear::api
