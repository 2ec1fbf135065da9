#pragma once

#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/profiled_pipeline.h"
#include "planning/api/run_file.h"
#include "planning/api/run_folder.h"
#include "planning/joint/orders/joint_problem.h"
#include "planning/joint/partition/partition_choice.h"
#include "planning/plan/plan.h"

namespace lowgear::api {

/// An order that holds somewhere on the joint frontier, with the proof of its own frontier.
struct PlannedOrder {
  std::string name;
  ProfiledPipeline pipeline;  ///< in this order
  CertifiedFrontier frontier;
};

/// What joint planning has found: all but the ops of the plans.
struct JointPlanResult {
  JointRun run;
  profile::StageProfile profile;     ///< one stage for each rank: the problem's, or of the chosen partition
  std::vector<PlannedOrder> orders;  ///< by number
  std::vector<JointPoint> frontier;  ///< lower envelope of theirs
  /// Lower bound of all orders that fit into memory: at the least time of any order, and at the frontier's times.
  std::vector<simulator::PipelineFigures> lower_bound;
  std::string bound_prices;        ///< that prove it: `joint_bound.json`
  std::vector<PlanFigures> plans;  ///< numbered from 0, fastest first; each names its order. Bounds are of that order
  int shown_plan = 0;              ///< number of `shown`, as `plan_to_show` has it
  plan::Plan shown;
  std::optional<LateReplay> late;       ///< of the shown plan
  std::vector<ComparisonRow> policies;  ///< the other policies, which run the reference order or one of their own
  std::vector<std::string> warnings;    ///< warnings for the user, one line each
  std::vector<std::string> findings;    ///< of `warnings`: the plans differ from what was asked for, or are in doubt
  std::size_t orders_tried = 0;
};

/// Plans orders and clocks together: searches orders that fit into memory, proves the frontier of each that holds
/// somewhere, and makes a plan for every deadline in the order of least energy there. Deadlines are as `plan` has them,
/// from the least T_min of the orders on; of several, one is the time of the reference order (1F1B) at its highest
/// clocks, so that one plan states the saving without finishing later. The policy is Lowgear's. Throws what
/// `OrderSearch` and `plan` throw.
[[nodiscard]] JointPlanResult plan_jointly(const joint::JointProblem& problem, const PlanOptions& options,
                                           const PlanReceiver& receive = {}, Progress* progress = nullptr);

/// Layers that may move between ranks.
struct FreeLayers {
  profile::LayerProfile layers;
  profile::Partition given;  ///< that `problem` has the profile of
};

/// The same with the partition chosen first (`choose_partition`), for the deadline that was given, else for the time of
/// the reference order on the given partition at its highest clocks. That is the baseline of the result, all else of
/// which is for the chosen partition, which `run.partition` names with what the given one would use. Bounds hold for
/// all orders of the chosen partition; that no other partition needs less is not proven.
[[nodiscard]] JointPlanResult plan_jointly(const joint::JointProblem& problem, const FreeLayers& free,
                                           const PlanOptions& options, const PlanReceiver& receive = {},
                                           Progress* progress = nullptr);

/// `run.json` of the whole run, and of one order of it; but for what only the caller knows, as `run_file_of`.
[[nodiscard]] RunFile run_file_of(const JointPlanResult& result, const PlanOptions& options);
[[nodiscard]] RunFile run_file_of(const PlannedOrder& order, const PlanOptions& options);

}  // namespace lowgear::api
