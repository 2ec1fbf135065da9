#pragma once

#include <vector>

#include "planning/planner/frontier/frontier.h"
#include "planning/planner/verifier/verify.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/schedule.h"

namespace lowgear::planner {

/// What a sample output folder is made from.
struct SampleRun {
  schedule::Schedule schedule;  ///< its name is the run's
  profile::StageProfile profile;
  std::vector<double> blocking_power_w;  ///< by rank
  double sandwich_epsilon = 0;           ///< 0: the exact frontier
  double late_by_s = 0;
};

/// A profile whose (stage, kind) cells all differ: `clocks` clocks from 1410 MHz down in steps of 60 MHz, backward
/// twice as long as forward, also split in two.
[[nodiscard]] profile::StageProfile sample_profile(int stages, int clocks);

/// 1F1B of 3 stages and 4 microbatches on `sample_profile`, with different blocking powers.
[[nodiscard]] SampleRun sample_run();

/// The folder as `lowgear plan` writes it, with two plans: every op at its highest clock, and a slower one.
[[nodiscard]] PlanFolder sample_folder(const SampleRun& run);

}  // namespace lowgear::planner
