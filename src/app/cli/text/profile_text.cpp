#include "app/cli/text/profile_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "app/cli/terminal/table.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/version.h"
#include "report/report/report_data.h"

namespace lowgear::cli {
namespace {

constexpr std::string_view kErrorHeader = "stage,instruction,frequency,origin,time_error,energy_error,throttled\n";

std::string_view name(profile::RowOrigin origin, bool simulated) {
  if (origin == profile::RowOrigin::predicted) return "predicted";
  return simulated ? "simulated" : "measured";
}

std::string with_error(double value, double error) { return fmt::format("{:.6g} +-{:.2g}", value, error); }

/// Rows of few-clock fits that are worth a line: all would be pages.
constexpr std::size_t kShownRows = 40;

const profile::RecordedCell* find_cell(const profile::RecordedProfile* recorded, const profile::FilledRow& row) {
  if (recorded == nullptr) return nullptr;
  const profile::CellKey key{row.stage, row.kind, row.value.clock_mhz};
  const auto at = std::ranges::find(recorded->cells, key, &profile::RecordedCell::key);
  return at == recorded->cells.end() ? nullptr : &*at;
}

void append_errors(std::string& text, const profile::CellKey& key, std::string_view origin, const std::string& errors,
                   bool throttled) {
  fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{}\n", key.stage, name(key.kind), key.clock_mhz, origin,
                 errors, throttled ? 1 : 0);
}

std::string energy_of_cell(const profile::RecordedCell& cell) {
  if (!cell.is_identified) return "not identified";
  const std::string energy = with_error(cell.energy_j, cell.energy_error_j);
  return cell.is_possible ? energy : energy + ", left out";
}

std::string errors_of(const profile::RecordedCell& cell) {
  return fmt::format("{},{}", cell.time_error_s, cell.energy_error_j);
}

}  // namespace

std::string work_table(const steps::WorkModel& work) {
  constexpr double kTokens = 1e3;
  constexpr double kSquaredTokens = 1e6;
  constexpr double kMsPerS = 1e3;
  Table table(
      {{"stage"}, {"instruction", Table::Align::left}, {"ms"}, {"ms / 1e3 tokens"}, {"ms / 1e6 squared tokens"}});
  const auto in_ms = [](double value_s, double error_s, double per) {
    return fmt::format("{:.4g} +-{:.2g}", kMsPerS * per * value_s, kMsPerS * per * error_s);
  };
  for (const auto& [cell, of_cell] : work.cells()) {
    table.add_row({fmt::to_string(cell.first), std::string(name(cell.second)),
                   in_ms(of_cell.constant_s, of_cell.constant_error_s, 1),
                   in_ms(of_cell.linear_s, of_cell.linear_error_s, kTokens),
                   in_ms(of_cell.attention_s, of_cell.attention_error_s, kSquaredTokens)});
  }
  return fmt::format("times by length at the highest clock, off by {:.2g} % (root mean square of units):\n{}",
                     100 * work.error(), table.text());
}

/// Plans use one power of waiting: how far it is from that at the clock at which a GPU waits.
std::string waiting_range_text(const std::map<int, double>& power_w_by_clock) {
  if (power_w_by_clock.empty()) return "";
  const auto& [lowest_mhz, lowest_w] = *power_w_by_clock.begin();
  const auto& [highest_mhz, highest_w] = *power_w_by_clock.rbegin();
  return fmt::format(" on average, {:.1f} W at {} MHz and {:.1f} W at {} MHz", lowest_w, lowest_mhz, highest_w,
                     highest_mhz);
}

std::string recorded_table(const profile::RecordedProfile& profile) {
  Table table({{"stage"},
               {"instruction", Table::Align::left},
               {"MHz"},
               {"units"},
               {"time s"},
               {"power W"},
               {"energy J"},
               {"throttled"}});
  for (const profile::RecordedCell& cell : profile.cells) {
    table.add_row({fmt::to_string(cell.key.stage), std::string(name(cell.key.kind)), fmt::to_string(cell.key.clock_mhz),
                   fmt::to_string(cell.units), with_error(cell.time_s, cell.time_error_s),
                   fmt::format("{:.1f}", cell.power_w), energy_of_cell(cell),
                   cell.throttled_share ? fmt::format("{:.0f} %", 100 * *cell.throttled_share) : "-"});
  }
  std::string text = table.text();
  for (const profile::RecordedBlocking& blocking : profile.blocking) {
    fmt::format_to(std::back_inserter(text), "stage {}: waiting draws {} W{}\n", blocking.stage,
                   blocking.is_identified ? fmt::format("{:.2f} +-{:.2f}", blocking.power_w, blocking.error_w)
                                          : "an unknown power",
                   waiting_range_text(blocking.power_w_by_clock));
  }
  return text;
}

Json recorded_json(const profile::RecordedProfile& profile) {
  Json cells = Json::array();
  for (const profile::RecordedCell& cell : profile.cells) {
    Json json = {{"stage", cell.key.stage},
                 {"instruction", name(cell.key.kind)},
                 {"frequency", cell.key.clock_mhz},
                 {"origin", profile.simulated ? "simulated" : "measured"},
                 {"ranks", cell.ranks},
                 {"units", cell.units},
                 {"time_s", cell.time_s},
                 {"time_error_s", cell.time_error_s},
                 {"power_w", cell.power_w},
                 {"energy_j", cell.energy_j},
                 {"energy_error_j", cell.energy_error_j},
                 {"identified", cell.is_identified},
                 {"possible", cell.is_possible}};
    if (cell.throttled_share) json["throttled_share"] = *cell.throttled_share;
    cells.push_back(std::move(json));
  }
  Json blocking = Json::array();
  for (const profile::RecordedBlocking& row : profile.blocking) {
    Json by_clock = Json::array();
    for (const auto& [clock_mhz, power_w] : row.power_w_by_clock) {
      by_clock.push_back({{"frequency", clock_mhz}, {"power_w", power_w}});
    }
    blocking.push_back({{"stage", row.stage},
                        {"power_w", row.power_w},
                        {"error_w", row.error_w},
                        {"identified", row.is_identified},
                        {"by_clock", std::move(by_clock)}});
  }
  return {{"simulated", profile.simulated}, {"cells", cells}, {"blocking", blocking}, {"warnings", profile.warnings}};
}

std::string activations_text(std::span<const double> bytes_by_stage) {
  std::string text;
  for (std::size_t stage = 0; stage < bytes_by_stage.size(); ++stage) {
    fmt::format_to(std::back_inserter(text), "stage {}: a microbatch's activations take {:.4g} MB\n", stage,
                   bytes_by_stage[stage] * 1e-6);
  }
  return text;
}

std::string switch_latency_text(const std::optional<profile::SwitchLatency>& latency,
                                std::span<const profile::Recording> recordings) {
  if (latency) return describe(*latency) + '\n';
  if (std::ranges::any_of(recordings, [](const auto& recording) { return recording.clock_lead_s > 0; })) {
    return "switch latency: not known: clocks were requested ahead of their units\n";
  }
  return "switch latency: not known: clock changes are too few, too similar or too noisy\n";
}

Json switch_latency_json(const profile::SwitchLatency& latency) {
  return {{"latency_s", latency.latency_s}, {"error_s", latency.error_s}, {"changes", latency.changes}};
}

std::string filled_table(const profile::FewClockFit& fit, bool simulated) {
  Table table({{"stage"},
               {"instruction", Table::Align::left},
               {"MHz"},
               {"origin", Table::Align::left},
               {"time s"},
               {"energy J"},
               {"", Table::Align::left}});
  for (const profile::FilledRow& row : fit.rows) {
    if (&row - fit.rows.data() == kShownRows) break;
    const bool predicted = row.origin == profile::RowOrigin::predicted;
    table.add_row(
        {fmt::to_string(row.stage), std::string(name(row.kind)), fmt::to_string(row.value.clock_mhz),
         std::string(name(row.origin, simulated)),
         predicted ? with_error(row.value.time_s, row.time_error_s) : fmt::format("{:.6g}", row.value.time_s),
         predicted ? with_error(row.value.energy_j, row.energy_error_j) : fmt::format("{:.6g}", row.value.energy_j),
         row.is_throttled ? "plateau" : ""});
  }
  std::string text = table.text();
  if (fit.rows.size() > kShownRows) text += fmt::format("and {} rows more\n", fit.rows.size() - kShownRows);
  return text;
}

Json filled_json(const profile::FewClockFit& fit, bool simulated) {
  Json models = Json::array();
  for (const profile::ClockModel& model : fit.models) {
    models.push_back({{"stage", model.stage},
                      {"instruction", name(model.kind)},
                      {"fixed_time_s", model.fixed_time_s},
                      {"time_clock_s_mhz", model.time_clock_s_mhz},
                      {"static_power_w", model.static_power_w},
                      {"linear_power_w_per_mhz", model.linear_power_w_per_mhz},
                      {"quadratic_power_w_per_mhz2", model.quadratic_power_w_per_mhz2},
                      {"transition_mhz", model.transition_mhz},
                      {"throttle_mhz", model.throttle_mhz}});
  }
  Json rows = Json::array();
  for (const profile::FilledRow& row : fit.rows) {
    Json json = {{"stage", row.stage},
                 {"instruction", name(row.kind)},
                 {"frequency", row.value.clock_mhz},
                 {"origin", name(row.origin, simulated)},
                 {"time_s", row.value.time_s},
                 {"energy_j", row.value.energy_j},
                 {"throttled", row.is_throttled}};
    if (row.origin == profile::RowOrigin::predicted) {
      json["time_error_s"] = row.time_error_s;
      json["energy_error_j"] = row.energy_error_j;
    }
    rows.push_back(std::move(json));
  }
  return {{"models", models}, {"rows", rows}};
}

std::string time_shares_table(std::span<const power::TimeShare> shares) {
  if (shares.empty()) return "";
  Table table({{"stage"},
               {"instruction", Table::Align::left},
               {"sustained MHz"},
               {"clocks"},
               {"share of time"},
               {"", Table::Align::left}});
  for (const power::TimeShare& row : shares.first(std::min(shares.size(), kShownRows))) {
    table.add_row({fmt::to_string(row.stage), std::string(name(row.kind)), fmt::format("{:.0f}", row.sustained_mhz),
                   fmt::to_string(row.clocks), fmt::format("{:.2f} +-{:.2f}", row.share.value, row.share.error),
                   std::string(name(row.origin))});
  }
  std::string text = "Time that follows the clock, from which the predicted rows are computed:\n" + table.text();
  if (shares.size() > kShownRows) text += fmt::format("and {} rows more\n", shares.size() - kShownRows);
  return text;
}

Json time_shares_json(std::span<const power::TimeShare> shares) {
  Json rows = Json::array();
  for (const power::TimeShare& row : shares) {
    rows.push_back({{"stage", row.stage},
                    {"instruction", name(row.kind)},
                    {"sustained_mhz", row.sustained_mhz},
                    {"clocks", row.clocks},
                    {"share", row.share.value},
                    {"share_error", row.share.error},
                    {"origin", name(row.origin)}});
  }
  return rows;
}

std::string error_csv(const profile::RecordedProfile& profile) {
  std::string text(kErrorHeader);
  for (const profile::RecordedCell& cell : profile.cells) {
    if (!cell.has_row()) continue;
    append_errors(text, cell.key, profile.simulated ? "simulated" : "measured", errors_of(cell), cell.is_throttled());
  }
  return text;
}

std::string error_csv(const profile::FewClockFit& fit, const profile::RecordedProfile* recorded, bool simulated) {
  std::string text(kErrorHeader);
  for (const profile::FilledRow& row : fit.rows) {
    const profile::CellKey key{row.stage, row.kind, row.value.clock_mhz};
    const profile::RecordedCell* cell = find_cell(recorded, row);
    const std::string errors = row.origin == profile::RowOrigin::predicted
                                   ? fmt::format("{},{}", row.time_error_s, row.energy_error_j)
                               : cell != nullptr ? errors_of(*cell)
                                                 : ",";
    append_errors(text, key, name(row.origin, simulated), errors, row.is_throttled);
  }
  return text;
}

namespace {

constexpr std::size_t kMostRows = 40;

}  // namespace

std::string composed_table(const profile::ComposedProfile& composed) {
  Table table({{"stage"},
               {"instruction", Table::Align::left},
               {"MHz"},
               {"parts"},
               {"combinations"},
               {"on hull"},
               {"options"},
               {"above hull"},
               {"largest step"}});
  for (const profile::ComposedCell& row : composed.cells) {
    if (&row - composed.cells.data() == kMostRows) break;
    table.add_row({fmt::to_string(row.cell.stage), std::string(name(row.cell.kind)), fmt::to_string(row.cell.clock_mhz),
                   fmt::to_string(row.parts), fmt::format("{:.4g}", row.combinations), fmt::to_string(row.vertices),
                   fmt::to_string(row.options), fmt::format("{:.3f} %", 100 * row.gap.thinned),
                   fmt::format("{:.3f} %", 100 * row.gap.step)});
  }
  std::string text = table.text();
  if (composed.cells.size() > kMostRows) text += fmt::format("and {} rows more\n", composed.cells.size() - kMostRows);
  return text;
}

Json composed_json(const profile::ComposedProfile& composed) {
  Json rows = Json::array();
  for (const profile::ComposedCell& row : composed.cells) {
    rows.push_back({{"stage", row.cell.stage},
                    {"instruction", name(row.cell.kind)},
                    {"frequency", row.cell.clock_mhz},
                    {"parts", row.parts},
                    {"combinations", row.combinations},
                    {"hull_options", row.vertices},
                    {"options", row.options},
                    {"above_hull_pct", 100 * row.gap.thinned},
                    {"largest_step_pct", 100 * row.gap.step}});
  }
  return {{"cells", std::move(rows)}};
}

namespace {

/// One row: the clock of least energy of an op, and its cost in time.
std::vector<std::string> least_row(const profile::StageProfile& profile, const profile::StageOp& op) {
  const profile::Measurement& fastest = profile.at_max_clock(op.stage, op.kind);
  const profile::Measurement& least = *std::ranges::min_element(op.measurements, {}, &profile::Measurement::energy_j);
  return {fmt::format("{} {}", op.stage, name(op.kind)),
          fmt::to_string(op.measurements.size()),
          fmt::format("{} MHz", fastest.clock_mhz),
          energy_text(fastest.energy_j),
          fmt::format("{} MHz", least.clock_mhz),
          energy_text(least.energy_j),
          signed_text(100 * (least.energy_j / fastest.energy_j - 1), 2) + " %",
          signed_text(100 * (least.time_s / fastest.time_s - 1), 2) + " %"};
}

}  // namespace

report::Page profile_page(const profile::StageProfile& profile, const std::string& basis, std::string command) {
  report::Page page;
  page.lowgear_version = version();
  page.command = std::move(command);
  page.title = "Stage profile: " + counted(profile.stages(), "stage", "stages");
  page.facts = {{"Rows", basis}};
  page.valleys = report::valleys_of(profile);
  page.valley_basis = basis;
  report::Table table{.title = "Least energy of an op",
                      .basis = basis,
                      .columns = {"stage and op", "rows", "highest clock", "energy there", "clock of least energy",
                                  "energy there", "energy against the highest", "time against the highest"},
                      .rows = {},
                      .chosen = std::nullopt};
  for (const profile::StageOp& op : profile.ops()) table.rows.push_back(least_row(profile, op));
  page.tables.push_back(std::move(table));
  page.reading = {{"Energy", "Of one GPU while it runs the op once. Waiting for other ranks is not in it."},
                  {"Clock of least energy",
                   "Of the op alone. A plan often has a higher one: a GPU that is done earlier waits, and "
                   "draws blocking power while it does."}};
  return page;
}

}  // namespace lowgear::cli
