#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/http/server/reply.h"
#include "protocol/node_power.h"
#include "server/fleet/power_shares.h"

namespace lowgear::server {

/// A node's agent that waits, by long poll, for another share than it was granted last.
struct ShareWait {
  std::string host;
  double until_s = 0;
  std::shared_ptr<http::Reply> reply;
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

void send_shares(http::Reply& reply, const protocol::NodeShares& shares);

}  // namespace lowgear::server
