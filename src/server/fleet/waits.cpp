#include "server/fleet/waits.h"

#include <limits>

namespace lowgear::server {

void ShareWaits::answer(PowerShares& shares, double now_s) {
  std::erase_if(waits_, [&](const ShareWait& wait) {
    if (wait.agent.is_gone()) return true;
    const protocol::NodeShares before = shares.granted(wait.host);
    const protocol::NodeShares now = shares.grant_again(wait.host);
    const bool is_removed = now.shares.empty();
    if (wait.until_s > now_s && now == before && !is_removed) return false;
    wait.agent.give(now);
    return true;
  });
}

void ShareWaits::end_all(PowerShares& shares) { answer(shares, std::numeric_limits<double>::infinity()); }

void PlanWaits::answer(const std::function<bool(const PlanWait&)>& answer) { std::erase_if(waits_, answer); }

void PlanWaits::end(double now_s) {
  std::erase_if(waits_, [now_s](const PlanWait& wait) {
    if (wait.pending.is_gone()) return true;
    if (wait.until_s > now_s) return false;
    wait.pending.give(nullptr);
    return true;
  });
}

void PlanWaits::end_all() { end(std::numeric_limits<double>::infinity()); }

}  // namespace lowgear::server
