#include "server/fleet/waits.h"

#include <limits>

#include "base/http/message/error.h"

namespace lowgear::server {

void send_shares(http::Reply& reply, const protocol::NodeShares& shares) {
  reply.send(http::json_response(protocol::to_json(shares)));
}

void ShareWaits::answer(PowerShares& shares, double now_s) {
  std::erase_if(waits_, [&](const ShareWait& wait) {
    if (wait.reply->closed()) return true;
    const protocol::NodeShares before = shares.granted(wait.host);
    const protocol::NodeShares now = shares.grant_again(wait.host);
    const bool is_removed = now.shares.empty();
    if (wait.until_s > now_s && now == before && !is_removed) return false;
    send_shares(*wait.reply, now);
    return true;
  });
}

void ShareWaits::end_all(PowerShares& shares) { answer(shares, std::numeric_limits<double>::infinity()); }

void send_no_plan(http::Reply& reply) {
  reply.send({.status = 204, .content_type = {}, .body = nullptr, .headers = {}});
}

void PlanWaits::answer(const std::function<bool(const PlanWait&)>& answer) { std::erase_if(waits_, answer); }

void PlanWaits::end(double now_s) {
  std::erase_if(waits_, [now_s](const PlanWait& wait) {
    if (wait.reply->closed()) return true;
    if (wait.until_s > now_s) return false;
    send_no_plan(*wait.reply);
    return true;
  });
}

void PlanWaits::end_all() { end(std::numeric_limits<double>::infinity()); }

}  // namespace lowgear::server
