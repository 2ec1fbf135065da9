#include "planning/joint/orders/joint_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "base/core/error.h"

namespace lowgear::joint {

bool JointProblem::may_split() const {
  for (int stage = 0; stage < ranks(); ++stage) {
    if (!profile.has(stage, OpKind::input_gradient) || !profile.has(stage, OpKind::weight_gradient)) return false;
  }
  return true;
}

bool JointProblem::may_join() const {
  for (int stage = 0; stage < ranks(); ++stage) {
    if (!profile.has(stage, OpKind::backward)) return false;
  }
  return true;
}

profile::StageProfile JointProblem::profile_of(const schedule::Schedule& order) const {
  return order.stages == ranks() ? profile : with_stages_on_ranks(profile, rank_of_stage(order));
}

bool JointProblem::fits(const schedule::Schedule& order) const {
  const std::vector<int> held = peak_in_flight_activations(order);
  const std::vector<int> most = most_activations(memory, ranks(), microbatches, chunks_of(order));
  return std::ranges::equal(held, most, [](int h, int m) { return h <= m; });
}

void require_trained(const JointProblem& problem) {
  for (int stage = 0; stage < problem.ranks(); ++stage) {
    const profile::StageProfile& profile = problem.profile;
    if (profile.has(stage, OpKind::backward) || profile.has(stage, OpKind::weight_gradient)) continue;
    throw InputError(
        fmt::format("stage {} has no backward: orders are searched for pipelines that train every stage; name a "
                    "schedule instead of auto",
                    stage));
  }
  if (problem.may_join() || problem.may_split()) return;
  throw InputError(
      "some stages of the profile have only whole backwards, and others only input and weight gradients; "
      "measure all stages alike");
}

int chunks_of(const schedule::Schedule& order) {
  const int ranks = order.rank_count();
  const std::vector<int> rank_of = rank_of_stage(order);
  std::vector<int> stages(static_cast<std::size_t>(ranks));
  for (const int rank : rank_of) ++stages[static_cast<std::size_t>(rank)];
  const bool equal = std::ranges::all_of(stages, [&](int count) { return count == stages.front(); });
  if (!equal) throw InputError("the order " + order.name + " has ranks with different numbers of stages");
  return stages.front();
}

}  // namespace lowgear::joint
