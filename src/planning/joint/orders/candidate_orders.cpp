#include "planning/joint/orders/candidate_orders.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "planning/planner/planners/planning_model.h"
#include "planning/profile/options.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"

namespace lowgear::joint {
namespace {

using planner::at;

/// How early EnvPipe would run forwards, where memory holds `extra` activations beyond 1F1B's on every rank.
std::optional<schedule::Schedule> envpipe_order(const JointProblem& problem) {
  const std::vector<int> most = most_activations(problem.memory, problem.ranks(), problem.microbatches, 1);
  std::vector<schedule::EnvPipeStage> stages;
  for (int rank = 0; rank < problem.ranks(); ++rank) {
    const int beyond = most[at(rank)] - std::min(problem.ranks() - rank, problem.microbatches);
    if (beyond < 0) return std::nullopt;
    const auto forwards =
        pareto_options(problem.profile.measurements(rank, OpKind::forward), problem.blocking_power_w[at(rank)]);
    stages.push_back({.forward_time_s = forwards.back().time_s,
                      .backward_time_s = problem.profile.at_max_clock(rank, OpKind::backward).time_s,
                      .extra_activations = beyond});
  }
  return schedule::envpipe_schedule(problem.microbatches, envpipe_extra_forwards(problem.microbatches, stages));
}

/// Interleaved 1F1B takes only some numbers of microbatches.
bool takes_interleaving(int ranks, int microbatches) {
  return ranks > 1 && microbatches % std::max(1, microbatches / ranks) == 0;
}

std::string layout_name(const schedule::StageLayout& layout) {
  if (layout.front().size() == 1) return "list";
  return layout.front().back() == static_cast<int>(layout.size()) ? "list-interleaved" : "list-v";
}

/// How many stage-microbatches the ranks may be ahead: 1F1B's, more by a share of the way to twice of it.
std::vector<int> ahead_of(const schedule::StageLayout& layout, double share) {
  const auto ranks = static_cast<int>(layout.size());
  std::vector<int> most;
  for (int rank = 0; rank < ranks; ++rank) {
    const int later = ranks - rank;
    most.push_back(later + static_cast<int>(std::lround(share * (later - 1))));
  }
  return most;
}

std::vector<schedule::ListRule> rules_for(const schedule::StageLayout& layout, bool splits_backward) {
  std::vector<schedule::ListRule> rules;
  const bool one_each = layout.front().size() == 1;
  for (const double patience : {0.0, 0.3}) {
    std::vector<std::vector<int>> aheads{{}};
    if (one_each) aheads.insert(aheads.end(), {ahead_of(layout, 0), ahead_of(layout, 0.5)});
    for (const std::vector<int>& ahead : aheads) {
      rules.push_back({.patience = patience, .most_ahead = ahead});
      if (splits_backward && !one_each) {
        rules.push_back({.patience = patience, .weight_backlog = 2, .most_ahead = ahead});
        rules.push_back({.patience = patience, .weight_backlog = 4, .most_ahead = ahead});
      }
    }
  }
  return rules;
}

void add_lists(const schedule::ListScheduleRequest& asked, std::vector<schedule::Schedule>& orders) {
  schedule::ListScheduleRequest request = asked;
  for (schedule::ListRule& rule : rules_for(request.stages_of_rank, request.splits_backward)) {
    request.rule = std::move(rule);
    schedule::Schedule order = list_schedule(request);
    order.name = layout_name(request.stages_of_rank);
    orders.push_back(std::move(order));
  }
}

}  // namespace

std::vector<schedule::Schedule> known_orders(const JointProblem& problem) {
  const int ranks = problem.ranks();
  const int microbatches = problem.microbatches;
  std::vector<schedule::Schedule> orders;
  if (problem.may_join()) {
    orders.push_back(schedule::one_f_one_b_schedule(ranks, microbatches));
    orders.push_back(schedule::gpipe_schedule(ranks, microbatches));
    if (takes_interleaving(ranks, microbatches) && problem.may_divide_stages()) {
      orders.push_back(schedule::interleaved_schedule(ranks, microbatches, 2));
    }
    if (auto order = envpipe_order(problem)) orders.push_back(std::move(*order));
  }
  if (problem.may_split()) {
    orders.push_back(schedule::zb_h1_schedule(ranks, microbatches));
    orders.push_back(schedule::zb_h2_schedule(ranks, microbatches));
    if (problem.may_divide_stages()) orders.push_back(schedule::zb_v_schedule(ranks, microbatches));
  }
  std::erase_if(orders, [&](const schedule::Schedule& order) { return !problem.fits(order); });
  return orders;
}

std::vector<schedule::Schedule> list_orders(const JointProblem& problem, const schedule::StageLayout& layout,
                                            std::span<const schedule::StageTimes> times) {
  const auto chunks = static_cast<int>(layout.front().size());
  std::vector<schedule::Schedule> orders;
  schedule::ListScheduleRequest request{
      .stages_of_rank = layout,
      .microbatches = problem.microbatches,
      .splits_backward = problem.may_split(),
      .times = {times.begin(), times.end()},
      .most_activations = most_activations(problem.memory, problem.ranks(), problem.microbatches, chunks)};
  add_lists(request, orders);
  return orders;
}

std::vector<schedule::StageLayout> layouts(int ranks) {
  std::vector<schedule::StageLayout> all{schedule::looped_layout(ranks, 1)};
  if (ranks == 1) return all;
  all.push_back(schedule::v_layout(ranks));
  all.push_back(schedule::looped_layout(ranks, 2));
  return all;
}

std::vector<schedule::StageTimes> times_at_full_clocks(const JointProblem& problem,
                                                       const schedule::StageLayout& layout) {
  std::size_t stages = 0;
  for (const auto& of_rank : layout) stages += of_rank.size();
  std::vector<schedule::StageTimes> times(stages);
  const bool splits = problem.may_split();
  for (int rank = 0; rank < problem.ranks(); ++rank) {
    const auto part = [&](OpKind kind) {
      const double time_s = problem.profile.at_max_clock(rank, kind).time_s;
      return ps_not_below_s(time_s / static_cast<double>(layout[at(rank)].size()));
    };
    for (const int stage : layout[at(rank)]) {
      times[at(stage)] = {.forward_ps = part(OpKind::forward),
                          .backward_ps = part(splits ? OpKind::input_gradient : OpKind::backward),
                          .weight_gradient_ps = splits ? part(OpKind::weight_gradient) : 0};
    }
  }
  return times;
}

}  // namespace lowgear::joint
