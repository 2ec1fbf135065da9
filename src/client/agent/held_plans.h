#pragma once

#include <cstdint>
#include <optional>

#include "base/ipc/lease_messages.h"
#include "client/agent/plan_versions.h"

namespace lowgear::client {

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
  [[nodiscard]] bool followed() const { return followed_; }
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
  /// Holds no plan any more. What was followed in earlier iterations is still known.
  void forget();
  /// No plan counts as one of the server's from now on.
  void forget_versions(std::uint64_t begun);

 private:
  void follow_none(std::uint64_t begun) { versions_.follow(begun > 0 ? begun - 1 : 0, 0); }

  std::optional<HeldPlan> current_;
  std::optional<HeldPlan> next_;  ///< its iteration had not begun when it was last looked at
  bool followed_ = false;
  PlanVersions versions_;
};

}  // namespace lowgear::client
