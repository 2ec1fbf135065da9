#pragma once

#include <vector>

#include "planning/joint/orders/memory_limit.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/schedule.h"

namespace lowgear::joint {

/// A pipeline whose order is free.
struct JointProblem {
  profile::StageProfile profile;         ///< one stage for each rank
  std::vector<double> blocking_power_w;  ///< by rank
  int microbatches = 1;
  MemoryLimit memory = {};

  [[nodiscard]] int ranks() const { return profile.stages(); }
  /// Whether the profile has input and weight gradients, so that an order may separate them.
  [[nodiscard]] bool may_split() const;
  /// Whether it has whole backwards.
  [[nodiscard]] bool may_join() const;
  /// The profile by virtual stage of an order: several stages of a rank are equal parts of it.
  [[nodiscard]] profile::StageProfile profile_of(const schedule::Schedule& order) const;
  /// Whether every rank has memory for the order.
  [[nodiscard]] bool fits(const schedule::Schedule& order) const;
};

/// Orders are searched, and bounded, for pipelines that train every stage. Throws InputError when a stage has no
/// backward at all, or some have whole backwards only and others split ones only.
void require_trained(const JointProblem& problem);

/// Stages of each rank of an order, the same for all of them. Throws InputError when they are not.
[[nodiscard]] int chunks_of(const schedule::Schedule& order);

}  // namespace lowgear::joint
