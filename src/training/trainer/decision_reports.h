#pragma once

#include <string>

#include "client/client.h"
#include "planning/adapt/techniques/technique_controller.h"
#include "protocol/rank_decisions.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/run/step_result.h"

namespace lowgear::trainer {

/// Reports what techniques decide, and what the job works on, to the job's server. Nothing happens without one.
class DecisionReports {
 public:
  /// Both outlive this.
  DecisionReports(const launcher::TrainConfig& config, client::Client& client)
      : config_(&config), client_(&client), in_fp8_(config.fp8 && !config.fp8->probe) {}

  /// After each step, on rank 0. Waits for nothing.
  void add(const StepResult& result);

 private:
  const launcher::TrainConfig* config_;
  client::Client* client_;
  bool in_fp8_;  ///< as configured, or as a probe has chosen
};

/// The decision as a server shows it: how the job runs from then on in words.
[[nodiscard]] protocol::TrainingDecision reported(const adapt::TechniqueDecision& decision,
                                                  const launcher::TrainConfig& config);

/// For people at the end of a run; empty when the server has all decisions, or may still get them.
[[nodiscard]] std::string unsent_decisions(const client::Status& status);

}  // namespace lowgear::trainer
