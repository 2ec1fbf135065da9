#include "app/cli/runs/estimate_plan.h"

#include <fmt/format.h>

#include "app/cli/arguments/command_line.h"
#include "app/cli/terminal/amount_text.h"
#include "app/cli/terminal/memory.h"
#include "app/cli/terminal/table.h"
#include "base/core/error.h"
#include "planning/planner/policies/policy.h"
#include "planning/workflow/planning_memory.h"

namespace lowgear::cli {
namespace {

double saving_pct(const PlannedEstimate& planned, const estimator::JobFigures& figures) {
  const double full_j = planned.rows.front().figures.energy_j;
  return 100 * (full_j - figures.energy_j) / full_j;
}

void add_asked_row(PlannedEstimate& planned, estimator::PlannedJob& job, const EstimatePlanArguments& arguments) {
  const auto deadline_s = single_deadline_s(arguments.deadline, job.fastest_s(), job.slowest_s());
  if (!arguments.policy.empty() && arguments.policy != planner::kLowgearPolicy) {
    const auto policy = planner::make_policy(arguments.policy);
    const estimator::PolicyFigures answer = job.plan_with(*policy, deadline_s);
    planned.rows.push_back({arguments.policy, "replayed", answer.figures});
    planned.note = answer.note;
    return;
  }
  if (!deadline_s) return;
  if (*deadline_s < job.fastest_s()) {
    throw InputError(fmt::format("an iteration of {:.4g} s is not possible: at full clocks it takes {:.4g} s",
                                 *deadline_s, job.fastest_s()));
  }
  planned.rows.push_back({fmt::format("within {:.4g} s", *deadline_s), "planned", job.plan(*deadline_s)});
}

}  // namespace

void add_estimate_plan_options(CLI::App& app, EstimatePlanArguments& arguments, CLI::Option* plan) {
  add_single_deadline_options(app, arguments.deadline);
  app.add_option("--policy", arguments.policy,
                 "Policy that chooses the clocks (default lowgear); lowgear compare --help names all")
      ->type_name("NAME");
  add_price_options(app, arguments.prices);
  for (const char* option : {"--deadline", "--slowdown", "--straggler", "--policy", "--gpu-hour", "--kwh", "--co2"}) {
    app.get_option(option)->needs(plan);
  }
}

std::string plan_command(const estimator::TrainingJob& job, const std::string& profile) {
  std::string command =
      fmt::format("lowgear plan --profile {} --stages {} --microbatches {} --schedule {} --blocking-power {}",
                  shell_word(profile), job.parallel.pp, job.microbatches(), job.schedule, job.gpu.power.blocking_w);
  if (job.parallel.virtual_stages > 1) command += fmt::format(" --chunks {}", job.parallel.virtual_stages);
  return command + " --out DIR";
}

PlannedEstimate plan_estimate(const estimator::TrainingJob& job, const estimator::IterationEstimate& estimate,
                              const EstimatePlanArguments& arguments, Progress& progress) {
  workflow::require_planning_memory(job.parallel.pp, static_cast<int>(job.microbatches()), job.parallel.virtual_stages,
                                    available_memory_bytes());
  estimator::PlannedJob planner(job, estimate, estimator::kEstimatePlannerOptions, &progress);
  PlannedEstimate planned;
  planned.frontier = planner.frontier();
  planned.rows.push_back({"full clocks", "estimated", planner.full_clocks()});
  planned.rows.push_back({"no later", "planned", planner.plan_in_time()});
  add_asked_row(planned, planner, arguments);
  planned.rows.push_back({"least energy", "planned", planner.plan(planner.slowest_s())});
  return planned;
}

std::string planned_text(const PlannedEstimate& planned, int gpus, const PriceArguments& prices) {
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
  for (const ClockedJob& row : planned.rows) {
    const estimator::JobFigures& figures = row.figures;
    std::vector<std::string> cells{row.name,
                                   row.basis,
                                   fmt::format("{:.4g}", figures.time_s),
                                   fmt::format("{:+.2f}", 100 * (figures.time_s / full.time_s - 1)),
                                   energy_text(figures.energy_j),
                                   fmt::format("{:.2f}", saving_pct(planned, figures)),
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

Json planned_json(const PlannedEstimate& planned, int gpus, const PriceArguments& prices) {
  Json rows = Json::array();
  for (const ClockedJob& row : planned.rows) {
    Json json = {{"name", row.name},
                 {"basis", row.basis},
                 {"time_s", row.figures.time_s},
                 {"energy_j", row.figures.energy_j},
                 {"saving_pct", saving_pct(planned, row.figures)},
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

}  // namespace lowgear::cli
