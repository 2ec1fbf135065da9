#pragma once

#include <string>

#include "app/cli/plan/plan_run.h"
#include "base/core/formats/json.h"
#include "planning/api/joint_plan.h"
#include "planning/api/work_replan.h"
#include "report/report/report_data.h"

namespace lowgear::cli {

/// In per cent with its sign: `-13.81 %`, and `+0.00 %` for what rounds to zero.
[[nodiscard]] std::string percent_text(double pct);

/// A partition in the notation of training configurations: `custom:0,12,24`.
[[nodiscard]] std::string partition_text(const profile::Partition& partition);

/// The gain of planning again after a change of a job's work, as text and as an object.
[[nodiscard]] std::string replan_text(const api::WorkReplan& replan);
[[nodiscard]] Json replan_json(const api::WorkReplan& replan);
/// The same for the report; `change` is for its title.
[[nodiscard]] report::ChangedWork changed_work(const api::WorkReplan& replan, const api::WorkChange& change);

/// When clocks change: `lead_s` before their units agents request them, and `late_by_s` after these begin they change;
/// neither: at once.
[[nodiscard]] std::string clock_changes_text(double lead_s, double late_by_s);

/// A plan's number, deadline, time, energy, bound and switches.
[[nodiscard]] Json plan_figures_json(const api::PlanFigures& plan);

/// Whether `lowgear plan` has verified the folder that it wrote, and the command that does.
[[nodiscard]] std::string verified_text(const std::string& out, bool is_verified);
/// How to train with a plan of the folder `out`, in one of its orders where these were searched: Lowgear's trainer, and
/// a job of one's own.
[[nodiscard]] std::string training_text(const std::string& out, int plan, std::optional<int> order);
/// When the shown plan's clocks change, and the effect of changes that come late, as text and as an object.
[[nodiscard]] std::string latency_text(const SwitchLatencyArgument& latency, const plan::Plan& shown,
                                       const std::optional<api::LateReplay>& late);
[[nodiscard]] Json latency_json(const SwitchLatencyArgument& latency, const std::optional<api::LateReplay>& late);
/// The plans with a free order that were written, as text and as an object.
[[nodiscard]] std::string joint_plan_text(const PlanArguments& arguments, const JointPlanSummary& summary);
[[nodiscard]] Json joint_plan_json(const PlanArguments& arguments, const JointPlanSummary& summary);

/// The plan that a joint plan of changed work replaces.
struct ReplannedFrom {
  std::string name;  ///< of its order
  int microbatches = 0;
  simulator::PipelineFigures figures;  ///< of an iteration, *planned*
};

/// The replaced plan, and the new plan compared with it per microbatch, as their numbers of microbatches may differ.
[[nodiscard]] std::string replanned_text(const ReplannedFrom& before, const api::JointPlanResult& result);
/// The same comparison as members `before` and `per_microbatch`.
[[nodiscard]] Json replanned_json(const ReplannedFrom& before, const api::JointPlanResult& result);

}  // namespace lowgear::cli
