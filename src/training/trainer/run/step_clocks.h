#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "client/client.h"
#include "training/launcher/config/train_config.h"
#include "training/launcher/rank_layout.h"
#include "training/launcher/step_clocks.h"
#include "training/trainer/run/training_data.h"

namespace lowgear::trainer {

/// A step's plan as its rank followed it.
struct StepPrediction {
  double time_s = 0;   ///< of the longest replica at full clocks; 0: not known
  std::string reason;  ///< why it had no clocks of its own; empty: it had
};

/// Has the agent of this rank run each step at clocks for the lengths of its microbatches. While a step runs, a thread
/// plans the next one and hands the plan to the agent. A step that cannot be planned, or whose plan is late, runs at
/// full clocks, and one without an agent has no plan: a line says why. Every rank reads the lengths of all replicas, so
/// that no rank waits for another.
class StepClocks {
 public:
  /// The configuration has `energy.steps`. All outlive this. Throws InputError as `launcher::read_step_clocks`.
  StepClocks(const launcher::TrainConfig& config, const TrainingData& data, client::Client& client,
             const launcher::RankPlace& place, int rank);
  StepClocks(const StepClocks&) = delete;
  StepClocks& operator=(const StepClocks&) = delete;
  ~StepClocks();

  /// Before the first step. Waits for its plan. Throws Error where the agent does not take it.
  void begin(std::int64_t first_step);
  /// A step begins: plans the next one. Does not wait.
  void step_begins(std::int64_t step);
  /// Of the newest step that has begun, or the one before.
  [[nodiscard]] StepPrediction prediction(std::int64_t step);
  /// Ends planning. Says how many steps were not planned in time.
  void finish();

 private:
  struct Made {
    StepPrediction prediction;
    client::Client::IterationAnswer answer;
    bool is_of_all = false;  ///< a fault of the lengths, which all ranks find
  };
  [[nodiscard]] Made plan(std::int64_t step) const;
  void run(const std::stop_token& stop);
  void stop();
  void say(std::int64_t step, const Made& made);

  const launcher::TrainConfig* config_;
  const TrainingData* data_;
  client::Client* client_;
  launcher::RankPlace place_;
  int rank_;
  launcher::StepClocks clocks_;
  int lines_ = 0;

  std::mutex mutex_;  ///< of all below but the thread
  std::condition_variable_any asked_;
  std::int64_t begun_ = -1;   ///< newest step
  std::int64_t skipped_ = 0;  ///< steps that began before they were planned
  std::int64_t wanted_ = -1;  ///< step to plan
  std::int64_t planned_ = -1;
  StepPrediction newest_;  ///< of `planned_`
  StepPrediction before_;  ///< of the step before
  std::jthread thread_;    ///< last: it uses everything above
};

}  // namespace lowgear::trainer
