#include "protocol/rank_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/core/formats/json.h"
#include "protocol/json_members.h"

namespace lowgear::protocol {

namespace {

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
                          "throttled_power", "throttled_thermal", "begin_s", "delay_s", "cannot_wait", "wait_s",
                          "units_time_s", "predicted_time_s", "full_clocks"});
  IterationReport report;
  report.iteration = value.at("iteration").integer();
  if (report.iteration < 0) value.at("iteration").fail("is below 0");
  if (report.iteration > std::int64_t{1} << 40) value.at("iteration").fail("is beyond any training");
  report.plan_version = value.at("plan_version").integer_in(0, 1 << 30);
  report.time_s = number_in(value.at("time_s"), kMinIterationS, kMaxIterationS);
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
  const auto time_of = [&](std::string_view name) {
    return has_value(value, name) ? std::optional(number_in(value.at(name), kMinIterationS, kMaxIterationS))
                                  : std::nullopt;
  };
  report.units_time_s = time_of("units_time_s");
  report.predicted_time_s = time_of("predicted_time_s");
  if (has_value(value, "full_clocks")) report.full_clocks = value.at("full_clocks").boolean();
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
  if (report.begin_s) document["begin_s"] = *report.begin_s;
  if (report.delay_s > 0) document["delay_s"] = report.delay_s;
  if (report.cannot_wait) document["cannot_wait"] = true;
  for (const double wait_s : report.wait_s) {
    document["wait_s"].push_back(std::isfinite(wait_s) ? Json(wait_s) : Json());
  }
  if (report.units_time_s) document["units_time_s"] = *report.units_time_s;
  if (report.predicted_time_s) document["predicted_time_s"] = *report.predicted_time_s;
  if (report.full_clocks) document["full_clocks"] = true;
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
  if (!reports.refusal.empty()) document["refusal"] = reports.refusal;
  return document;
}

std::string write_rank_reports(const RankReports& reports) {
  Json document = to_json(reports);
  for (const char* reading : {"sm_clock_min_mhz", "sm_clock_max_mhz", "temperature_c"}) {
    write_as_whole(document["gpu"][reading]);
  }
  return json_text(document);
}

RankFinish read_rank_finish(const JsonView& body, int ranks) {
  require_members(body, {"rank", "failure"});
  RankFinish finish{.rank = body.at("rank").integer_in(0, ranks - 1)};
  if (has_value(body, "failure")) finish.failure = name_text(body.at("failure"));
  return finish;
}

std::string write_rank_finish(const RankFinish& finish) {
  if (finish.failure.empty()) return fmt::format(R"({{"rank": {}}})", finish.rank);
  return json_text({{"rank", finish.rank}, {"failure", printable(finish.failure, kMaxNameBytes)}});
}

namespace {

constexpr std::int64_t kMaxNumber = std::int64_t{1} << 40;
constexpr double kMaxAgeS = 1e8;

std::int64_t number_from(const JsonView& value, std::int64_t low) {
  const std::int64_t number = value.integer();
  if (number < low || number > kMaxNumber) {
    value.fail(fmt::format("expected a whole number from {} to {}", low, kMaxNumber));
  }
  return number;
}

std::string word(const JsonView& value) {
  std::string text = value.text();
  if (!is_word(text)) value.fail(fmt::format("expected 1 to {} characters of a-z, 0-9 and _", kMaxWordBytes));
  return text;
}

TrainingDecision read_decision(const JsonView& value) {
  require_members(value, {"number", "age_s", "from_iteration", "technique", "change", "configuration", "reason"});
  return {.number = number_from(value.at("number"), 1),
          .age_s = number_in(value.at("age_s"), 0, kMaxAgeS),
          .from_iteration = number_from(value.at("from_iteration"), 0),
          .technique = word(value.at("technique")),
          .change = word(value.at("change")),
          .configuration = name_text(value.at("configuration")),
          .reason = printable_text(value.at("reason"), kMaxReasonBytes)};
}

Json decision_json(const TrainingDecision& decision) {
  return {{"number", decision.number},       {"age_s", decision.age_s},   {"from_iteration", decision.from_iteration},
          {"technique", decision.technique}, {"change", decision.change}, {"configuration", decision.configuration},
          {"reason", decision.reason}};
}

}  // namespace

bool is_word(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= kMaxWordBytes && std::ranges::all_of(text, allowed);
}

JobWork read_job_work(const JsonView& value) {
  require_members(value, {"layers", "frozen_layers", "precision"});
  const int layers = value.at("layers").integer_in(1, kMaxLayers);
  return {.layers = layers,
          .frozen_layers = value.at("frozen_layers").integer_in(0, layers),
          .precision = word(value.at("precision"))};
}

Json to_json(const JobWork& work) {
  return {{"layers", work.layers}, {"frozen_layers", work.frozen_layers}, {"precision", work.precision}};
}

RankDecisions read_rank_decisions(const JsonView& body) {
  require_members(body, {"rank", "work", "decisions"});
  RankDecisions decisions;
  decisions.rank = body.at("rank").integer_in(0, 1 << 30);
  if (has_value(body, "work")) decisions.work = read_job_work(body.at("work"));
  const JsonView list = body.at("decisions");
  if (list.size() > kMaxDecisionsPerRequest) list.fail(fmt::format("more than {} decisions", kMaxDecisionsPerRequest));
  decisions.decisions.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    decisions.decisions.push_back(read_decision(list.at(i)));
    if (i > 0 && decisions.decisions[i].number <= decisions.decisions[i - 1].number) {
      list.at(i).at("number").fail("does not rise");
    }
  }
  return decisions;
}

std::string write_rank_decisions(const RankDecisions& decisions) {
  Json list = Json::array();
  for (const TrainingDecision& decision : decisions.decisions) list.push_back(decision_json(decision));
  return json_text({{"rank", decisions.rank},
                    {"work", decisions.work ? to_json(*decisions.work) : Json(nullptr)},
                    {"decisions", std::move(list)}});
}

}  // namespace lowgear::protocol
