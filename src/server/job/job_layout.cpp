#include "server/job/job_layout.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "planning/plan/plan.h"
#include "server/planning/planning_inputs.h"

namespace lowgear::server {

JobLayout::JobLayout(const protocol::JobSpec& spec)
    : schedule_(make_schedule(spec)),
      rank_of_stage_(rank_of_stage(schedule_)),
      gpu_(spec.gpu),
      replicas_(spec.parallel.dp) {}

PlanVersion JobLayout::uniform_plan(protocol::PlanPurpose purpose, int clock_mhz) const {
  PlanVersion version;
  version.purpose = purpose;
  plan::Plan plan = plan::uniform_plan(schedule_, clock_mhz, std::string(name(purpose)));
  plan.gpu_name = gpu_;
  version.plans.push_back(std::move(plan));
  version.plan_of_replica.assign(static_cast<std::size_t>(replicas_), 0);
  return version;
}

std::vector<std::vector<double>> JobLayout::compute_s(std::span<const protocol::ProfileCell> cells,
                                                      int clock_mhz) const {
  std::map<std::pair<int, OpKind>, double> time_of;
  for (const protocol::ProfileCell& cell : cells) {
    if (cell.clock_mhz == clock_mhz) time_of[{cell.stage, cell.kind}] = cell.time_s;
  }
  std::vector<double> by_rank;
  for (const std::vector<schedule::Action>& actions : schedule_.ranks) {
    double& time_s = by_rank.emplace_back(0);
    for (const schedule::Action& action : actions) {
      if (action.kind != schedule::ActionKind::compute) continue;
      const auto known = time_of.find({action.stage, action.op});
      if (known == time_of.end()) return {};
      time_s += known->second;
    }
  }
  return {by_rank};
}

void JobLayout::require_own_stages(const protocol::RankCells& cells, int pp_rank) const {
  const auto require = [&](std::string_view list, std::size_t index, int stage) {
    if (rank_of_stage_.at(static_cast<std::size_t>(stage)) == pp_rank) return;
    throw InputError(fmt::format("$.{}[{}].stage: stage {} is not on pp_rank {}", list, index, stage, pp_rank));
  };
  for (std::size_t i = 0; i < cells.cells.size(); ++i) require("cells", i, cells.cells[i].stage);
  for (std::size_t i = 0; i < cells.blocking.size(); ++i) require("blocking", i, cells.blocking[i].stage);
}

}  // namespace lowgear::server
