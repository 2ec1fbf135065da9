#include "client/server/outbox.h"

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

void Outbox::add(const protocol::IterationReport& report, const protocol::GpuNow& gpu) {
  if (reports_.size() == kMaxReports) {
    reports_.pop_front();
    ++lost_;
  }
  reports_.push_back(report);
  gpu_ = gpu;
}

void Outbox::add(ProfileResult result) {
  if (profiles_.size() == kMaxProfiles) profiles_.pop_front();
  profiles_.push_back(std::move(result));
}

void Outbox::hear(const protocol::GpuNow& gpu) {
  gpu_ = gpu;
  speaks_ = true;
}

bool Outbox::set_refusal(std::string reason) {
  if (refusal_ == reason) return false;
  refusal_ = std::move(reason);
  speaks_ = true;
  return true;
}

std::optional<protocol::RankReports> Outbox::next_reports(int rank) {
  if (!std::exchange(speaks_, false) && reports_.empty()) return std::nullopt;
  protocol::RankReports body{.rank = rank, .reports = {}, .gpu = gpu_};
  const std::size_t size = std::min(reports_.size(), protocol::kMaxReportsPerRequest);
  body.reports.assign(reports_.begin(), reports_.begin() + static_cast<std::ptrdiff_t>(size));
  body.refusal = refusal_;
  return body;
}

/// Some of them may have been dropped for newer ones meanwhile.
void Outbox::heard(const protocol::RankReports& body, bool taken) {
  if (body.reports.empty()) return;
  if (!taken) lost_ += body.reports.size();
  const std::int64_t last = body.reports.back().iteration;
  while (!reports_.empty() && reports_.front().iteration <= last) reports_.pop_front();
}

std::optional<ProfileResult> Outbox::next_profile() const {
  return profiles_.empty() ? std::nullopt : std::optional(profiles_.front());
}

/// A newer one may have taken its place.
void Outbox::heard_profile(int plan_version) {
  if (!profiles_.empty() && profiles_.front().plan_version == plan_version) profiles_.pop_front();
}

void Outbox::drop_job() {
  lost_ += reports_.size();
  reports_.clear();
  profiles_.clear();
  decisions_.begin_job();
}

}  // namespace lowgear::client
