#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/steps/step_clocks.h"
#include "planning/adapt/change_controller.h"
#include "planning/adapt/freezing/weight_gradient_rotation.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/envpipe/envpipe_loop.h"
#include "training/trainer/probe/precision_probe.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Cost of moving layers between ranks before an iteration.
struct MovedLayers {
  double time_s = 0;  ///< of the slowest rank; part of the iteration's
  double bytes = 0;   ///< sent by all ranks
};

/// An iteration of all ranks.
struct IterationResult {
  std::int64_t iteration = 0;                       ///< from 0; the metrics' `step`
  double loss = 0;                                  ///< mean over the iteration's tokens that count, in nats
  std::optional<std::int64_t> counted_tokens = {};  ///< empty: all count
  std::optional<double> held_out_loss;              ///< after the iteration, in nats; empty when it was not measured
  double gradient_norm = 0;                         ///< before clipping
  std::optional<double> loss_scale = {};  ///< of fp16; a step whose norm is not finite was skipped; empty: not in fp16
  double learning_rate = 0;
  std::int64_t frozen_blocks = 0;  ///< first blocks that the iteration did not train, with the embedding
  /// Weight gradients that the iteration left out, or as a placebo would have; empty: the job has no budget for them.
  std::optional<adapt::freezing::WeightGradientRotation::Drops> dropped_gradients = {};
  double time_s = 0;
  std::optional<double> energy_j;              ///< of all GPUs; empty when not all report it all the time
  std::optional<double> energy_uncertainty_j;  ///< +-; empty when that of a GPU is not known
  int ranks_by_power = 0;                      ///< ranks whose energy is integrated power readings, not a counter's
  std::string energy_problem = {};             ///< why this rank has no counter's energy; may be empty
  bool simulated = false;                      ///< the GPUs are Lowgear's simulation
  /// Model FLOPs utilisation (training_flops_per_token, without what frozen blocks save) of all GPUs, 0 to 1; empty
  /// unless the peak of each is known.
  std::optional<double> mfu;
  bool invalid = false;             ///< on simulated GPUs: real computation took longer than the simulated one
  int ranks_without_server = 0;     ///< ranks whose last request to the server failed; 0 without a server
  int ranks_without_recording = 0;  ///< ranks whose recording has ended before the training; 0 without one
  std::string server_problem;       ///< of this rank with the server; empty: none
  int ranks_not_switched = 0;       ///< ranks whose agent did not accept the clocks of the operating point
  std::string operating_point;      ///< empty where none is searched
  /// Of one microbatch, by stage, on the stage's rank that holds most; 0: nothing of the stage is trained. Empty: not
  /// measured in this iteration.
  std::vector<std::int64_t> activation_bytes = {};
  std::string policy = {};                                     ///< whose clocks the iteration followed; empty: none
  std::optional<client::StepPrediction> step_prediction = {};  ///< of this rank, where steps have clocks of their own
  std::string partition = {};                                  ///< `custom:0,4,8`; empty unless the job may change it
  std::optional<MovedLayers> moved = {};                       ///< empty: no layer moved
  std::optional<ChosenPrecision> precision = {};               ///< in a run's first iteration, if a probe chose it
  std::optional<EnvPipeDecision> envpipe = {};        ///< on rank 0, where the policy is followed in the running job
  std::vector<adapt::ChangeDecision> decisions = {};  ///< on rank 0: since the iteration before
};

/// Numbers of a rank that are summed over all ranks after an iteration.
struct IterationTotals {
  double loss = 0;
  double energy_j = 0;
  double energy_uncertainty_j = 0;
  double without_energy = 0;       ///< ranks whose GPU did not report it
  double without_uncertainty = 0;  ///< ranks whose energy has no known error
  double by_power = 0;             ///< ranks whose energy is integrated power readings, not a counter's
  double simulated = 0;
  double invalid = 0;
  double peak_flop_s = 0;
  double without_peak = 0;       ///< ranks whose GPU's peak is not known
  double without_server = 0;     ///< ranks without connection to the server
  double without_recording = 0;  ///< ranks whose recording has ended
  double not_switched = 0;       ///< ranks whose agent did not accept an operating point
  double end = 0;

  /// Replaces the numbers of this rank by the sums over all ranks.
  void add_up(Collective& world);
  /// Fills `result`, whose time and frozen blocks are known.
  void describe(const launcher::TrainConfig& config, IterationResult& result) const;
};

}  // namespace lowgear::trainer
