#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"
#include "client/agent/agent_connection.h"

namespace lowgear::client {

/// Which version of the plan was in force during the whole of an iteration: 0 where none was, or another than the
/// server's.
class PlanVersions {
 public:
  /// From this iteration on. Replaces earlier entries for this and later iterations.
  void follow(std::uint64_t from_iteration, int version) {
    forget_from(from_iteration);
    from_[from_iteration] = version;
  }
  /// This and later iterations follow the plan from before.
  void forget_from(std::uint64_t iteration) { from_.erase(from_.lower_bound(iteration), from_.end()); }
  /// Iterations are asked for in order: what lies before is forgotten.
  [[nodiscard]] int version_of(std::uint64_t iteration) {
    auto after = from_.upper_bound(iteration);
    if (after == from_.begin()) return 0;
    const auto in_force = --after;
    from_.erase(from_.begin(), in_force);
    return in_force->second;
  }

 private:
  std::map<std::uint64_t, int> from_;
};

/// Of trials that end with the next plan. A plan that has some is one for the iterations before them.
inline constexpr std::uint32_t kUntilNextPlan = (std::uint32_t{1} << 31U) - 1;

/// A plan, from which iteration on, and its version where it is the server's (0 otherwise).
struct HeldPlan {
  ipc::PlanMessage message;
  std::uint64_t from_iteration = 0;
  int version = 0;
};

/// The plans that an agent follows for a process: the current one, the one that waits for its iteration, and which
/// version of the server's was in force in which iteration. Plans stay while the agent is away, so that the next one
/// can be given them. `begun` is everywhere the number of iterations that have begun. Not thread-safe.
class HeldPlans {
 public:
  /// The newest that an agent has taken and whose iteration has begun.
  [[nodiscard]] const std::optional<HeldPlan>& current() const { return current_; }
  /// Whether the agent follows it.
  [[nodiscard]] bool followed() const noexcept { return followed_.load(std::memory_order_relaxed); }
  /// Whether the agent follows a plan in the newest iteration that has begun, which is this one: where plans are for
  /// one iteration each, one of its own. From any thread.
  [[nodiscard]] bool followed_in(std::uint64_t iteration) const noexcept {
    if (!are_single_.load(std::memory_order_relaxed)) return followed();
    return single_[iteration % single_.size()].load(std::memory_order_relaxed) == iteration + 1;
  }
  /// The current plan as a new agent is to follow it at once: without trials, which belong to iterations that have
  /// begun, and then with no version. Empty: there is none, or it was for one iteration.
  [[nodiscard]] std::optional<HeldPlan> current_again() const;
  /// Version that was followed throughout an iteration; 0: none. Iterations are asked for in order.
  [[nodiscard]] int version_of(std::uint64_t iteration) { return versions_.version_of(iteration); }

  /// The agent has begun to follow this plan: whole iterations do so that have not begun by now.
  void follow_now(HeldPlan plan, std::uint64_t begun);
  /// The agent has taken this plan, and drops the one that was waiting, if any. When that one's iteration began
  /// meanwhile, it is not known which came first: the iterations up to the newer plan's then count as those of no plan.
  void follow_later(HeldPlan plan, std::uint64_t begun);
  /// Makes the waiting plan the current one where its iteration has begun, and says so. `with_agent`: there is one,
  /// which then follows it.
  bool begin_next(std::uint64_t begun, bool with_agent);
  /// The plan that waits, which then waits no longer.
  [[nodiscard]] std::optional<HeldPlan> take_next();
  /// The agent has gone: the iteration under way follows no plan.
  void lose_agent(std::uint64_t begun);
  /// Holds no plan any more. The plans of earlier iterations are still known.
  void forget();
  /// No plan counts as one of the server's from now on.
  void forget_versions(std::uint64_t begun);

 private:
  void forget_single();
  void follow_none(std::uint64_t begun) { versions_.follow(begun > 0 ? begun - 1 : 0, 0); }

  std::optional<HeldPlan> current_;
  std::optional<HeldPlan> next_;  ///< its iteration had not begun when it was last looked at
  std::atomic<bool> followed_{false};
  std::atomic<bool> are_single_{false};                 ///< plans are for one iteration each
  std::array<std::atomic<std::uint64_t>, 2> single_{};  ///< iterations with such plans, plus 1; 0: none
  PlanVersions versions_;
};

struct AgentLeaseOptions {
  std::filesystem::path socket;
  ipc::HelloMessage hello;
  std::chrono::milliseconds timeout{5'000};          ///< for an answer of the agent
  std::chrono::milliseconds reconnect_after{3'000};  ///< since the agent was last asked
};

enum class LeaseState : unsigned char {
  none,     ///< no agent has responded, or the program has given the lease back
  held,     ///< the agent leases the GPU
  busy,     ///< an agent responds, and gives no lease for now
  refused,  ///< an agent responds, and gives no lease until a person changes something
  lost,     ///< there was a lease, and no agent responds
};

struct AgentLeaseStatus {
  LeaseState state = LeaseState::none;
  bool has_plan = false;  ///< one is followed, not only waiting for its iteration
  bool suspended = false;
  bool dry_run = false;
  std::uint32_t requested_clock_mhz = 0;
  std::uint64_t reconnects = 0;
  std::string problem;  ///< empty: none
  std::string missed;   ///< why clocks could not be set at some time, the newest reason; empty: they could

  [[nodiscard]] bool has_lease() const { return state == LeaseState::held; }
};

/// A training process' lease on its GPU and the plan that the agent follows, both taken again when the agent comes
/// back. A lease that an administrator has ended is taken again only by `load_plan`, on the program's request.
/// Thread-safe; `ring` and `iteration_begins` are the training thread's and never wait.
class AgentLease {
 public:
  /// The result for a plan that is to begin with an iteration.
  enum class Offer : unsigned char {
    accepted,
    too_late,  ///< the iteration has begun: the previous plan stays in effect, and this one is ignored
    refused,   ///< this GPU cannot follow it, or this user may not
    no_lease,  ///< now
  };
  struct OfferAnswer {
    Offer offer = Offer::no_lease;
    std::string reason;  ///< of a refusal
  };

  /// Asks for the lease; whatever goes wrong is kept for `status`.
  explicit AgentLease(AgentLeaseOptions options);
  /// Gives the lease back.
  ~AgentLease();
  AgentLease(const AgentLease&) = delete;
  AgentLease& operator=(const AgentLease&) = delete;

  /// Ring of the newest lease; null: no agent listens.
  [[nodiscard]] ipc::UnitRing* ring() const noexcept { return ring_.load(std::memory_order_acquire); }
  /// Whether the agent follows a plan in the iteration that has begun last, and its clocks are held. From any thread.
  [[nodiscard]] bool follows_plan() const noexcept {
    const ipc::UnitRing* const ring = this->ring();
    const std::uint64_t begun = this->begun();
    return begun > 0 && plans_.followed_in(begun - 1) && ring != nullptr &&
           ring->clocks_not_held.load(std::memory_order_relaxed) == 0;
  }
  /// To be called before the ring is named.
  void iteration_begins(std::uint64_t iteration) noexcept { begun_.store(iteration + 1, std::memory_order_release); }

  /// Follows a plan at once. Throws LeaseRefused when the agent does not accept it (the previous plan then stays in
  /// effect) or has ended the lease, and Error when there is no agent: the plan is then sent when there is one.
  void load_plan(ipc::PlanMessage plan);
  /// Has the agent follow a plan of the server from an iteration on. The agent decides whether that has begun, as it
  /// alone knows which units it has seen.
  [[nodiscard]] OfferAnswer offer(ipc::PlanMessage plan, std::uint64_t from_iteration, int version);
  /// Takes the lease again, and hands over the plans that it had, when the agent has gone, unless a person or the
  /// program has ended it.
  void keep();
  /// Gives the lease back, so that clocks are free, and forgets all plans; none is taken until `ask_again`.
  void withdraw(std::string_view reason);
  /// Undoes `withdraw`.
  void ask_again();

  /// From now on no plan counts as one of the server's.
  void forget_versions();
  /// Version of the server's plan that was followed throughout an iteration; 0 when none was. Iterations are asked for
  /// in order.
  [[nodiscard]] int plan_version(std::uint64_t iteration);
  /// The longest time before its unit that the agent requests a clock, by the plans that it has taken so far. From any
  /// thread.
  [[nodiscard]] double clock_lead_s() const noexcept { return clock_lead_s_.load(std::memory_order_relaxed); }
  /// Iterations that have begun.
  [[nodiscard]] std::uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  [[nodiscard]] AgentLeaseStatus status();

 private:
  /// What does not work, for a person; empty: nothing.
  struct Problems {
    std::string lease;
    std::string plan;
    std::string missed;  ///< stays when it has gone
  };
  void connect();
  void connect_again();
  void look_after_agent();
  void look_at_clocks();
  void lose(std::string problem);
  void set_unleased(LeaseState state, std::string problem);
  void give_up(std::string_view reason);
  void forget_plans();
  [[nodiscard]] ipc::PlanAnswer send(const ipc::PlanMessage& plan);
  [[nodiscard]] std::optional<std::string> hand_over_loaded();
  void follow_now(HeldPlan plan);
  void begin_next();
  void hand_over_again();
  void hand_over_current(HeldPlan again);
  void hand_over_next();

  AgentLeaseOptions options_;
  std::atomic<ipc::UnitRing*> ring_{nullptr};
  std::atomic<std::uint64_t> begun_{0};
  std::atomic<double> clock_lead_s_{0};

  mutable std::mutex mutex_;  ///< of all below
  std::unique_ptr<AgentConnection> agent_;
  std::vector<std::shared_ptr<MappedUnitRing>> rings_;  ///< also of past leases: the training thread may be in one
  std::optional<ipc::PlanMessage> loaded_;              ///< by the program, and no agent has answered yet
  HeldPlans plans_;
  bool given_up_ = false;   ///< a person has ended the lease, and no plan was loaded since
  bool withdrawn_ = false;  ///< the program has, and has not asked again
  LeaseState state_ = LeaseState::none;
  std::uint64_t reconnects_ = 0;
  Problems problems_;
  std::chrono::steady_clock::time_point asked_at_;
};

}  // namespace lowgear::client
