#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/core/monotonic_clock.h"
#include "client/client.h"
#include "planning/adapt/precision_choice.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// The precision of a run, and the reason.
struct ChosenPrecision {
  bool fp8 = false;
  std::string reason;
  std::int64_t steps = 0;               ///< that the probe trained and undid
  double time_s = 0;                    ///< that it took
  std::optional<double> energy_j = {};  ///< of all GPUs in its blocks; empty: not measured
};

/// A probe's access to a job. Each function is called on all ranks.
struct ProbedJob {
  std::function<void(bool on)> use_fp8;
  /// Trains a step on its data. Returns what this rank adds to the mean loss of all ranks.
  std::function<double(std::int64_t step)> train;
  std::function<bool()> asked_to_end;  ///< on any rank
  AdamW* optimizer = nullptr;
  Collective* world = nullptr;
  client::Client* client = nullptr;  ///< null: no energy can be measured
  at::Device device = at::kCPU;
  std::int64_t first_step = 0;
  std::int64_t steps = 0;  ///< of the whole job
  std::function<double()> now_s = monotonic_s;
};

/// Tries a job in bf16 and in fp8 before its first step: blocks in the order A B, B A, each from the state that the job
/// has, both of a pair on the same data; the first pair does not count. Then the job has that state again, and computes
/// in the precision that was chosen (adapt::choose_precision). The state, 12 bytes per parameter of this rank, is kept
/// in host memory meanwhile.
class PrecisionProbe {
 public:
  PrecisionProbe(const launcher::PrecisionProbeConfig& config, ProbedJob job);
  /// A meeting of all ranks, with the same result on each. If the job is asked to end, the probe is cut off: bf16.
  [[nodiscard]] ChosenPrecision run();

 private:
  struct Block {
    adapt::PrecisionBlock seen;
    bool end = false;
  };

  void restore();
  [[nodiscard]] Block block(bool fp8, std::int64_t begin, std::int64_t steps);
  /// Empty when the job is asked to end.
  [[nodiscard]] std::optional<adapt::PrecisionPair> pair(bool fp8_first, std::int64_t begin, std::int64_t steps);
  [[nodiscard]] adapt::PrecisionChoice choose();

  launcher::PrecisionProbeConfig config_;
  ProbedJob job_;
  std::vector<at::Tensor> state_;  ///< master values and moments
  std::int64_t optimizer_steps_;
  std::int64_t trained_steps_ = 0;
  double energy_j_ = 0;  ///< NaN: a block had none
};

}  // namespace lowgear::trainer
