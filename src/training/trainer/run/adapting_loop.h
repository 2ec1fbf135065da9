#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/agent/agent_connection.h"
#include "client/client.h"
#include "planning/adapt/techniques/technique_controller.h"
#include "planning/schedule/schedule.h"
#include "training/launcher/config/train_config.h"
#include "training/trainer/checkpoint/checkpoint.h"
#include "training/trainer/measuring/metrics_file.h"
#include "training/trainer/run/freezing_loop.h"
#include "training/trainer/run/step_result.h"

namespace lowgear::trainer {

/// What changes about a job while it trains: rank 0 decides from what all ranks measured in a step
/// (TechniqueController), all ranks learn it before any of them begins the next one, and carry it out then. As a
/// placebo all of that happens, but nothing is carried out.
class AdaptingLoop final : public SavedState {
 public:
  /// The configuration has a technique; `position` is in the pipeline. All outlive this. Throws InputError when a plan
  /// cannot be read.
  AdaptingLoop(const launcher::TrainConfig& config, FreezingLoop& freezing, client::Client& client,
               const Communicators& ranks, int position);

  /// To be called once it is known how many steps were done before. Throws InputError when the log cannot be written,
  /// or the agent does not accept the clocks of an operating point.
  void begin(std::int64_t first_step, const schedule::Schedule& schedule);
  /// Before each step, on all ranks: what rank 0 decides on the step before. FreezingLoop then has the new prefix.
  void agree(std::int64_t step);
  /// Then, with the schedule for that prefix: the agent of this rank gets the clocks. Returns whether it accepts them.
  [[nodiscard]] bool follow(const schedule::Schedule& schedule);
  /// After each step, on rank 0.
  void after_step(const StepResult& result);
  /// What was decided since the last call; on rank 0.
  [[nodiscard]] std::vector<adapt::TechniqueDecision> take_decisions();
  /// Of this step; empty where none is searched.
  [[nodiscard]] std::string point_name() const;

  /// With the state of FreezingLoop. What is being tried is not in it.
  [[nodiscard]] std::string save() const override;
  void restore(const std::string& json, const std::string& source) override;

 private:
  /// What the agent follows.
  struct Loaded {
    int point = 0;
    int frozen_stages = 0;
    std::uint64_t agents = 0;  ///< that were lost; only of power limits, which are not handed over again with a plan
    friend bool operator==(const Loaded&, const Loaded&) = default;
  };

  void observe_window(const adapt::freezing::Observation& window);
  void decide();
  void write(const std::string& line);
  void load(int point, const schedule::Schedule& schedule);
  void set_power_limit(double limit_w);
  [[nodiscard]] std::uint64_t lost_agents() const;

  const launcher::TrainConfig* config_;
  FreezingLoop* freezing_;
  client::Client* client_;
  const Communicators* ranks_;
  int position_;
  std::vector<std::string> plans_;                        ///< texts, by point; none: clocks
  std::optional<adapt::TechniqueController> controller_;  ///< observes on rank 0 alone
  adapt::Configuration agreed_;
  std::optional<Loaded> loaded_;
  adapt::TechniqueStep step_;                        ///< as far as it has been observed; 0 steps done: not at all
  std::vector<adapt::TechniqueDecision> decisions_;  ///< that were not taken yet
  std::optional<MetricsFile> log_;
  std::optional<client::AgentSettings> settings_;  ///< only of power limits
};

}  // namespace lowgear::trainer
