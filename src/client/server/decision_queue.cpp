#include "client/server/decision_queue.h"

#include <algorithm>
#include <utility>

namespace lowgear::client {

void DecisionQueue::add(protocol::TrainingDecision decision, Clock::time_point now) {
  if (kept_.size() == kMaxDecisions) {
    const std::int64_t oldest = kept_.front().decision.number;
    kept_.pop_front();
    if (oldest > sent_) {
      sent_ = oldest;
      ++lost_;
    }
  }
  decision.number = ++added_;
  kept_.push_back({std::move(decision), now});
}

void DecisionQueue::set_work(protocol::JobWork work) {
  if (work_ == work) return;
  work_ = std::move(work);
  work_sent_ = false;
}

std::optional<protocol::RankDecisions> DecisionQueue::next(int rank, Clock::time_point now) {
  if (empty()) return std::nullopt;
  requested_ = true;
  protocol::RankDecisions body{.rank = rank, .work = work_sent_ ? std::nullopt : work_, .decisions = {}};
  for (const Kept& kept : kept_) {
    if (kept.decision.number <= sent_) continue;
    if (body.decisions.size() == protocol::kMaxDecisionsPerRequest) break;
    body.decisions.push_back(kept.decision);
    body.decisions.back().age_s = std::chrono::duration<double>(now - kept.made).count();
  }
  return body;
}

void DecisionQueue::sent(const protocol::RankDecisions& body, bool taken) {
  if (!requested_) return;  // the response is of a job that is gone
  if (body.work && body.work == work_) work_sent_ = true;
  if (body.decisions.empty()) return;
  // Some of them may have been dropped for newer ones since, and are counted.
  const std::int64_t last = body.decisions.back().number;
  if (last <= sent_) return;
  if (!taken) lost_ += static_cast<std::uint64_t>(last - sent_);
  sent_ = last;
}

void DecisionQueue::begin_job() {
  work_sent_ = requested_ = false;
  sent_ = kept_.empty() ? added_ : kept_.front().decision.number - 1;
}

}  // namespace lowgear::client
