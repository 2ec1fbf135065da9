#include "app/cli/text/search_text.h"

#include <fmt/format.h>

#include <cmath>

#include "app/cli/terminal/amount_text.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/estimate_text.h"
#include "base/core/units.h"
#include "estimating/estimator/gpu/custom_gpu.h"
#include "planning/simulator/cluster.h"

namespace lowgear::cli {
namespace {

/// Differences below this share of the iteration explain nothing.
constexpr double kTellingShare = 0.002;
constexpr std::size_t kMaxReasons = 5;

double utilization(const estimator::SearchRequest& request, const estimator::SearchResult& result) {
  return result.model_flops_per_gpu_s / peak_flops(request.job.gpu, request.job.dtype);
}

std::string head_text(const estimator::SearchRequest& request, const estimator::SearchReportData& found) {
  return fmt::format(
      "{} on {} {}, global batch {} x {} tokens: best by {}\n"
      "{} layouts estimated of {} that divide evenly; {} do not fit into memory. {:.2f} s, {:.0f} layouts per "
      "second\n\n",
      request.job.model.name, request.limits.gpus, describe(request.job.gpu), request.job.batch.global,
      request.job.batch.sequence_length, name(request.objective), found.results.size(), found.layouts, found.too_large,
      found.evaluate_s, static_cast<double>(found.layouts) / found.evaluate_s);
}

std::string best_text(const estimator::SearchRequest& request, const PriceArguments& prices,
                      const estimator::SearchReportData& found) {
  std::vector<Table::Column> columns{{"#"},           {"layout", Table::Align::left},
                                     {"time s"},      {"+- s"},
                                     {"MFU %"},       {"GiB"},
                                     {"full clocks"}, {"planned"},
                                     {"saved %"}};
  if (prices.any_cost()) columns.push_back({"cost $"});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const estimator::PlannedLayout& layout = found.best[i];
    std::vector<std::string> cells{
        fmt::to_string(i + 1),
        describe(layout.result.layout),
        fmt::format("{:.3f}", layout.result.time_s),
        fmt::format("{:.3f}", layout.result.error_s),
        fmt::format("{:.1f}", 100 * utilization(request, layout.result)),
        fmt::format("{:.1f}", layout.result.memory_bytes / kGiB),
        energy_text(layout.full_clocks.energy_j),
        energy_text(layout.no_later.energy_j),
        fmt::format("{:.2f}", simulator::saving_pct(layout.full_clocks.energy_j, layout.no_later.energy_j))};
    if (prices.any_cost()) {
      cells.push_back(fmt::format(
          "{:.4g}", prices.prices().cost_usd(layout.no_later.time_s, layout.no_later.energy_j, request.limits.gpus)));
    }
    table.add_row(std::move(cells));
  }
  return table.text();
}

std::string reasons_text(const estimator::SearchReportData& found) {
  if (found.rival == 0) return "";
  const estimator::SearchResult& winner = found.results.front();
  const estimator::SearchResult& rival = found.results[found.rival];
  std::string text = fmt::format(
      "\nwhy it is best: compared with the best layout of another tp or pp, number {} ({}),\n{:+.3f} s in time and {} "
      "{} with clocks that "
      "cost no time\n",
      found.rival + 1, describe(rival.layout), winner.time_s - rival.time_s,
      energy_text(std::abs(winner.planned_energy_j - rival.planned_energy_j)),
      winner.planned_energy_j > rival.planned_energy_j ? "more" : "less");
  std::size_t reasons = 0;
  for (const estimator::TimeDifference& part : found.why) {
    const double change_s = part.winner_s - part.runner_up_s;
    if (std::abs(change_s) < kTellingShare * winner.time_s || reasons++ == kMaxReasons) break;
    text += fmt::format("  {:<24} {:+.3f} s ({:.3f} s against {:.3f} s)\n", part.part, change_s, part.winner_s,
                        part.runner_up_s);
  }
  return text;
}

std::string front_text(const estimator::SearchReportData& found) {
  if (found.pareto.size() < 2) return "\none layout is best in both time and energy\n";
  const estimator::SearchResult& fastest = found.results[found.pareto.front()];
  const estimator::SearchResult& leanest = found.results[found.pareto.back()];
  return fmt::format(
      "\n{} layouts are not beaten in both time and energy, from {:.3f} s and {} ({})\n"
      "to {:.3f} s and {} ({})\n",
      found.pareto.size(), fastest.time_s, energy_text(fastest.planned_energy_j), describe(fastest.layout),
      leanest.time_s, energy_text(leanest.planned_energy_j), describe(leanest.layout));
}

/// A schedule is asked for where the layout needs another than the job has.
std::string next_text(const estimator::SearchRequest& request, const estimator::SearchLayout& layout,
                      const std::string& estimate_command) {
  estimator::TrainingJob job = request.job;
  apply(layout, job);
  return fmt::format("\nNext: estimate the first and plan its clocks: {} {}{} --plan\n", estimate_command,
                     options_of(layout), job.schedule == request.job.schedule ? "" : " --schedule " + job.schedule);
}

Json layout_json(const estimator::SearchLayout& layout) {
  const estimator::ParallelLayout& parallel = layout.parallel;
  return {{"dp", parallel.dp},
          {"tp", parallel.tp},
          {"pp", parallel.pp},
          {"virtual_stages", parallel.virtual_stages},
          {"ep", parallel.ep},
          {"cp", parallel.cp},
          {"sequence_parallel", parallel.sequence_parallel},
          {"micro_batch", layout.micro_batch},
          {"recompute", name(layout.recompute)},
          {"zero", layout.zero}};
}

Json result_json(const estimator::SearchRequest& request, const estimator::SearchResult& result) {
  return {{"layout", layout_json(result.layout)},
          {"options", options_of(result.layout)},
          {"time_s", result.time_s},
          {"error_s", result.error_s},
          {"mfu", utilization(request, result)},
          {"memory_bytes", result.memory_bytes},
          {"energy_j", result.energy_j},
          {"quick_planned_energy_j", result.planned_energy_j}};
}

Json figures_json(const estimator::JobFigures& figures) {
  return {{"time_s", figures.time_s}, {"energy_j", figures.energy_j}};
}

}  // namespace

std::string search_text(const estimator::SearchRequest& request, const PriceArguments& prices,
                        const estimator::SearchReportData& found, const std::string& estimate_command) {
  return head_text(request, found) + best_text(request, prices, found) + reasons_text(found) + front_text(found) +
         notes_text(estimator::notes_on_model(request.job)) +
         next_text(request, found.results.front().layout, estimate_command);
}

Json search_json(const estimator::SearchRequest& request, const PriceArguments& prices,
                 const estimator::SearchReportData& found) {
  Json best = Json::array();
  for (const estimator::PlannedLayout& layout : found.best) {
    Json row = result_json(request, layout.result);
    row["full_clocks"] = figures_json(layout.full_clocks);
    row["no_later"] = figures_json(layout.no_later);
    row["least_energy"] = figures_json(layout.least_energy);
    if (prices.any_cost()) {
      row["cost_usd"] = prices.prices().cost_usd(layout.no_later.time_s, layout.no_later.energy_j, request.limits.gpus);
    }
    if (prices.co2_g_per_kwh) row["co2_g"] = prices.prices().co2_g(layout.no_later.energy_j);
    best.push_back(std::move(row));
  }
  Json pareto = Json::array();
  for (const std::size_t index : found.pareto) pareto.push_back(result_json(request, found.results[index]));
  Json why = Json::array();
  for (const estimator::TimeDifference& part : found.why) {
    why.push_back({{"part", part.part}, {"winner_s", part.winner_s}, {"runner_up_s", part.runner_up_s}});
  }
  return {{"format", "lowgear.search/1"},
          {"figures", "estimated; full_clocks, no_later and least_energy planned on estimated values"},
          {"objective", name(request.objective)},
          {"gpus", request.limits.gpus},
          {"layouts", found.layouts},
          {"invalid", found.invalid},
          {"too_large", found.too_large},
          {"estimated", found.results.size()},
          {"evaluate_s", found.evaluate_s},
          {"rival", found.rival > 0 ? result_json(request, found.results[found.rival]) : Json(nullptr)},
          {"best", std::move(best)},
          {"pareto", std::move(pareto)},
          {"why", std::move(why)},
          {"notes", estimator::notes_on_model(request.job)}};
}

}  // namespace lowgear::cli
