#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/node_power.h"
#include "server/fleet/power_shares.h"

namespace lowgear::server {

/// A caller that waits for a value. It may disconnect before the value is there.
template <typename Value>
struct Pending {
  std::function<void(const Value&)> give;  ///< to be called once
  std::function<bool()> is_gone;           ///< it has disconnected
};
/// A plan, as ranks receive it. Null: there is no newer one.
using PlanText = std::shared_ptr<const std::string>;

/// A node's agent that waits, by long poll, for another share than it was granted last.
struct ShareWait {
  std::string host;
  double until_s = 0;
  Pending<protocol::NodeShares> agent;
};

/// All agents that wait for shares: a share that falls is known to its agent at once, not when that asks next.
class ShareWaits {
 public:
  void add(ShareWait wait) { waits_.push_back(std::move(wait)); }
  /// Answers those whose share is another one by now, and those whose time has come.
  void answer(PowerShares& shares, double now_s);
  /// Answers all of them.
  void end_all(PowerShares& shares);
  [[nodiscard]] bool empty() const { return waits_.empty(); }

 private:
  std::vector<ShareWait> waits_;
};

/// A rank that waits for a plan newer than `after`, by long poll.
struct PlanWait {
  int rank = 0;
  int after = 0;
  double until_s = 0;
  Pending<PlanText> pending;
};

/// All ranks that wait for plans of one job.
class PlanWaits {
 public:
  void add(PlanWait wait) { waits_.push_back(std::move(wait)); }
  /// Calls `answer` with each of them; those for which it returns true wait no more.
  void answer(const std::function<bool(const PlanWait&)>& answer);
  /// Answers those whose time has come by `now_s`, with no plan.
  void end(double now_s);
  /// Answers all of them, with no plan.
  void end_all();
  [[nodiscard]] std::size_t size() const { return waits_.size(); }

 private:
  std::vector<PlanWait> waits_;
};

}  // namespace lowgear::server
