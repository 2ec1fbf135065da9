#include "server/fleet/plan_waits.h"

#include <limits>

namespace lowgear::server {

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
