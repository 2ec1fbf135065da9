#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "client/agent/agent_lease.h"
#include "client/server/served_rank.h"

namespace lowgear::client {

/// Whether a rank follows plans, as the program wants it: the agent and the server learn when that changes. Safe from
/// any thread.
class PlanFollowing {
 public:
  /// Either may be null; they live longer than this.
  PlanFollowing(AgentLease* lease, ServedRank* served) : lease_(lease), served_(served) {}

  /// No plan is followed any more. The first reason is kept.
  void refuse(std::string_view reason) { end(State::refused, reason); }
  /// No plan is followed until `follow_again`.
  void stop() { end(State::stopped, "the program has stopped following"); }
  /// Throws LeaseRefused after `refuse`.
  void follow_again();
  /// Throws LeaseRefused where plans are not followed.
  void require() const;
  /// Why plans are not followed; empty: they are.
  [[nodiscard]] std::string why_not() const;

 private:
  enum class State : unsigned char { follows, stopped, refused };

  void end(State state, std::string_view reason);

  AgentLease* lease_;
  ServedRank* served_;
  mutable std::mutex mutex_;  ///< of the two below, and held while they change, so that the others see one order
  State state_ = State::follows;
  std::string reason_;
};

}  // namespace lowgear::client
