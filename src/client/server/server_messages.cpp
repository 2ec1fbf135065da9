#include "client/server/server_messages.h"

#include "base/core/error.h"
#include "base/core/text.h"
#include "base/http/message/error.h"
#include "protocol/json_members.h"

namespace lowgear::client {
namespace {

/// Share of the iteration's time; 0 where the GPU does not say.
double share(const std::optional<double>& of_s, double time_s) { return of_s && time_s > 0 ? *of_s / time_s : 0; }

void require_word(std::string_view text, std::string_view what) {
  if (protocol::is_word(text)) return;
  throw InputError(fmt::format("{}: {} is no word of 1 to {} characters of a-z, 0-9 and _", what, quote(text),
                               protocol::kMaxWordBytes));
}

}  // namespace

std::string fitting_text(std::string_view text, std::size_t bytes) {
  std::string fitting = printable(text, bytes - 3);
  if (fitting.size() <= bytes) return fitting;
  while (bytes > 0 && is_utf8_continuation(fitting[bytes])) --bytes;
  fitting.resize(bytes);
  return fitting;
}

protocol::TrainingDecision sendable(protocol::TrainingDecision decision) {
  require_word(decision.technique, "technique");
  require_word(decision.change, "change");
  const auto text_or = [](std::string text, const char* none) { return text.empty() ? none : std::move(text); };
  decision.configuration = text_or(fitting_text(decision.configuration, protocol::kMaxNameBytes), "not named");
  decision.reason = text_or(fitting_text(decision.reason, protocol::kMaxReasonBytes), "the program gives no reason");
  return decision;
}

protocol::JobWork sendable(protocol::JobWork work) {
  require_word(work.precision, "precision");
  if (work.layers < 1 || work.layers > protocol::kMaxLayers || work.frozen_layers < 0 ||
      work.frozen_layers > work.layers) {
    throw InputError(fmt::format("{} of {} layers cannot be frozen", work.frozen_layers, work.layers));
  }
  return work;
}

protocol::IterationReport report_of(const MeasuredIteration& measured, int plan_version) {
  return {.iteration = static_cast<std::int64_t>(measured.iteration),
          .plan_version = plan_version,
          .time_s = measured.time_s,
          .compute_s = measured.compute_s,
          .energy_j = measured.energy_error_j ? measured.energy_j : std::nullopt,
          .energy_error_j = measured.energy_error_j.value_or(0),
          .throttled_power = share(measured.throttled_power_s, measured.time_s),
          .throttled_thermal = share(measured.throttled_thermal_s, measured.time_s)};
}

protocol::RankCells cells_of(int rank, const ProfileResult& result) {
  protocol::RankCells cells{.rank = rank, .plan_version = result.plan_version, .cells = {}, .blocking = {}};
  for (const profile::RecordedCell& cell : result.profile.cells) {
    if (!cell.is_identified || !(cell.energy_j > 0)) continue;
    cells.cells.push_back({.stage = cell.key.stage,
                           .kind = cell.key.kind,
                           .clock_mhz = cell.key.clock_mhz,
                           .units = cell.units,
                           .time_s = cell.time_s,
                           .time_error_s = cell.time_error_s,
                           .energy_j = cell.energy_j,
                           .energy_error_j = cell.energy_error_j});
  }
  for (const profile::RecordedBlocking& stage : result.profile.blocking) {
    if (!stage.is_identified) continue;
    cells.blocking.push_back({.stage = stage.stage, .power_w = stage.power_w, .error_w = stage.error_w});
  }
  return cells;
}

std::string complete_job(std::string_view text, const RankInfo& rank, const std::string& gpu) {
  Json json = parse_json(text, "job");
  const JsonView view(json, "job");
  if (!json.is_object()) view.fail("expected an object", "docs/server-api.md shows one");
  // NOLINTNEXTLINE(readability-container-size-empty): empty() asks for elements of JSON, and a text is one
  const auto lacks = [&](const char* key) { return !json.contains(key) || json[key].is_null() || json[key] == ""; };
  if (lacks("run")) {
    if (rank.run.empty()) {
      view.fail("the start of the job has no identification",
                "set LOWGEAR_RUN to a text that all ranks of this start share, and no other start");
    }
    json["run"] = rank.run;
  }
  if (lacks("gpu")) json["gpu"] = gpu;
  if (lacks("user") && !rank.user.empty()) json["user"] = fitting_text(rank.user, protocol::kMaxNameBytes);
  return protocol::json_text(json);
}

std::string refusal_of(int status, std::string_view answer, const http::Endpoint& server) {
  constexpr int kUnauthorized = 401;  // the token is missing or wrong
  const std::string refusal = http::refusal_text(status, answer);
  if (status != kUnauthorized || !server.unix_path.empty()) return refusal;
  return refusal + "; on the server's machine, its address unix:PATH that lowgear serve prints needs none";
}

}  // namespace lowgear::client
