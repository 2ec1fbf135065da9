#include "planning/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/core/error.h"

namespace lowgear::plan {

std::optional<double> Plan::gap_pct() const {
  if (!lower_bound_j) {
    return std::nullopt;
  }
  return (energy_j - *lower_bound_j) / *lower_bound_j * 100.0;
}

int count_switches(const std::vector<std::vector<PlannedOp>>& ranks) {
  int switches = 0;
  for (const auto& ops : ranks) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const PlannedOp& next = ops[(i + 1) % ops.size()];
      switches += ops[i].clock_mhz != next.clock_mhz ? 1 : 0;
    }
  }
  return switches;
}

namespace {

std::string describe(int stage, OpKind kind, int microbatch) {
  return fmt::format("{} of stage {}, microbatch {}", name(kind), stage, microbatch);
}

void require_same_op(const PlannedOp& planned, const schedule::ComputeOp& op, std::size_t rank, std::size_t position) {
  if (planned.stage != op.stage || planned.kind != op.kind || planned.microbatch != op.microbatch) {
    throw InputError(fmt::format(
        "plan: rank {}, op {} is {}, but the schedule runs {} there; use the schedule that the plan was made for", rank,
        position, describe(planned.stage, planned.kind, planned.microbatch),
        describe(op.stage, op.kind, op.microbatch)));
  }
}

}  // namespace

std::vector<int> clocks_for(const Plan& plan, const schedule::PipelineDag& dag) {
  if (plan.ranks.size() != static_cast<std::size_t>(dag.ranks)) {
    throw InputError(
        fmt::format("plan: it is for {} ranks, but the schedule has {}; use the schedule that the plan was made for",
                    plan.ranks.size(), dag.ranks));
  }
  std::vector<int> clocks_mhz;
  clocks_mhz.reserve(dag.ops.size());
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const auto& planned = plan.ranks[rank];
    const auto begin = static_cast<std::size_t>(dag.rank_begin[rank]);
    const auto count = static_cast<std::size_t>(dag.rank_begin[rank + 1]) - begin;
    for (std::size_t i = 0; i < std::min(planned.size(), count); ++i) {
      require_same_op(planned[i], dag.ops[begin + i], rank, i);
      clocks_mhz.push_back(planned[i].clock_mhz);
    }
    if (planned.size() != count) {
      throw InputError(fmt::format(
          "plan: rank {} has {} ops, but the schedule runs {} there; use the schedule that the plan was made for", rank,
          planned.size(), count));
    }
  }
  return clocks_mhz;
}

OpChoices choices_for(const Plan& plan, const schedule::PipelineDag& dag) {
  OpChoices choices{clocks_for(plan, dag), {}};
  if (!has_settings(plan)) return choices;
  for (const std::vector<PlannedOp>& ops : plan.ranks) {
    for (const PlannedOp& op : ops) choices.settings.push_back(op.setting);
  }
  return choices;
}

bool has_settings(const Plan& plan) {
  return std::ranges::any_of(plan.ranks, [](const std::vector<PlannedOp>& ops) {
    return std::ranges::any_of(ops, [](const PlannedOp& op) { return !op.setting.empty(); });
  });
}

void refuse_settings(const Plan& plan, std::string_view who) {
  if (!has_settings(plan)) return;
  throw InputError(
      fmt::format("{} sets clocks alone, and the plan has settings, which change the times that it was made for: plan "
                  "from a profile without the column setting",
                  who));
}

}  // namespace lowgear::plan
