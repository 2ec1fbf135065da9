#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
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
  std::string reason;  ///< why the rank ran at full clocks; empty: by its plan
};

/// Has the agent of this rank run each step at clocks for the lengths of its microbatches. While a step runs, a thread
/// plans the next one and hands the plan to the agent; a step whose plan is late or missing runs at full clocks, and a
/// line says why. Every rank reads the lengths of all replicas, so that no rank waits for another.
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
  /// Of a step that was planned; empty: it was not planned in time.
  [[nodiscard]] std::optional<StepPrediction> prediction(std::int64_t step);

 private:
  [[nodiscard]] StepPrediction plan(std::int64_t step) const;
  void run(const std::stop_token& stop);
  void say(std::int64_t step, const StepPrediction& made);

  const launcher::TrainConfig* config_;
  const TrainingData* data_;
  client::Client* client_;
  launcher::RankPlace place_;
  int rank_;
  launcher::StepClocks clocks_;
  int lines_ = 0;

  std::mutex mutex_;  ///< of the three below
  std::condition_variable_any asked_;
  std::int64_t wanted_ = -1;  ///< step to plan
  std::int64_t planned_ = -1;
  StepPrediction newest_;  ///< of `planned_`
  StepPrediction before_;  ///< of the step before
  std::jthread thread_;    ///< last: it uses everything above
};

}  // namespace lowgear::trainer
