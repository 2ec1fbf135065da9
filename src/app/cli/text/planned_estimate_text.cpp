#include "app/cli/text/planned_estimate_text.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "app/cli/arguments/command_line.h"
#include "app/cli/terminal/amount_text.h"
#include "app/cli/terminal/table.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {

std::string planned_text(const estimator::PlannedEstimate& planned, int gpus, const PriceArguments& prices) {
  std::vector<Table::Column> columns{{fmt::format("one iteration of {} GPUs", gpus), Table::Align::left},
                                     {"basis", Table::Align::left},
                                     {"time s"},
                                     {"slower %"},
                                     {"energy"},
                                     {"saved %"},
                                     {"mean power"}};
  if (prices.any_cost()) columns.push_back({"cost $"});
  if (prices.co2_g_per_kwh) columns.push_back({"CO2"});
  Table table(std::move(columns));
  const estimator::JobFigures& full = planned.rows.front().figures;
  for (const estimator::ClockedJob& row : planned.rows) {
    const estimator::JobFigures& figures = row.figures;
    std::vector<std::string> cells{row.name,
                                   row.basis,
                                   fmt::format("{:.4g}", figures.time_s),
                                   fmt::format("{:+.2f}", 100 * (figures.time_s / full.time_s - 1)),
                                   energy_text(figures.energy_j),
                                   fmt::format("{:.2f}", simulator::saving_pct(full.energy_j, figures.energy_j)),
                                   power_text(figures.mean_power_w())};
    if (prices.any_cost()) {
      cells.push_back(fmt::format("{:.4g}", prices.prices().cost_usd(figures.time_s, figures.energy_j, gpus)));
    }
    if (prices.co2_g_per_kwh) {
      cells.push_back(mass_text(prices.prices().co2_g(figures.energy_j)));
    }
    table.add_row(std::move(cells));
  }
  std::string text = "\nplanned on estimated values, none of them measured\n" + table.text();
  if (!planned.note.empty()) text += fmt::format("note: {}\n", planned.note);
  return text;
}

Json planned_json(const estimator::PlannedEstimate& planned, int gpus, const PriceArguments& prices) {
  const double full_j = planned.rows.front().figures.energy_j;
  Json rows = Json::array();
  for (const estimator::ClockedJob& row : planned.rows) {
    Json json = {{"name", row.name},
                 {"basis", row.basis},
                 {"time_s", row.figures.time_s},
                 {"energy_j", row.figures.energy_j},
                 {"saving_pct", simulator::saving_pct(full_j, row.figures.energy_j)},
                 {"mean_power_w", row.figures.mean_power_w()}};
    if (prices.any_cost()) {
      json["cost_usd"] = prices.prices().cost_usd(row.figures.time_s, row.figures.energy_j, gpus);
    }
    if (prices.co2_g_per_kwh) json["co2_g"] = prices.prices().co2_g(row.figures.energy_j);
    rows.push_back(std::move(json));
  }
  Json frontier = Json::array();
  for (const estimator::JobFigures& point : planned.frontier) {
    frontier.push_back({{"time_s", point.time_s}, {"energy_j", point.energy_j}});
  }
  Json json = {{"figures", "planned on estimated values"},
               {"gpus", gpus},
               {"rows", std::move(rows)},
               {"frontier", std::move(frontier)}};
  if (!planned.note.empty()) json["note"] = planned.note;
  return json;
}

std::string plan_command(const estimator::TrainingJob& job, const std::string& profile) {
  std::string command =
      fmt::format("lowgear plan --profile {} --stages {} --microbatches {} --schedule {} --blocking-power {}",
                  shell_word(profile), job.parallel.pp, job.microbatches(), job.schedule, job.gpu.power.blocking_w);
  if (job.parallel.virtual_stages > 1) command += fmt::format(" --chunks {}", job.parallel.virtual_stages);
  return command + " --out DIR";
}

}  // namespace lowgear::cli
