#include "control/server/parts/iteration_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "control/server/planning/json_members.h"

namespace lowgear {
namespace {

constexpr double kMaxIterationS = 1e6;
constexpr double kMaxIterationJ = 1e12;

IterationReport read_report(const JsonView& value) {
  require_members(value, {"iteration", "plan_version", "time_s", "compute_s", "energy_j", "energy_error_j",
                          "throttled_power", "throttled_thermal"});
  IterationReport report;
  report.iteration = value.at("iteration").integer();
  if (report.iteration < 0) value.at("iteration").fail("is below 0");
  if (report.iteration > std::int64_t{1} << 40) value.at("iteration").fail("is beyond any training");
  report.plan_version = value.at("plan_version").integer_in(0, 1 << 30);
  report.time_s = number_in(value.at("time_s"), 1e-9, kMaxIterationS);
  report.compute_s = number_in(value.at("compute_s"), 0, kMaxIterationS);
  if (has_value(value, "energy_j")) report.energy_j = number_in(value.at("energy_j"), 0, kMaxIterationJ);
  const auto optional = [&](std::string_view name, double high) {
    return has_value(value, name) ? number_in(value.at(name), 0, high) : 0.0;
  };
  report.energy_error_j = optional("energy_error_j", kMaxIterationJ);
  report.throttled_power = optional("throttled_power", 1);
  report.throttled_thermal = optional("throttled_thermal", 1);
  return report;
}

GpuNow read_gpu(const JsonView& value) {
  require_members(value, {"power_w", "sm_clock_mhz", "sm_clock_min_mhz", "sm_clock_max_mhz", "temperature_c"});
  const auto optional = [&](std::string_view name, double low, double high) {
    return has_value(value, name) ? std::optional(number_in(value.at(name), low, high)) : std::nullopt;
  };
  return {.power_w = optional("power_w", 0, 1e6),
          .sm_clock_mhz = optional("sm_clock_mhz", 0, 1e5),
          .sm_clock_min_mhz = optional("sm_clock_min_mhz", 0, 1e5),
          .sm_clock_max_mhz = optional("sm_clock_max_mhz", 0, 1e5),
          .temperature_c = optional("temperature_c", -273.15, 1e4)};
}

/// A rank without a plan says nothing of those that follow one.
void count_plan(JobIteration& whole, int version) {
  if (version == 0) return;
  if (whole.plan_version == 0) whole.plan_version = version;
  if (whole.plan_version != version) whole.plan_version = kMixedPlans;
  whole.newest_version = std::max(whole.newest_version, version);
}

}  // namespace

RankReports read_rank_reports(const JsonView& body) {
  require_members(body, {"rank", "reports", "gpu"});
  RankReports reports;
  reports.rank = body.at("rank").integer_in(0, 1 << 30);
  const JsonView list = body.at("reports");
  if (list.size() > kMaxReportsPerRequest) list.fail("more than 1,000 reports");
  reports.reports.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    reports.reports.push_back(read_report(list.at(i)));
    if (i > 0 && reports.reports[i].iteration <= reports.reports[i - 1].iteration) {
      list.at(i).at("iteration").fail("does not rise");
    }
  }
  if (has_value(body, "gpu")) reports.gpu = read_gpu(body.at("gpu"));
  return reports;
}

Json to_json(const RankReports& reports) {
  Json list = Json::array();
  for (const IterationReport& report : reports.reports) {
    list.push_back({{"iteration", report.iteration},
                    {"plan_version", report.plan_version},
                    {"time_s", report.time_s},
                    {"compute_s", report.compute_s},
                    {"energy_j", or_null(report.energy_j)},
                    {"energy_error_j", report.energy_error_j},
                    {"throttled_power", report.throttled_power},
                    {"throttled_thermal", report.throttled_thermal}});
  }
  return {{"rank", reports.rank},
          {"reports", std::move(list)},
          {"gpu",
           {{"power_w", or_null(reports.gpu.power_w)},
            {"sm_clock_mhz", or_null(reports.gpu.sm_clock_mhz)},
            {"sm_clock_min_mhz", or_null(reports.gpu.sm_clock_min_mhz)},
            {"sm_clock_max_mhz", or_null(reports.gpu.sm_clock_max_mhz)},
            {"temperature_c", or_null(reports.gpu.temperature_c)}}}};
}

Json to_json(const JobIteration& iteration) {
  return {{"iteration", iteration.iteration},
          {"time_s", iteration.time_s},
          {"energy_j", or_null(iteration.energy_j)},
          {"power_w", iteration.energy_j ? Json(*iteration.energy_j / iteration.time_s) : Json(nullptr)},
          {"plan_version", iteration.plan_version == kMixedPlans ? Json(nullptr) : Json(iteration.plan_version)}};
}

IterationLog::IterationLog(int ranks)
    : ranks_(ranks), last_(static_cast<std::size_t>(ranks), -1), finished_(static_cast<std::size_t>(ranks), false) {}

void IterationLog::require_plausible(const RankReports& reports, double now_s) const {
  if (reports.reports.empty() || (latest_ < 0 && open_.empty()) || now_s - advanced_s_ > kStandstillS) return;
  const std::int64_t reached = latest_ >= 0 ? latest_ : open_.begin()->first;
  const std::int64_t iteration = reports.reports.back().iteration;
  if (iteration <= reached + kMaxLead) return;
  throw InputError(fmt::format("$.reports: iteration {} of rank {}, and other ranks have reached {}: ranks count alike",
                               iteration, reports.rank, reached));
}

std::size_t IterationLog::add(const RankReports& reports, double now_s) {
  require_plausible(reports, now_s);
  const auto rank = static_cast<std::size_t>(reports.rank);
  const auto enough = static_cast<std::size_t>(std::clamp(ranks_ - finished_ranks_, 1, 2));
  std::size_t added = 0;
  for (const IterationReport& report : reports.reports) {
    if (report.iteration <= last_.at(rank)) continue;
    last_[rank] = report.iteration;
    ++added;
    if (report.iteration < next_) continue;  // given up
    Open& open = open_[report.iteration];
    if (open.reports.empty()) open.since_s = now_s;
    open.reports.emplace_back(reports.rank, report);
    ++open_reports_;
    if (open.reports.size() < enough || report.iteration <= latest_) continue;
    latest_ = report.iteration;
    advanced_s_ = now_s;
  }
  return added;
}

void IterationLog::finish(int rank) {
  if (finished_.at(static_cast<std::size_t>(rank))) return;
  finished_[static_cast<std::size_t>(rank)] = true;
  ++finished_ranks_;
}

bool IterationLog::complete(const Open& open) const {
  const auto ranks = static_cast<std::size_t>(ranks_);
  if (open.reports.size() == ranks) return true;
  if (open.reports.size() + static_cast<std::size_t>(finished_ranks_) < ranks) return false;
  const auto unfinished = std::ranges::count_if(
      open.reports, [this](const auto& entry) { return !finished_[static_cast<std::size_t>(entry.first)]; });
  return unfinished + finished_ranks_ == ranks_;
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
  open_reports_ -= first->second.reports.size();
  open_.erase(first);
  next_ = whole.iteration + 1;
  double energy_j = 0;
  int measured = 0;
  for (const auto& report : whole.reports) {
    if (!report) continue;
    count_plan(whole, report->plan_version);
    ++whole.ranks;
    whole.time_s = std::max(whole.time_s, report->time_s);
    if (!report->energy_j) continue;
    ++measured;
    energy_j += *report->energy_j;
    whole.energy_error_j += report->energy_error_j;
  }
  if (measured == ranks_) whole.energy_j = energy_j;
  return whole;
}

}  // namespace lowgear
