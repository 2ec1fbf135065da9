#include "protocol/rank_reports.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/core/formats/json.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {
namespace {

constexpr double kMaxIterationS = 1e6;
constexpr double kMaxIterationJ = 1e12;
constexpr double kMaxTimeS = 1e11;  // since 1970

std::vector<double> read_waits(const JsonView& list) {
  if (list.size() > kMaxReportedWaits) list.fail(fmt::format("more than {} units", kMaxReportedWaits));
  std::vector<double> waits_s;
  waits_s.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView wait = list.at(i);
    waits_s.push_back(wait.json().is_null() ? std::numeric_limits<double>::quiet_NaN()
                                            : number_in(wait, 0, kMaxIterationS));
  }
  return waits_s;
}

IterationReport read_report(const JsonView& value) {
  require_members(value, {"iteration", "plan_version", "time_s", "compute_s", "energy_j", "energy_error_j",
                          "throttled_power", "throttled_thermal", "begin_s", "delay_s", "cannot_wait", "wait_s"});
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
  if (has_value(value, "begin_s")) report.begin_s = number_in(value.at("begin_s"), 0, kMaxTimeS);
  report.delay_s = optional("delay_s", kMaxIterationS);
  if (has_value(value, "cannot_wait")) report.cannot_wait = value.at("cannot_wait").boolean();
  if (has_value(value, "wait_s")) report.wait_s = read_waits(value.at("wait_s"));
  return report;
}

Json to_json(const IterationReport& report) {
  Json document = {{"iteration", report.iteration},
                   {"plan_version", report.plan_version},
                   {"time_s", report.time_s},
                   {"compute_s", report.compute_s},
                   {"energy_j", or_null(report.energy_j)},
                   {"energy_error_j", report.energy_error_j},
                   {"throttled_power", report.throttled_power},
                   {"throttled_thermal", report.throttled_thermal}};
  if (report.begin_s) document["begin_s"] = *report.begin_s;  // servers before 1.4 know no such members
  if (report.delay_s > 0) document["delay_s"] = report.delay_s;
  if (report.cannot_wait) document["cannot_wait"] = true;
  for (const double wait_s : report.wait_s) {
    document["wait_s"].push_back(std::isfinite(wait_s) ? Json(wait_s) : Json());
  }
  return document;
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

/// The driver reads clocks and temperatures as whole numbers.
void write_as_whole(Json& reading) {
  if (!reading.is_number()) return;
  const auto value = reading.get<double>();
  if (value == std::floor(value) && std::abs(value) < 1e9) reading = static_cast<long long>(value);
}

}  // namespace

RankReports read_rank_reports(const JsonView& body) {
  require_members(body, {"rank", "reports", "gpu", "sent_s", "refusal"});
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
  if (has_value(body, "sent_s")) reports.sent_s = number_in(body.at("sent_s"), 0, kMaxTimeS);
  if (has_value(body, "refusal")) reports.refusal = name_text(body.at("refusal"));
  return reports;
}

Json to_json(const RankReports& reports) {
  Json list = Json::array();
  for (const IterationReport& report : reports.reports) list.push_back(to_json(report));
  Json document = {{"rank", reports.rank},
                   {"reports", std::move(list)},
                   {"gpu",
                    {{"power_w", or_null(reports.gpu.power_w)},
                     {"sm_clock_mhz", or_null(reports.gpu.sm_clock_mhz)},
                     {"sm_clock_min_mhz", or_null(reports.gpu.sm_clock_min_mhz)},
                     {"sm_clock_max_mhz", or_null(reports.gpu.sm_clock_max_mhz)},
                     {"temperature_c", or_null(reports.gpu.temperature_c)}}}};
  if (reports.sent_s) document["sent_s"] = *reports.sent_s;
  if (!reports.refusal.empty()) document["refusal"] = reports.refusal;  // servers before 1.2 know no such member
  return document;
}

std::string write_rank_reports(const RankReports& reports) {
  Json document = to_json(reports);
  for (const char* reading : {"sm_clock_min_mhz", "sm_clock_max_mhz", "temperature_c"}) {
    write_as_whole(document["gpu"][reading]);
  }
  return json_text(document);
}

}  // namespace lowgear::protocol
