#include "planning/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::plan {

std::optional<double> gap_pct(double energy_j, std::optional<double> lower_bound_j) {
  constexpr double kRoundingPct = 1e-7;  // of sums over all ops, relative 1e-9
  if (!lower_bound_j) return std::nullopt;
  const double gap = (energy_j - *lower_bound_j) / *lower_bound_j * 100;
  return std::abs(gap) < kRoundingPct ? 0 : gap;
}

std::optional<double> Plan::gap_pct() const { return plan::gap_pct(energy_j, lower_bound_j); }

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

bool has_same_clocks(const Plan& one, const Plan& other) {
  const auto is_same = [](const PlannedOp& a, const PlannedOp& b) {
    return std::tie(a.stage, a.kind, a.microbatch, a.clock_mhz, a.setting) ==
           std::tie(b.stage, b.kind, b.microbatch, b.clock_mhz, b.setting);
  };
  return std::ranges::equal(one.ranks, other.ranks, [&](const auto& ops, const auto& others) {
    return std::ranges::equal(ops, others, is_same);
  });
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

std::optional<int> power_limit_w(std::string_view setting) {
  constexpr std::string_view kPrefix = "pl:";
  constexpr long long kMostW = 10'000;
  if (!setting.starts_with(kPrefix)) return std::nullopt;
  const std::optional<long long> limit_w = parse_integer(setting.substr(kPrefix.size()));
  if (!limit_w || *limit_w < 1 || *limit_w > kMostW) return std::nullopt;
  return static_cast<int>(*limit_w);
}

void refuse_settings_but_power_limits(const Plan& plan, std::string_view who) {
  const bool settable = std::ranges::all_of(plan.ranks, [](const std::vector<PlannedOp>& ops) {
    return std::ranges::all_of(
        ops, [](const PlannedOp& op) { return op.setting.empty() || power_limit_w(op.setting).has_value(); });
  });
  if (!settable) refuse_settings(plan, who);
}

Plan uniform_plan(const schedule::Schedule& schedule, int clock_mhz, std::string policy) {
  Plan plan;
  plan.policy = std::move(policy);
  plan.schedule = schedule.name;
  plan.microbatches = schedule.microbatches;
  for (const std::vector<schedule::Action>& actions : schedule.ranks) {
    std::vector<PlannedOp>& ops = plan.ranks.emplace_back();
    for (const schedule::Action& action : actions) {
      if (action.kind != schedule::ActionKind::compute) continue;
      ops.push_back(
          {.stage = action.stage, .kind = action.op, .microbatch = action.microbatch, .clock_mhz = clock_mhz});
    }
  }
  return plan;
}

namespace {

constexpr std::string_view kEvery = "every:";
constexpr int kMostPlans = 10'000'000;  // rows of the longest frontier that Perseus' model makes

}  // namespace

PlanSampling read_plan_sampling(std::string_view text) {
  if (text == "all") return {};
  const bool is_distance = text.starts_with(kEvery);
  const auto number = parse_integer(is_distance ? text.substr(kEvery.size()) : text);
  if (!number || *number < 1 || *number > kMostPlans) {
    throw InputError(
        fmt::format("expected all, a number of plans as 20, or every:50 for every 50th plan, not {}", quote(text)));
  }
  const int value = static_cast<int>(*number);
  return is_distance ? PlanSampling{.every = value} : PlanSampling{.count = value};
}

std::vector<std::size_t> sampled_places(std::size_t total, const PlanSampling& sampling) {
  std::vector<std::size_t> places;
  if (total == 0) return places;
  const std::size_t last = total - 1;
  if (!sampling.count) {
    for (std::size_t place = 0; place < last; place += static_cast<std::size_t>(sampling.every)) {
      places.push_back(place);
    }
  } else {
    const std::size_t count = std::min(total, static_cast<std::size_t>(*sampling.count));
    for (std::size_t i = 0; i + 1 < count; ++i) places.push_back(i * last / (count - 1));
  }
  places.push_back(last);
  return places;
}

}  // namespace lowgear::plan
