#include "app/cli/text/comparison_text.h"

#include <fmt/format.h>

#include "app/cli/terminal/table.h"
#include "base/core/formats/json.h"
#include "planning/workflow/plan_tables.h"

namespace lowgear::cli {
namespace {

constexpr const char* kNone = "-";

std::string fixed(std::optional<double> value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : kNone;
}

/// Seconds with a unit that suits them.
std::string duration(double time_s) {
  constexpr double kMilli = 1e-3;
  return time_s < 1 ? fmt::format("{:.3g} ms", time_s / kMilli) : fmt::format("{:.3g} s", time_s);
}

Json row_json(const workflow::ComparisonRow& row, const workflow::ComparisonRow& baseline) {
  Json json = {{"policy", row.policy},
               {"aim", row.aim},
               {"time_s", row.time_s},
               {"energy_j", row.energy_j},
               {"saving_pct", saving_pct(row, baseline)},
               {"slowdown_pct", slowdown_pct(row, baseline)}};
  set_if(json, "lower_bound_j", row.lower_bound_j);
  set_if(json, "gap_pct", workflow::gap_pct(row.energy_j, row.lower_bound_j));
  json["switches"] = row.switches;
  json["own_order"] = row.own_order;
  set_if(json, "peak_activations", row.peak_activations);
  set_if(json, "plan_time_s", row.plan_time_s);
  set_if(json, "late_time_s", row.late_time_s);
  set_if(json, "late_energy_j", row.late_energy_j);
  set_if(json, "own_time_s", row.own_time_s);
  set_if(json, "own_energy_j", row.own_energy_j);
  set_if(json, "published_saving_pct", row.published_saving_pct);
  json["note"] = row.note;
  return json;
}

}  // namespace

std::string comparison_table(const workflow::PolicyComparison& comparison) {
  constexpr int kTimeDigits = 4;
  constexpr int kEnergyDigits = 1;
  constexpr int kPercentDigits = 3;
  Table table({{"policy", Table::Align::left},
               {"planned for", Table::Align::left},
               {"time s"},
               {"energy J"},
               {"saving %"},
               {"slowdown %"},
               {"gap %"},
               {"switches"},
               {"order", Table::Align::left},
               {"activations"},
               {"plan time"},
               {"published way %"}});
  for (const workflow::ComparisonRow& row : comparison.rows) {
    table.add_row(
        {row.policy, row.aim.empty() ? kNone : row.aim, fixed(row.time_s, kTimeDigits),
         fixed(row.energy_j, kEnergyDigits), fixed(saving_pct(row, comparison.baseline), kPercentDigits),
         fixed(slowdown_pct(row, comparison.baseline), kPercentDigits),
         fixed(workflow::gap_pct(row.energy_j, row.lower_bound_j), kPercentDigits), fmt::to_string(row.switches),
         row.own_order ? "own" : "given", row.peak_activations ? fmt::to_string(*row.peak_activations) : kNone,
         row.plan_time_s ? duration(*row.plan_time_s) : kNone, fixed(row.published_saving_pct, kPercentDigits)});
  }
  return table.text();
}

std::string late_table(const workflow::PolicyComparison& comparison) {
  const workflow::ComparisonRow& baseline = comparison.baseline;
  if (!baseline.late_time_s) return "";
  Table table({{"policy", Table::Align::left}, {"planned for", Table::Align::left}, {"saving %"}, {"slowdown %"}});
  for (const workflow::ComparisonRow& row : comparison.rows) {
    if (row.switches == 0) continue;  // nothing is late
    table.add_row({row.policy, row.aim.empty() ? kNone : row.aim,
                   fmt::format("{:.3f}", 100 * (1 - *row.late_energy_j / *baseline.late_energy_j)),
                   fmt::format("{:.3f}", 100 * (*row.late_time_s / *baseline.late_time_s - 1))});
  }
  return table.text();
}

Json comparison_json(const workflow::PolicyComparison& comparison) {
  Json rows = Json::array();
  for (const workflow::ComparisonRow& row : comparison.rows) rows.push_back(row_json(row, comparison.baseline));
  return {{"figures", "replayed"},
          {"baseline",
           {{"policy", comparison.baseline.policy},
            {"time_s", comparison.baseline.time_s},
            {"energy_j", comparison.baseline.energy_j}}},
          {"rows", rows},
          {"skipped", comparison.skipped}};
}

}  // namespace lowgear::cli
