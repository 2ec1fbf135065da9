#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/http/server/reply.h"

namespace lowgear::server {

/// A rank that waits for a plan newer than `after`, by long poll.
struct PlanWait {
  int rank = 0;
  int after = 0;
  double until_s = 0;
  std::shared_ptr<http::Reply> reply;
};

/// The answer to a rank for which there is no newer plan: 204.
void send_no_plan(http::Reply& reply);

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
