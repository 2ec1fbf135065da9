#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "client/agent/agent_lease.h"
#include "client/measure/iteration_meter.h"
#include "client/measure/unit_log.h"
#include "client/server/profile_collector.h"
#include "client/server/server_connection.h"
#include "protocol/answers.h"
#include "protocol/job_spec.h"
#include "protocol/rank_plan.h"

namespace lowgear::client {

/// Waits before iterations that the server asks for, so that the job keeps a phase against others, and those that the
/// training thread has taken. Safe from any thread.
class IterationWaits {
 public:
  /// The server's newest answer to a report; valid until the next.
  void set(const protocol::ReportsAnswer& answer);
  /// What an iteration took: a wait is at most kMostShare of it, whatever is asked for.
  void set_iteration_s(double time_s);
  /// How long to wait before this iteration; it counts as taken. Each iteration waits once.
  [[nodiscard]] double take_s(std::uint64_t iteration);
  /// Whether the program lets iterations be delayed: it has asked for the wait of this one or a later one.
  [[nodiscard]] bool can_wait(std::uint64_t iteration) const;
  /// The newest entry before this iteration; older ones are forgotten.
  [[nodiscard]] double taken_s(std::uint64_t iteration);
  /// Reports should say when iterations begin.
  [[nodiscard]] bool wants_begins() const { return wants_begins_.load(std::memory_order_relaxed); }

  static constexpr double kMostShare = 0.1;

 private:
  std::atomic<bool> wants_begins_{false};
  mutable std::mutex mutex_;  ///< of the rest
  std::optional<protocol::IterationDelays> asked_;
  double iteration_s_ = 0;
  std::optional<std::uint64_t> newest_;                 ///< iteration that a wait was asked for
  std::deque<std::pair<std::uint64_t, double>> taken_;  ///< by iteration
};

struct ServedRankOptions {
  ServerConnectionOptions server;
  profile::Recording like;     ///< whose recordings this rank's are, without units and samples
  std::uint64_t start_ns = 0;  ///< CLOCK_MONOTONIC at their time 0
};

struct ServedRankStatus {
  ServerStatus server;
  int plan_version = 0;          ///< of the server's plan that the newest iteration followed; 0: none
  std::uint64_t iterations = 0;  ///< that ended
  /// Iterations that followed plans for training, those at which the server measured the job for such plans, those at
  /// the full clocks that it held in their place, and those that ended before the first plan of any purpose began. The
  /// agent followed no plan in all others.
  std::uint64_t planned = 0;
  std::uint64_t measured = 0;
  std::uint64_t at_full_clocks = 0;
  std::uint64_t before_plans = 0;

  /// What those of so many iterations ran that followed no plan for training, each as `; ...`. Empty where no plan of
  /// any purpose began.
  [[nodiscard]] std::string other_iterations(std::uint64_t all) const;
};

/// A rank whose plans come from the server: makes its agent follow them from their first iterations on, and reports the
/// times and energies of iterations to the server, and those of units under plans with trials.
class ServedRank final : private PlanTaker {
 public:
  /// `lease` may be null, where no agent is used; it lives longer than this.
  ServedRank(ServedRankOptions options, AgentLease* lease);
  ~ServedRank() override = default;

  // The three below are called by one thread at a time.
  /// Samples of the GPU, before the records that were marked until now are added.
  void add(std::span<const measure::GpuSample> samples);
  /// A record, and the iteration that ended with it, where it could be measured.
  void add(const UnitRecord& record, const std::optional<MeasuredIteration>& measured);
  /// Records were lost: the iteration under way is not known.
  void lose_iteration() { profile_.discard_iteration(); }

  /// Why the rank follows no plans from now on; empty: it does. From any thread.
  void set_refusal(std::string reason) { server_.set_refusal(std::move(reason)); }
  /// What ends the rank. From any thread.
  void set_failure(std::string failure) { server_.set_failure(std::move(failure)); }
  /// The training program's decisions and the job's work. From any thread.
  void report(protocol::TrainingDecision decision) { server_.report(std::move(decision)); }
  void set_work(protocol::JobWork work) { server_.set_work(std::move(work)); }

  /// What this process has planned for an iteration that has not been reported: the predicted time of the longest
  /// replica's units at full clocks (0: not known), and whether the rank runs it at full clocks. From any thread.
  /// Reports of a job of the policy `steps` say so.
  void predict(std::uint64_t iteration, double time_s, bool full_clocks);

  /// How long the server wants the training thread to wait before this iteration, each once.
  [[nodiscard]] double take_wait_s(std::uint64_t iteration) { return waits_.take_s(iteration); }

  [[nodiscard]] ServedRankStatus status() const;

 private:
  struct Prediction {
    double time_s = 0;
    bool full_clocks = false;
  };

  [[nodiscard]] AgentLease::OfferAnswer offer(const protocol::RankPlan& plan) override;
  void forget_versions() override;
  void take(const protocol::ReportsAnswer& answer) override { waits_.set(answer); }
  void add_prediction(const MeasuredIteration& measured, protocol::IterationReport& report);
  void follow_profile_plan(int version);
  void count_iteration(int version);
  void report(const MeasuredIteration& measured);
  void post(std::optional<ProfileResult> result);

  AgentLease* lease_;
  ProfileCollector profile_;
  GpuMeans gpu_means_;
  IterationWaits waits_;
  std::optional<std::uint64_t> newest_reported_;  ///< iteration
  std::optional<protocol::JobPolicy> policy_;     ///< that the job states
  std::atomic<int> plan_version_{0};

  mutable std::mutex mutex_;                       ///< of those below, but `server_`
  std::optional<ProfileRequest> asked_;            ///< a profile plan that the agent has taken
  std::map<int, protocol::PlanPurpose> purposes_;  ///< of the plans that the agent has taken, by version
  std::uint64_t iterations_ = 0;
  std::uint64_t planned_ = 0;
  std::uint64_t measured_ = 0;
  std::uint64_t at_full_clocks_ = 0;
  std::uint64_t before_plans_ = 0;
  std::map<std::uint64_t, Prediction> predictions_;  ///< by iteration, of those still to be reported
  bool forgets_profile_ = false;                     ///< what `profile_` holds is of a job that the server has lost

  ServerConnection server_;  ///< last: its threads use the above
};

}  // namespace lowgear::client
