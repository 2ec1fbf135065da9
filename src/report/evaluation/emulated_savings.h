#pragma once

#include <span>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/simulator/cluster.h"
#include "report/evaluation/published_tables.h"

namespace lowgear::evaluation {

/// A pipeline of the emulation with what its savings are stated against.
struct EmulationCase {
  const profile::StageProfile* profile = nullptr;  ///< never null
  int microbatches = 0;
  PublishedDevice device;
};

/// Plans for one pipeline at its least time, and for a straggler of kFigure7Factor.
struct EmulatedPlans {
  simulator::PipelineFigures fastest;
  simulator::PipelineFigures waiting;
};

/// Planned as Perseus plans: its fit, its units of time, solved exactly. Throws what PerseusModel throws.
[[nodiscard]] EmulatedPlans plans_of_perseus(const EmulationCase& emulation);
/// Lowgear's own plans, replayed on the profile. Throws what PipelinePlanner throws.
[[nodiscard]] EmulatedPlans plans_of_lowgear(const EmulationCase& emulation);
/// Lowgear's plans at its least time, and for waiting for a pipeline that takes each of these times as long.
[[nodiscard]] std::vector<simulator::PipelineFigures> plans_of_lowgear(const EmulationCase& emulation,
                                                                       std::span<const double> factors);
/// The whole frontier of Perseus' model, slowest first.
[[nodiscard]] std::vector<simulator::PipelineFigures> frontier_of_perseus(const EmulationCase& emulation);
/// The plan of the artifact's EnvPipe, replayed.
[[nodiscard]] simulator::PipelineFigures plan_of_envpipe(const EmulationCase& emulation);

/// Table 6: saving of `energy_j` against all ops at their highest clock within `time_s`, in per cent.
[[nodiscard]] double intrinsic_saving_pct(const EmulationCase& emulation, double time_s, double energy_j);

/// One pipeline of a cluster with a straggler slower by `factor`; all ops at their highest clock take `time_s`.
[[nodiscard]] simulator::StragglerScenario straggler_scenario(const EmulationCase& emulation, double time_s,
                                                              double factor);

/// The cluster of figure 7 whose plans are `time_s` long: kGlobalMicrobatches in all pipelines, one slower by
/// kFigure7Factor.
[[nodiscard]] simulator::StragglerScenario figure7_cluster(const EmulationCase& emulation, double time_s);

}  // namespace lowgear::evaluation
