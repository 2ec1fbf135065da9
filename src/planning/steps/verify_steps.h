#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "planning/planner/verifier/verify.h"

namespace lowgear::steps {

/// The texts of an output folder of `lowgear plan --lengths`.
struct StepFolder {
  planner::PlanFolder::File run;       ///< run.json
  planner::PlanFolder::File profile;   ///< profile.csv
  planner::PlanFolder::File schedule;  ///< schedule.csv
  planner::PlanFolder::File steps;     ///< steps.csv
  planner::PlanFolder::File replicas;  ///< replicas.csv
  /// amounts.csv: of steps planned by the amounts of earlier ones, or by loads of experts.
  std::optional<planner::PlanFolder::File> amounts = {};
};

struct StepVerifyReport {
  std::vector<std::string> failures = {};  ///< the first ones, at most 20
  std::size_t steps = 0;                   ///< that are planned
  std::size_t safe_steps = 0;              ///< that run at full clocks
  std::size_t replicas = 0;                ///< plans that were replayed and bounded, over steps and deals
  double max_gap_pct = 0;                  ///< of a step's energy above its bound
  double latest = 0;       ///< largest share by which a step's predicted time exceeds that of full clocks
  bool simulated = false;  ///< the profile is of simulated GPUs

  [[nodiscard]] bool ok() const { return failures.empty(); }
};

/// Checks a folder from its inputs with code that shares nothing with the planner: it derives the dependencies again
/// and checks for every step and deal that
///   - there are as many steps and fitted ones as planned, each in both deals (of a single replica, or where amounts
///   are stated, as given alone),
///   - each microbatch is run once, as many by each replica as before, with its own times on the worker that runs it,
///   - every clock was measured, and a replica has one clock where that was asked for,
///   - times, energies, waiting and clocks of full clocks and plan are replayed to their figures, predicted and
///   recorded, and a plan whose clocks change in time ends no later than full clocks as predicted,
///   - where amounts are stated, predicted times are those of the step's own or, as planned, of earlier steps alone,
///   and steps that are replayed by the fit have its times for their own,
///   - flows are non-negative and conserved, and prove the bound, which no plan is below.
/// Throws InputError when a file cannot be read at all.
[[nodiscard]] StepVerifyReport verify_steps(const StepFolder& folder, Progress& progress);

}  // namespace lowgear::steps
