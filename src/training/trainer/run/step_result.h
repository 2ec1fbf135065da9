#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planning/adapt/freezing/weight_gradient_rotation.h"
#include "planning/adapt/techniques/technique_controller.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/envpipe/envpipe_loop.h"
#include "training/trainer/probe/precision_probe.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// What it took to move layers between ranks before a step.
struct MovedLayers {
  double time_s = 0;  ///< of the slowest rank; within the step's
  double bytes = 0;   ///< that all ranks sent each other
};

/// What a step did, over all ranks.
struct StepResult {
  std::int64_t step = 0;
  double loss = 0;                      ///< mean over the step's tokens, in nats
  std::optional<double> held_out_loss;  ///< after the step, in nats; empty when it was not measured
  double gradient_norm = 0;             ///< before clipping
  double learning_rate = 0;
  std::int64_t frozen_blocks = 0;  ///< blocks that this step did not train, from the first on; with the embedding
  /// What of the weight gradients this step left out, or as a placebo would have; empty: the job leaves out none.
  std::optional<adapt::freezing::WeightGradientRotation::Drops> dropped_gradients = {};
  double time_s = 0;
  std::optional<double> energy_j;              ///< of all GPUs; empty when not all report it all the time
  std::optional<double> energy_uncertainty_j;  ///< +-; empty when that of a GPU is not known
  int ranks_by_power = 0;                      ///< ranks whose energy is that of power readings, not of a counter
  std::string energy_problem = {};             ///< why that of this rank is; empty: it is not
  bool simulated = false;                      ///< the GPUs are Lowgear's simulation
  /// Model FLOPs utilisation (training_flops_per_token, without what frozen blocks save) of all GPUs, 0 to 1; empty
  /// unless the peak of each is known.
  std::optional<double> mfu;
  bool invalid = false;          ///< on simulated GPUs: real computation took longer than the simulated one
  int ranks_without_server = 0;  ///< ranks that the job's server did not answer last; 0 where it has none
  std::string server_problem;    ///< of this rank with it; empty: none
  int ranks_not_switched = 0;    ///< ranks whose agent did not accept the clocks of the operating point
  std::string operating_point;   ///< empty where none is searched
  /// Of one microbatch, by stage, of the rank of it that holds most; 0: nothing of the stage is trained. Empty: they
  /// were not measured in this step.
  std::vector<std::int64_t> activation_bytes = {};
  std::string policy = {};                        ///< whose clocks the step followed; empty: none's
  std::string partition = {};                     ///< of the step, `custom:0,4,8`; empty unless the job may change it
  std::optional<MovedLayers> moved = {};          ///< empty: the partition is that of the step before
  std::optional<ChosenPrecision> precision = {};  ///< in a run's first step, where a probe has chosen it
  std::optional<EnvPipeDecision> envpipe = {};    ///< on rank 0, where the policy is followed in the running job
  std::vector<adapt::TechniqueDecision> decisions = {};  ///< on rank 0: since the step before
};

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
