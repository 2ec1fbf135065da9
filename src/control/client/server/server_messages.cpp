#include "control/client/server/server_messages.h"

#include <fmt/format.h>

#include <utility>

#include "base/core/error.h"
#include "base/core/op_kind.h"
#include "planning/plan/plan_json.h"

namespace lowgear {
namespace {

constexpr std::int64_t kMaxIterationNumber = std::int64_t{1} << 52;
constexpr int kMaxProfileIterations = 1'000'000;
constexpr double kMaxSettleS = 3'600;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Share of the iteration's time; 0 where the GPU does not say.
double share(const std::optional<double>& of_s, double time_s) { return of_s && time_s > 0 ? *of_s / time_s : 0; }

Json report_json(const ReportedIteration& report) {
  const MeasuredIteration& measured = report.measured;
  return {{"iteration", measured.iteration},
          {"plan_version", report.plan_version},
          {"time_s", measured.time_s},
          {"compute_s", measured.compute_s},
          {"energy_j", or_null(measured.energy_j)},
          {"energy_error_j", measured.energy_error_j},
          {"throttled_power", share(measured.throttled_power_s, measured.time_s)},
          {"throttled_thermal", share(measured.throttled_thermal_s, measured.time_s)}};
}

}  // namespace

std::string to_text(const RankDescription& rank) {
  return dump({{"rank", rank.rank},
               {"pp_rank", rank.pp_rank},
               {"dp_rank", rank.dp_rank},
               {"tp_rank", rank.tp_rank},
               {"instance", rank.instance},
               {"host", rank.host},
               {"gpu_uuid", rank.gpu_uuid},
               {"gpu", rank.gpu},
               {"simulated", rank.simulated},
               {"clocks_mhz", rank.clocks_mhz},
               {"power_limit_w", or_null(rank.power_limit_w)},
               {"follows_plans", rank.follows_plans}});
}

std::string reports_text(int rank, std::span<const ReportedIteration> reports, const GpuAverages& gpu) {
  Json list = Json::array();
  for (const ReportedIteration& report : reports) list.push_back(report_json(report));
  return dump({{"rank", rank},
               {"reports", std::move(list)},
               {"gpu",
                {{"power_w", or_null(gpu.power_w)},
                 {"sm_clock_mhz", or_null(gpu.sm_clock_mhz)},
                 {"sm_clock_min_mhz", or_null(gpu.sm_clock_min_mhz)},
                 {"sm_clock_max_mhz", or_null(gpu.sm_clock_max_mhz)},
                 {"temperature_c", or_null(gpu.temperature_c)}}}});
}

std::string profile_text(int rank, const ProfileResult& result) {
  Json cells = Json::array();
  for (const RecordedCell& cell : result.profile.cells) {
    if (!cell.is_identified || !(cell.energy_j > 0)) continue;
    cells.push_back({{"stage", cell.key.stage},
                     {"instruction", name(cell.key.kind)},
                     {"clock_mhz", cell.key.clock_mhz},
                     {"units", cell.units},
                     {"time_s", cell.time_s},
                     {"time_error_s", cell.time_error_s},
                     {"energy_j", cell.energy_j},
                     {"energy_error_j", cell.energy_error_j}});
  }
  Json blocking = Json::array();
  for (const RecordedBlocking& stage : result.profile.blocking) {
    if (!stage.is_identified) continue;
    blocking.push_back({{"stage", stage.stage}, {"power_w", stage.power_w}, {"error_w", stage.error_w}});
  }
  return dump({{"rank", rank},
               {"plan_version", result.plan_version},
               {"cells", std::move(cells)},
               {"blocking", std::move(blocking)}});
}

OfferedPlan read_offered_plan(std::string_view text, const std::string& source) {
  const Json json = parse_json(text, source);
  const JsonView view(json, source);
  OfferedPlan plan;
  plan.version = view.at("version").integer_in(1, INT32_MAX);
  plan.purpose = view.at("purpose").text();
  const long long from = view.at("from_iteration").integer();
  if (from < 0 || from > kMaxIterationNumber) view.at("from_iteration").fail("is not an iteration number");
  plan.from_iteration = static_cast<std::uint64_t>(from);
  if (plan.purpose == "profile") {
    plan.sweep = view.at("sweep").integer_in(1, INT32_MAX);
    plan.trials = read_clock_trials(view.at("trials"));
    plan.settle_iterations = view.at("settle_iterations").integer_in(0, kMaxProfileIterations);
    plan.settle_s = view.at("settle_s").number();
    if (plan.settle_s < 0 || plan.settle_s > kMaxSettleS) view.at("settle_s").fail("is not 0 to 3600");
  }
  plan.plan_json = dump(view.at("plan").json());
  if (read_plan(plan.plan_json, source + ": plan").ranks.empty()) view.at("plan").fail("has no rank");
  return plan;
}

std::string complete_job(std::string_view text, const std::string& run, const std::string& gpu) {
  Json json = parse_json(text, "job");
  const JsonView view(json, "job");
  if (!json.is_object()) view.fail("expected an object", "docs/server-api.md shows one");
  // NOLINTNEXTLINE(readability-container-size-empty): empty() asks for elements of JSON, and a text is one
  const auto lacks = [&](const char* key) { return !json.contains(key) || json[key].is_null() || json[key] == ""; };
  if (lacks("run")) {
    if (run.empty()) {
      view.fail("nothing says which start of a job this is",
                "set LOWGEAR_RUN to a text that all ranks of this start share, and no other start");
    }
    json["run"] = run;
  }
  if (lacks("gpu")) json["gpu"] = gpu;
  return dump(json);
}

std::string answered_text(std::string_view answer, std::string_view member, const std::string& source) {
  const Json json = parse_json(answer, source);
  return JsonView(json, source).at(member).text();
}

std::string refusal_of(int status, std::string_view answer) {
  try {
    const Json json = parse_json(answer, "answer");
    return fmt::format("{} ({})", printable(JsonView(json, "answer").at("error").at("message").text(), 200), status);
  } catch (const InputError&) {
    return fmt::format("the server answers with status {}", status);
  }
}

}  // namespace lowgear
