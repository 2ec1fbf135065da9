#include "app/cli/text/search_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "app/cli/terminal/table.h"
#include "app/cli/text/estimate_pages.h"
#include "base/core/units.h"
#include "base/core/version.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "estimating/estimator/search/search.h"

namespace lowgear::cli {
namespace {

/// Layouts that take more than this of the fastest are not drawn: they would press the others together.
constexpr double kDrawnSlowdown = 2;
constexpr std::size_t kMaxDrawn = 1500;

/// The Pareto front as a curve, the best layouts as points, then as many others as a page carries.
report::Plot plot_of(const estimator::SearchReportData& found) {
  const double fastest_s = found.results[found.pareto.front()].time_s;
  report::Plot plot{.title = "Layouts by time and energy of one iteration",
                    .caption = "",
                    .curve_name = "no layout is better in both",
                    .curve = {},
                    .marks = {},
                    .mark_names = {}};
  plot.mark_names.plan = "among the best";
  plot.mark_names.chosen = "winner";
  plot.mark_names.candidate = "other layout";
  for (const std::size_t index : found.pareto) {
    plot.curve.push_back({found.results[index].time_s, found.results[index].planned_energy_j});
  }
  std::size_t drawn = 0;
  for (std::size_t i = 0; i < found.results.size() && drawn < kMaxDrawn; ++i) {
    const estimator::SearchResult& result = found.results[i];
    if (result.time_s > kDrawnSlowdown * fastest_s) continue;
    ++drawn;
    const bool winner = i == 0;
    const bool best = i < found.best.size();
    plot.marks.push_back({.kind = best ? report::Mark::Kind::plan : report::Mark::Kind::candidate,
                          .name = fmt::format("{}: {}", i + 1, describe(result.layout)),
                          .basis = "estimated",
                          .label = winner ? "1, the winner" : "",
                          .chosen = winner,
                          .point = {result.time_s, result.planned_energy_j}});
  }
  plot.caption = fmt::format(
      "{} of {} layouts that fit are drawn, none that takes more than {} times the fastest. Energy is that of all GPUs "
      "with clocks that cost no time, by a quick estimate. The axes do not start at zero.",
      drawn, found.results.size(), kDrawnSlowdown);
  return plot;
}

/// With trailing zeros, so that all rows have the same digits.
std::string significant(double value, int digits) { return fmt::format("{:.{}f}", value, decimals(value, digits)); }

double cost_usd(const PriceArguments& prices, const estimator::SearchRequest& request, double time_s, double energy_j) {
  return prices.prices().cost_usd(time_s, energy_j, request.limits.gpus);
}

report::Table best_table(const estimator::SearchRequest& request, const PriceArguments& prices,
                         const estimator::SearchReportData& found) {
  report::Table table{
      .title = fmt::format("The best by {}", name(request.objective)),
      .basis = "estimated; energy planned",
      .columns = {"Place", "Layout", "Time", "\u00b1", "Memory", "Energy, full clocks", "Energy, planned", "Saved"},
      .rows = {},
      .chosen = 0};
  if (prices.any_cost()) table.columns.emplace_back("Cost");
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const estimator::PlannedLayout& layout = found.best[i];
    const double saved_pct = 100 * (1 - layout.no_later.energy_j / layout.full_clocks.energy_j);
    std::vector<std::string> cells{fmt::to_string(i + 1),
                                   describe(layout.result.layout),
                                   significant(layout.result.time_s, 4) + " s",
                                   significant(layout.result.error_s, 2) + " s",
                                   fmt::format("{:.1f} GiB{}", layout.result.memory_bytes / kGiB,
                                               layout.result.near_limit ? ", near the limit" : ""),
                                   energy_text(layout.full_clocks.energy_j),
                                   energy_text(layout.no_later.energy_j),
                                   fmt::format("{:.2f} %", saved_pct)};
    if (prices.any_cost()) {
      cells.push_back("$" +
                      significant(cost_usd(prices, request, layout.no_later.time_s, layout.no_later.energy_j), 4));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

/// Whether the result of this number, which begins at 0, was planned, too.
bool is_planned(const estimator::SearchReportData& found, std::size_t index) { return index < found.best.size(); }

/// Of its plan that costs no time where there is one, else by a quick estimate.
double known_energy_j(const estimator::SearchReportData& found, std::size_t index) {
  return is_planned(found, index) ? found.best[index].no_later.energy_j : found.results[index].planned_energy_j;
}

/// The objective of a layout, planned where the rival is; empty where that is the time, which the bars show.
std::string objective_text(const estimator::SearchRequest& request, const PriceArguments& prices,
                           const estimator::SearchReportData& found, std::size_t index) {
  if (request.objective == estimator::SearchObjective::time) return "";
  estimator::SearchResult result = found.results[index];
  if (found.rival < found.best.size()) result.planned_energy_j = known_energy_j(found, index);
  const double value = value_of(result, request.objective, prices.prices());
  return request.objective == estimator::SearchObjective::energy ? energy_text(value) : "$" + significant(value, 4);
}

/// The winner's time next to that of the best of another kind.
report::Bars rival_bars(const estimator::SearchRequest& request, const PriceArguments& prices,
                        const estimator::SearchReportData& found) {
  const estimator::SearchResult& rival = found.results[found.rival];
  const std::string first = objective_text(request, prices, found, 0);
  std::string caption = fmt::format(
      "Time of the busiest pipeline rank, against number {}, the best with another tp or "
      "pp: {}.",
      found.rival + 1, describe(rival.layout));
  if (!first.empty()) {
    caption =
        fmt::format("The objective is {}: number 1 takes {} an iteration, number {} {}{}. {}", name(request.objective),
                    first, found.rival + 1, objective_text(request, prices, found, found.rival),
                    found.rival < found.best.size() ? ", as planned" : ", both by a quick estimate", caption);
  }
  report::Bars bars{
      .title = first.empty() ? "Why the first layout is best" : "Time of the first layout and of another kind",
      .basis = "estimated, full clocks",
      .caption = std::move(caption),
      .quantity = report::Quantity::time,
      .parts = {},
      .rows = {{"1", {}}, {fmt::to_string(found.rival + 1), {}}},
      .limit = std::nullopt,
      .limit_name = ""};
  for (const estimator::TimeDifference& part : found.why) {
    bars.parts.emplace_back(part.part);
    bars.rows[0].amounts.push_back(part.winner_s);
    bars.rows[1].amounts.push_back(part.rival_s);
  }
  return bars;
}

std::vector<report::Bars> bars_of(const estimator::SearchRequest& request, const PriceArguments& prices,
                                  const estimator::SearchReportData& found) {
  estimator::TrainingJob winner = request.job;
  apply(found.results.front().layout, winner);
  const estimator::JobCosts costs(winner, request.samples);
  const estimator::IterationEstimate iteration = estimate_iteration(winner, costs.sources());
  std::vector<report::Bars> bars;
  if (found.rival > 0) bars.push_back(rival_bars(request, prices, found));
  bars.push_back(energy_bars(winner, iteration));
  bars.push_back(memory_bars(estimate_memory(winner)));
  for (std::size_t i = bars.size() - 2; i < bars.size(); ++i) bars[i].title += ", the winner";
  return bars;
}

std::string short_name(const estimator::ParallelLayout& parallel) {
  std::string text = fmt::format("dp {}, tp {}, pp {}", parallel.dp, parallel.tp, parallel.pp);
  if (parallel.virtual_stages > 1) text += fmt::format(" x {} virtual stages", parallel.virtual_stages);
  return parallel.cp > 1 ? text + fmt::format(", cp {}", parallel.cp) : text;
}

/// The layouts whose times are within the error of the fastest one's. Errors of the difference between two layouts are
/// not computed: they are smaller where both layouts run the same operators.
report::Card equals_card(const estimator::SearchReportData& found) {
  const auto fastest = std::ranges::min_element(found.results, {}, &estimator::SearchResult::time_s);
  const auto equal = std::ranges::count_if(found.results, [&](const estimator::SearchResult& result) {
    return result.time_s - fastest->time_s <= fastest->error_s;
  });
  return {"Within the error of the fastest, estimated", fmt::format("{} of {}", equal, found.results.size()),
          fmt::format("layouts take at most {:.2g} s longer, the 90 % error of its own time: measure some before you "
                      "choose. The order of layouts with the same operators is surer than that",
                      fastest->error_s)};
}

std::vector<report::Card> cards_of(const estimator::SearchRequest& request, const PriceArguments& prices,
                                   const estimator::SearchReportData& found) {
  const estimator::PlannedLayout& winner = found.best.front();
  const double saved_pct = 100 * (1 - winner.no_later.energy_j / winner.full_clocks.energy_j);
  std::size_t fastest = 0;
  std::size_t leanest = 0;
  for (std::size_t i = 1; i < found.results.size(); ++i) {
    if (found.results[i].time_s < found.results[fastest].time_s) fastest = i;
    if (known_energy_j(found, i) < known_energy_j(found, leanest)) leanest = i;
  }
  const auto best_in = [&found](const char* quantity, std::size_t index) {
    const estimator::SearchResult& result = found.results[index];
    return report::Card{
        fmt::format("Best in {}, estimated", quantity), short_name(result.layout.parallel),
        fmt::format("{} s, {} {}; {}", significant(result.time_s, 4), energy_text(known_energy_j(found, index)),
                    is_planned(found, index) ? "planned" : "by a quick estimate", options_of(result.layout))};
  };
  std::vector<report::Card> best{best_in("time", fastest), best_in("energy", leanest)};
  if (fastest == leanest) best = {best_in("time and energy", fastest)};
  best.insert(best.end(), {equals_card(found),
                           {"Iteration time of the first, estimated", significant(winner.result.time_s, 4) + " s",
                            fmt::format("\u00b1 {:.2g} s (90 %)", winner.result.error_s)},
                           {"Its energy without finishing later, planned", energy_text(winner.no_later.energy_j),
                            fmt::format("{:.2f} % less than at full clocks", saved_pct)},
                           {"Layouts estimated", fmt::to_string(found.results.size()),
                            fmt::format("{} more do not fit into memory", found.too_large)}});
  if (prices.any_cost()) {
    const double usd = cost_usd(prices, request, winner.no_later.time_s, winner.no_later.energy_j);
    best.insert(best.end() - 1, {"Its cost per iteration, planned", "$" + significant(usd, 4),
                                 "GPU hours and energy at the given prices"});
  }
  return best;
}

}  // namespace

std::string planned_count_text(const estimator::SearchRequest& request, const estimator::SearchReportData& found) {
  if (request.objective == estimator::SearchObjective::time) return fmt::to_string(found.planned);
  std::string text = fmt::format("{}, ranked by their plans", found.planned);
  if (found.planned == found.results.size()) return text;
  text += ", the others by a quick estimate of energy";
  if (found.open_rivals == 0) return text + ", of which none can beat the last shown";
  return text + fmt::format(", of which {} may beat the last shown", found.open_rivals);
}

report::Page search_page(const estimator::SearchRequest& request, const PriceArguments& prices,
                         const estimator::SearchReportData& found, std::string command) {
  return {
      .lowgear_version = version(),
      .command = std::move(command),
      .title = "Layouts of " + job_title(request.job, request.limits.gpus),
      .facts = {{"Objective", std::string(name(request.objective))},
                {"Batch",
                 fmt::format("{} \u00d7 {} tokens", request.job.batch.global, request.job.batch.sequence_length)},
                {"Type", std::string(name(request.job.dtype))},
                {"Software", describe(request.job.stack)},
                {"Power by clock", request.job.gpu.power_source},
                {"Planned", planned_count_text(request, found)},
                {"Searched in", fmt::format("{:.2g} s, planning included", found.search_s)}},
      .cards = cards_of(request, prices, found),
      .warnings = estimator::search_notes(request.job),
      .plot = plot_of(found),
      .bars = bars_of(request, prices, found),
      .tables = {best_table(request, prices, found)},
      .reading = {{"Estimated", "Computed from data sheets and sampled kernels. Nothing on this page was measured."},
                  {"Energy in the plot",
                   "Of all GPUs in one iteration, when each pipeline rank runs at the lowest single clock with which "
                   "it keeps up with the slowest rank: a quick approximation of a plan."},
                  {"Energy in the table",
                   "Full clocks as estimated; planned by Lowgear's planner, layout by layout, for "
                   "the time of full clocks. Layouts that were not planned are ranked by the quick estimate."},
                  {"Fits", "Every GPU's memory holds its share with a margin for holes of the allocator."}}};
}

}  // namespace lowgear::cli
