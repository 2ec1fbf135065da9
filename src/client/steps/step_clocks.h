#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "client/steps/begun_steps.h"
#include "client/steps/step_planning.h"
#include "planning/steps/work_model.h"

namespace lowgear::client {

/// The lengths of a step, as far as they are known.
struct StepLengths {
  enum class State : unsigned char {
    known,
    awaited,  ///< they may become known; `reason` says what is missing if the step begins before that
    invalid,  ///< for `reason`
  };
  State state = State::awaited;
  std::vector<steps::Amounts> amounts = {};  ///< by replica, then microbatch
  std::string reason = {};
};

/// A step's plan as its rank followed it.
struct StepPrediction {
  double time_s = 0;   ///< of the longest replica at full clocks; 0: not known
  std::string reason;  ///< why it had no clocks of its own; empty: it had
};

struct StepClocksOptions {
  StepPlanning planning;
  int pp_rank = 0;
  int replica = 0;
  bool speaks = true;  ///< reports what every rank finds, a fault of the lengths
  /// Of any step, from the thread that plans; the same on all ranks. An Error that it throws is a fault of the lengths.
  std::function<StepLengths(std::int64_t step)> lengths;
  /// Hands a plan to the agent of this rank (Client::plan_iteration).
  std::function<Client::IterationAnswer(Client::IterationPlan)> offer;
  std::function<std::string(std::int64_t step)> name;  ///< of a step, in messages: `iteration 12`
};

/// Has the agent of this rank run each step at clocks for the lengths of its microbatches. While a step runs, a thread
/// plans the next one once its lengths are known, and hands the plan to the agent. A step that cannot be planned, or
/// whose plan is late, runs at full clocks, and one without an agent has no plan: standard error says why, the same
/// reason once. Every rank knows the lengths of all replicas, so that no rank waits for another.
class StepClocks {
 public:
  /// `begun`, which the training thread writes, outlives this.
  StepClocks(const BegunSteps& begun, StepClocksOptions options);
  StepClocks(const StepClocks&) = delete;
  StepClocks& operator=(const StepClocks&) = delete;
  ~StepClocks();

  /// Before the first step, which `begun` expects. `plan_first` waits for its plan and throws Error where the agent
  /// does not take it; `begin` does not wait.
  void plan_first();
  void begin();
  /// The lengths of a step are known now, or others than before.
  void lengths_change(std::int64_t step);
  /// Of the newest step that has begun, or the one before.
  [[nodiscard]] StepPrediction prediction(std::int64_t step);
  /// Ends planning. How many steps had no clocks of their own, and why: `2 were not planned in time`; empty: all had.
  [[nodiscard]] std::string finish();

 private:
  struct Made {
    StepPrediction prediction;
    Client::IterationAnswer answer;
    bool is_of_all = false;  ///< a fault of the lengths, which all ranks find
  };
  [[nodiscard]] StepLengths lengths_of(std::int64_t step) const;
  [[nodiscard]] Made plan(std::int64_t step, const StepLengths& lengths) const;
  void run(const std::stop_token& stop);
  void stop();
  void count_begun();
  void count(std::int64_t step);
  void plan_next();
  void say(std::int64_t step, const Made& made);

  const BegunSteps* begun_;
  StepClocksOptions options_;

  // Of the thread, and of others while it does not run.
  BegunSteps::Run run_;         ///< as it was when begun steps were counted last
  std::int64_t seen_ = -1;      ///< newest step that is counted
  std::int64_t untold_ = 0;     ///< steps that began before their lengths were known
  std::int64_t late_ = 0;       ///< or before they were planned
  std::int64_t unplanned_ = 0;  ///< steps whose lengths could not be planned, or whose plan was refused
  int lines_ = 0;
  std::string said_;  ///< newest reason

  std::mutex mutex_;  ///< of all below but the thread
  std::condition_variable_any wake_;
  bool woken_ = false;
  std::uint64_t changes_ = 0;                ///< of lengths
  std::optional<std::int64_t> lowest_told_;  ///< step of which lengths were told
  std::map<std::int64_t, StepPrediction> made_;
  std::jthread thread_;  ///< last: it uses everything above
};

}  // namespace lowgear::client
