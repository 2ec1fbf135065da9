#include "server/fleet/share_waits.h"

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

}  // namespace lowgear::server
