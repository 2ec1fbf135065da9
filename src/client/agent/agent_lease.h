#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ipc/lease_messages.h"
#include "base/ipc/unit_ring.h"
#include "client/agent/agent_connection.h"
#include "client/agent/held_plans.h"

namespace lowgear::client {

struct AgentLeaseOptions {
  std::filesystem::path socket;
  ipc::HelloMessage hello;
  std::chrono::milliseconds timeout{5'000};          ///< for an answer of the agent
  std::chrono::milliseconds reconnect_after{3'000};  ///< since the agent was last asked
};

struct AgentLeaseStatus {
  bool has_lease = false;
  bool has_plan = false;  ///< one is followed, not only waiting for its iteration
  bool suspended = false;
  bool dry_run = false;
  std::uint32_t requested_clock_mhz = 0;
  std::uint64_t reconnects = 0;
  std::string problem;  ///< empty: none
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
  /// Iterations that have begun.
  [[nodiscard]] std::uint64_t begun() const { return begun_.load(std::memory_order_acquire); }
  [[nodiscard]] AgentLeaseStatus status();

 private:
  /// What does not work, for a person; empty: nothing.
  struct Problems {
    std::string lease;
    std::string plan;
  };
  void connect();
  void connect_again();
  void look_after_agent();
  void lose(std::string problem);
  void give_up(std::string_view reason);
  void forget_plans();
  [[nodiscard]] ipc::PlanAnswer send(const ipc::PlanMessage& plan);
  [[nodiscard]] std::optional<std::string> hand_over_loaded();
  void follow_now(HeldPlan plan);
  void begin_next();
  void hand_over_again();
  void hand_over_current();
  void hand_over_next();

  AgentLeaseOptions options_;
  std::atomic<ipc::UnitRing*> ring_{nullptr};
  std::atomic<std::uint64_t> begun_{0};

  std::mutex mutex_;  ///< of all below
  std::unique_ptr<AgentConnection> agent_;
  std::vector<std::shared_ptr<MappedUnitRing>> rings_;  ///< also of past leases: the training thread may be in one
  std::optional<ipc::PlanMessage> loaded_;              ///< by the program, and no agent has answered yet
  HeldPlans plans_;
  bool given_up_ = false;   ///< a person has ended the lease, and no plan was loaded since
  bool withdrawn_ = false;  ///< the program has, and has not asked again
  std::uint64_t reconnects_ = 0;
  Problems problems_;
  std::chrono::steady_clock::time_point asked_at_;
};

}  // namespace lowgear::client
