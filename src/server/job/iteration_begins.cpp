#include "server/job/iteration_begins.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/core/numbers/median.h"

namespace lowgear::server {

void ClockDifference::add(double sent_s, double received_s) {
  last_s_.push_back(received_s - sent_s);
  if (last_s_.size() > kMost) last_s_.pop_front();
}

double ClockDifference::behind_s() const { return last_s_.empty() ? 0 : *std::ranges::min_element(last_s_); }

void IterationBegins::add(const protocol::RankReports& reports, double now_s) {
  if (reports.sent_s) clock_.add(*reports.sent_s, now_s);
  for (const protocol::IterationReport& report : reports.reports) add(report);
}

void IterationBegins::add(const protocol::IterationReport& report) {
  const bool continues = report.begin_s && !last_.empty() && report.iteration == last_.back().iteration + 1 &&
                         report.plan_version == last_.back().plan_version && *report.begin_s > *last_.back().begin_s;
  if (!continues) last_.clear();
  if (!report.begin_s) return;
  last_.push_back(report);
  if (last_.size() > kMost) last_.pop_front();
}

std::optional<IterationBegins::Pace> IterationBegins::pace(int plan_version) const {
  if (last_.size() < kLeast || last_.back().plan_version != plan_version) return std::nullopt;
  std::vector<double> times_s;
  for (std::size_t i = 1; i < last_.size(); ++i) {
    times_s.push_back(*last_[i].begin_s - *last_[i - 1].begin_s - last_[i].delay_s);
  }
  const double usual_s = upper_median(std::span(times_s));
  if (!(usual_s > 0)) return std::nullopt;
  return Pace{.iteration = last_.back().iteration,
              .begin_s = *last_.back().begin_s + clock_.behind_s(),
              .time_s = usual_s,
              .cannot_wait = last_.back().cannot_wait};
}

}  // namespace lowgear::server
