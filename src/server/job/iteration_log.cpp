#include "server/job/iteration_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

/// Ranks that train in step differ by less in the time of an iteration: by this factor, and besides by so much.
constexpr double kTimesApart = 10;
constexpr double kApartS = 1;
/// More than a report may name.
constexpr double kMostUnheard = 1e13;

/// A rank without a plan says nothing of those that follow one.
void count_plan(JobIteration& whole, int version) {
  if (version == 0) return;
  if (whole.plan_version == 0) whole.plan_version = version;
  if (whole.plan_version != version) whole.plan_version = kMixedPlans;
  whole.newest_version = std::max(whole.newest_version, version);
}

/// Without that of a rank whose time is far above those of all others.
void take_time(JobIteration& whole, SlowestRank& slowest) {
  std::vector<double> times_s(whole.reports.size());
  for (std::size_t rank = 0; rank < times_s.size(); ++rank) {
    if (whole.reports[rank]) times_s[rank] = whole.reports[rank]->time_s;
  }
  const auto longest = std::ranges::max_element(times_s);
  const double longest_s = std::exchange(*longest, 0);
  if (whole.ranks >= 2 && longest_s > kTimesApart * std::ranges::max(times_s) + kApartS) {
    whole.apart = {static_cast<int>(longest - times_s.begin()), longest_s};
  } else {
    *longest = longest_s;
  }
  whole.time_s = slowest.take(times_s);
}

/// All ranks predict the same time, but one that has planned too late knows none.
void take_prediction(JobIteration& whole) {
  bool all_have_units = !whole.apart;
  for (const auto& report : whole.reports) {
    if (!report) {  // also of a rank that has ended
      all_have_units = false;
      continue;
    }
    whole.full_clocks = whole.full_clocks || report->full_clocks;
    whole.predicted_time_s = std::max(whole.predicted_time_s, report->predicted_time_s);
    whole.units_time_s = std::max(whole.units_time_s, report->units_time_s);
    all_have_units = all_have_units && report->units_time_s.has_value();
  }
  if (!all_have_units) whole.units_time_s.reset();
}

}  // namespace

Json to_json(const JobIteration& iteration) {
  return {{"iteration", iteration.iteration},
          {"time_s", iteration.time_s},
          {"energy_j", or_null(iteration.energy_j)},
          {"power_w", iteration.energy_j ? Json(*iteration.energy_j / iteration.time_s) : Json(nullptr)},
          {"plan_version", iteration.plan_version == kMixedPlans ? Json(nullptr) : Json(iteration.plan_version)}};
}

IterationLog::IterationLog(int ranks)
    : ranks_(ranks),
      last_(static_cast<std::size_t>(ranks), -1),
      finished_(static_cast<std::size_t>(ranks), false),
      elsewhere_(static_cast<std::size_t>(ranks), false) {}

/// What two ranks have reached, or the first report of all.
void IterationLog::require_plausible(const protocol::RankReports& reports, double now_s) const {
  if (reports.reports.empty() || (latest_ < 0 && open_.empty())) return;
  const std::int64_t reached = latest_ >= 0 ? latest_ : open_.begin()->first;
  const double unheard = std::min(std::max(0.0, now_s - advanced_s_) * kMostIterationsPerS, kMostUnheard);
  const std::int64_t most = reached + kMaxLead + static_cast<std::int64_t>(unheard);
  const std::int64_t iteration = reports.reports.back().iteration;
  if (iteration <= most) return;
  throw InputError(fmt::format(
      "$.reports: iteration {} of rank {}, and other ranks have reached {}: all ranks must count the same iterations",
      iteration, reports.rank, reached));
}

std::size_t IterationLog::add(const protocol::RankReports& reports, double now_s) {
  require_plausible(reports, now_s);
  return restore(reports, now_s);
}

std::size_t IterationLog::restore(const protocol::RankReports& reports, double since_s) {
  const auto rank = static_cast<std::size_t>(reports.rank);
  const auto enough = static_cast<std::size_t>(std::clamp(ranks_ - finished_ranks_, 1, 2));
  std::size_t added = 0;
  for (const protocol::IterationReport& report : reports.reports) {
    if (report.iteration <= last_.at(rank)) continue;
    heard_s_ = since_s;
    for (auto it = open_.upper_bound(last_[rank]); it != open_.end() && it->first < report.iteration; ++it) {
      it->second.passed.push_back(reports.rank);
      ++open_reports_;
    }
    last_[rank] = report.iteration;
    ++added;
    if (report.iteration < next_) continue;  // given up
    if (latest_ < 0 && open_.empty()) advanced_s_ = since_s;
    Open& open = opened(report.iteration, since_s);
    open.reports.emplace_back(reports.rank, report);
    ++open_reports_;
    if (open.reports.size() < enough || report.iteration <= latest_) continue;
    latest_ = report.iteration;
    advanced_s_ = since_s;
  }
  return added;
}

IterationLog::Open& IterationLog::opened(std::int64_t iteration, double since_s) {
  const auto [entry, is_new] = open_.try_emplace(iteration);
  Open& open = entry->second;
  if (!is_new) return open;
  open.since_s = since_s;
  if (iteration > highest_) {
    highest_ = iteration;
    return open;
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    if (last_iteration(rank) > iteration) open.passed.push_back(rank);
  }
  open_reports_ += open.passed.size();
  return open;
}

void IterationLog::finish(int rank) {
  if (finished_.at(static_cast<std::size_t>(rank))) return;
  finished_[static_cast<std::size_t>(rank)] = true;
  ++finished_ranks_;
}

bool IterationLog::complete(const Open& open) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  if (open.reports.size() == ranks) return true;
  if (open.reports.size() + open.passed.size() + static_cast<std::size_t>(finished_ranks_) < ranks) return false;
  const auto is_unfinished = [this](int rank) { return !finished_[static_cast<std::size_t>(rank)]; };
  const auto unfinished =
      std::ranges::count_if(open.reports, is_unfinished, [](const auto& entry) { return entry.first; }) +
      std::ranges::count_if(open.passed, is_unfinished);
  return unfinished + finished_ranks_ == ranks_;
}

std::vector<int> IterationLog::lacking(const Open& open) const {
  std::vector<bool> lacks = finished_;
  lacks.flip();
  for (const auto& [rank, report] : open.reports) lacks[static_cast<std::size_t>(rank)] = false;
  std::vector<int> ranks;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (lacks[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<HeldUp> IterationLog::held_up() const {
  if (open_.empty()) return std::nullopt;
  const auto& [iteration, open] = *open_.begin();
  if (open_.size() == 1 || heard_s_ - open.since_s < kPatienceS || complete(open)) return std::nullopt;
  return HeldUp{.first_iteration = iteration, .iterations = open_.size(), .ranks = lacking(open)};
}

std::optional<HeldUp> IterationLog::end() {
  std::optional<HeldUp> dropped;
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [iteration, open] = entry;
    if (complete(open)) return false;
    if (!dropped) dropped = HeldUp{.first_iteration = iteration, .iterations = 0, .ranks = lacking(open)};
    ++dropped->iterations;
    open_reports_ -= open.reports.size() + open.passed.size();
    return true;
  });
  return dropped;
}

bool IterationLog::given_up(std::int64_t iteration, const Open& open, double now_s) const {
  const auto whole = static_cast<std::size_t>(kOpenIterations) * static_cast<std::size_t>(ranks_);
  if (open_reports_ > std::max(kOpenReports, whole)) return true;
  return latest_ >= iteration + kOpenIterations && now_s - open.since_s >= kPatienceS;
}

std::optional<JobIteration> IterationLog::next(double now_s) {
  if (open_.empty()) return std::nullopt;
  const auto first = open_.begin();
  if (!complete(first->second) && !given_up(first->first, first->second, now_s)) return std::nullopt;
  JobIteration whole;
  whole.iteration = first->first;
  whole.reports.resize(static_cast<std::size_t>(ranks_));
  for (const auto& [rank, report] : first->second.reports) whole.reports[static_cast<std::size_t>(rank)] = report;
  if (first->second.reports.size() < whole.reports.size()) whole.lacking = lacking(first->second);
  open_reports_ -= first->second.reports.size() + first->second.passed.size();
  open_.erase(first);
  next_ = whole.iteration + 1;
  double energy_j = 0;
  int measured = 0;
  for (std::size_t rank = 0; rank < whole.reports.size(); ++rank) {
    const auto& report = whole.reports[rank];
    if (elsewhere_[rank]) ++measured;
    if (!report) continue;
    count_plan(whole, report->plan_version);
    ++whole.ranks;
    if (!report->energy_j || elsewhere_[rank]) continue;
    ++measured;
    energy_j += *report->energy_j;
    whole.energy_error_j += report->energy_error_j;
  }
  if (std::exchange(newest_version_, whole.newest_version) != whole.newest_version) slowest_ = {};
  take_time(whole, slowest_);
  take_prediction(whole);
  if (measured == ranks_ && !whole.apart) whole.energy_j = energy_j;
  return whole;
}

}  // namespace lowgear::server
