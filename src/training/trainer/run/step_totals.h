#pragma once

#include "training/launcher/config/train_config.h"
#include "training/trainer/run/step_result.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// What all ranks add up after a step.
struct StepTotals {
  double loss = 0;
  double energy_j = 0;
  double energy_uncertainty_j = 0;
  double without_energy = 0;       ///< ranks whose GPU did not report it
  double without_uncertainty = 0;  ///< ranks that cannot tell how far off theirs is
  double by_power = 0;             ///< ranks whose energy is that of power readings, not of a counter
  double simulated = 0;
  double invalid = 0;
  double peak_flop_s = 0;
  double without_peak = 0;    ///< ranks the peak of whose GPU is not known
  double without_server = 0;  ///< ranks that the job's server does not answer
  double not_switched = 0;    ///< ranks whose agent did not accept an operating point
  double end = 0;

  /// Of this rank, before; of all ranks, afterwards.
  void add_up(Collective& world);
  /// Into `result`, whose time and frozen blocks are known.
  void describe(const launcher::TrainConfig& config, StepResult& result) const;
};

}  // namespace lowgear::trainer
