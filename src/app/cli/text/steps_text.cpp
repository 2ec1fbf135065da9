#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/arguments/options.h"
#include "app/cli/arguments/pipeline_input.h"
#include "app/cli/plan/plan_folder.h"
#include "app/cli/plan/plan_steps.h"
#include "app/cli/terminal/table.h"
#include "app/cli/text/plan_text.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/numbers/number.h"
#include "base/core/version.h"
#include "report/report/html_page.h"

namespace lowgear::cli {
namespace {

using steps::Deal;
using steps::StepTotals;
using steps::Times;
using steps::Which;

constexpr double kHundred = 100;

/// The steps whose figures are shown first: those that the fit has not seen, where they are recorded.
struct ShownSteps {
  Times times = Times::predicted;
  Which which = Which::all;
};

ShownSteps shown_steps(const StepsPlan& plan) {
  const StepTotals held_out = totals(plan.run, Deal::given, Times::replayed, Which::held_out);
  if (held_out.steps > held_out.safe_steps) return {Times::replayed, Which::held_out};
  if (totals(plan.run, Deal::given, Times::replayed).steps > 0) return {Times::replayed, Which::all};
  return {};
}

std::string times_words(const StepsPlan& plan, const ShownSteps& shown) {
  if (shown.times == Times::predicted) return "planned, with predicted times";
  if (plan.file.foresight != steps::Foresight::own) {
    const int by_fit = totals(plan.run, Deal::given, Times::by_fit, shown.which).steps;
    return fmt::format("planned by the steps before, replayed with recorded times{}",
                       by_fit == 0 ? "" : fmt::format(", {} that were not recorded with those of the fit", by_fit));
  }
  if (shown.which == Which::all) return "replayed with recorded times, the steps that were fitted";
  return plan.file.inferred ? "replayed with recorded times; coefficients are fitted on other steps, lengths are "
                              "inferred from the step's own other units: nobody could have planned it beforehand"
                            : "replayed with recorded times, steps that the fit has not seen";
}

/// `3 steps (replayed with recorded times, ...)`: those of every figure.
std::string figures_words(const StepsPlan& plan, const ShownSteps& shown) {
  const int steps = totals(plan.run, Deal::given, shown.times, shown.which).steps;
  return fmt::format("{} ({})", counted(steps, "step", "steps"), times_words(plan, shown));
}

int safe_steps(const StepsPlan& plan) {
  return static_cast<int>(std::ranges::count_if(plan.run.steps, [](const auto& step) { return step.deals.empty(); }));
}

std::string lateness_words(const StepsPlan& plan, const StepTotals& totals) {
  return fmt::format("late by more than {} %: {} of {} ({:.3g} % asked)", kHundred * steps::kLate, totals.late_steps,
                     totals.steps, kHundred * plan.file.late_share);
}

double saved_pct(const StepTotals& totals) {
  return change_pct(totals.sums.full_clocks.energy_j, totals.sums.plan.energy_j);
}

struct PlanningTime {
  double mean_s = 0;
  double most_s = 0;
};

PlanningTime planning_time(const steps::StepRun& run) {
  PlanningTime time;
  double count = 0;
  for (const steps::PlannedStep& step : run.steps) {
    for (const steps::PlannedDeal& deal : step.deals) {
      time.mean_s += deal.planning_s;
      time.most_s = std::max(time.most_s, deal.planning_s);
      ++count;
    }
  }
  if (count > 0) time.mean_s /= count;
  return time;
}

/// The four states of the steps shown: a saving of balancing is not one of clocks.
struct StateRow {
  std::string name;
  double time_s = 0;
  double energy_j = 0;
  std::optional<double> time_pct, energy_pct;  ///< against full clocks of the same deal; none: these are those
  double waiting = 0;
  std::optional<double> late;  ///< mean lateness
};

std::vector<StateRow> state_rows(const StepsPlan& plan, const ShownSteps& shown) {
  std::vector<StateRow> rows;
  for (const Deal deal : plan.run.deals) {
    const StepTotals sums = totals(plan.run, deal, shown.times, shown.which);
    const auto& [full, planned] = sums.sums;
    rows.push_back(
        {fmt::format("{}, full clocks", deal_words(deal)), full.time_s, full.energy_j, {}, {}, full.waiting, {}});
    rows.push_back({fmt::format("{}, planned clocks", deal_words(deal)), planned.time_s, planned.energy_j,
                    change_pct(full.time_s, planned.time_s), saved_pct(sums), planned.waiting, sums.mean_lateness});
  }
  return rows;
}

std::vector<std::vector<std::string>> state_cells(const std::vector<StateRow>& rows) {
  std::vector<std::vector<std::string>> cells;
  const auto change = [](std::optional<double> pct) { return pct ? signed_text(*pct, 2) + " %" : std::string("-"); };
  for (const StateRow& row : rows) {
    cells.push_back({row.name, fixed_text(row.time_s, 3) + " s", energy_text(row.energy_j), change(row.time_pct),
                     change(row.energy_pct), signed_text(change_pct(rows.front().energy_j, row.energy_j), 2) + " %",
                     fixed_text(kHundred * row.waiting, 1) + " %",
                     row.late ? fixed_text(kHundred * *row.late, 2) + " %" : std::string("-")});
  }
  return cells;
}

const std::vector<std::string>& state_columns() {
  static const std::vector<std::string> columns{
      "steps", "time", "energy", "time, same deal", "energy, same deal", "energy, first row", "waiting", "late, mean"};
  return columns;
}

std::string amounts_words(const StepsPlan& plan) {
  const std::string what = plan.file.expert_ranks > 0 ? fmt::format("loads of experts on {}, which meet in every layer",
                                                                    counted(plan.file.expert_ranks, "rank", "ranks"))
                                                      : std::string("lengths of documents");
  if (plan.file.foresight == steps::Foresight::last) {
    return fmt::format("predicted from the steps before, of which the newest counts {:.0f} %: {}",
                       kHundred * steps::kNewestShare, what);
  }
  if (plan.file.foresight == steps::Foresight::mean) return "predicted from the mean of the steps before: " + what;
  if (plan.file.expert_ranks > 0) return "predicted from the same step: " + what;
  return plan.file.inferred
             ? "the trace states no lengths: those of a unit are inferred from the other units of its microbatch in "
               "the same step, so that nobody could have planned it beforehand; coefficients are fitted on other steps"
             : "predicted from the lengths of documents";
}

std::string steps_words(const StepsPlan& plan) {
  return fmt::format("{}, of which {} were fitted and {} run at full clocks", plan.file.steps, plan.file.fitted_steps,
                     safe_steps(plan));
}

std::string facts_words(const StepsPlan& plan) {
  return fmt::format("{} x {} x {}, {}", counted(plan.file.replicas, "replica", "replicas"),
                     counted(plan.file.ranks, "rank", "ranks"),
                     counted(plan.file.microbatches, "microbatch", "microbatches"), plan.file.schedule);
}

Json totals_json(const StepTotals& totals) {
  const auto figures = [](const steps::StepFigures& of) {
    return Json{{"time_s", of.time_s}, {"energy_j", of.energy_j}, {"waiting", of.waiting}, {"clock_mhz", of.clock_mhz}};
  };
  return {{"steps", totals.steps},
          {"safe_steps", totals.safe_steps},
          {"late_steps", totals.late_steps},
          {"full_clocks", figures(totals.sums.full_clocks)},
          {"plan", figures(totals.sums.plan)},
          {"energy_pct", saved_pct(totals)},
          {"time_pct", change_pct(totals.sums.full_clocks.time_s, totals.sums.plan.time_s)},
          {"bound_energy_pct", change_pct(totals.bound_full_j, totals.bound_j)},
          {"mean_lateness_pct", kHundred * totals.mean_lateness},
          {"late_steps_pct", kHundred * totals.late_share}};
}

/// A figure of every step shown, in both deals, at full clocks and with the plan.
report::SeriesPlots plots_of(const StepsPlan& plan, const ShownSteps& shown, std::string title, std::string caption,
                             report::SeriesPlots::Axis y, double (*figure)(const steps::StepPair&, bool planned),
                             bool with_full_clocks) {
  report::SeriesPlots plots{.title = std::move(title),
                            .basis = shown.times == Times::replayed ? "replayed" : "planned",
                            .caption = std::move(caption),
                            .x = {"step, in order", report::SeriesPlots::Unit::none},
                            .y = std::move(y),
                            .plots = {}};
  for (const Deal deal : plan.run.deals) {
    std::array<report::SeriesPlots::Series, 2> series;
    series[0] = {"full clocks", true, {}};
    series[1] = {"plan", true, {}};
    for (std::size_t i = 0; i < plan.run.steps.size(); ++i) {
      if (shown.which == Which::held_out && plan.run.steps[i].fitted) continue;
      const steps::StepPair* const pair = figures(plan.run.steps[i], deal, shown.times);
      if (pair == nullptr) continue;
      const auto x = static_cast<double>(i);
      if (with_full_clocks) series[0].points.push_back({x, figure(*pair, false)});
      series[1].points.push_back({x, figure(*pair, true)});
    }
    report::SeriesPlots::PlotOfSeries& of_deal = plots.plots.emplace_back();
    of_deal.name = deal == Deal::given ? fmt::format("microbatches {}", deal_words(deal)) : deal_words(deal);
    for (report::SeriesPlots::Series& one : series) {
      if (!one.points.empty()) of_deal.series.push_back(std::move(one));
    }
  }
  std::erase_if(plots.plots, [](const auto& plot) { return plot.series.empty(); });
  return plots;
}

std::string headline(const StepTotals& given, const StepTotals& balanced) {
  const steps::StepFigures& full = given.sums.full_clocks;
  const auto against_full = [&](const steps::StepFigures& figures) {
    return fmt::format("{} % energy at {} % time", signed_text(change_pct(full.energy_j, figures.energy_j), 2),
                       signed_text(change_pct(full.time_s, figures.time_s), 2));
  };
  if (balanced.steps == 0) return against_full(given.sums.plan) + " against full clocks";
  return fmt::format("as dealt: {}; balanced and planned: {}, both against full clocks as dealt",
                     against_full(given.sums.plan), against_full(balanced.sums.plan));
}

std::vector<report::Card> cards(const StepsPlan& plan, const StepTotals& given, const StepTotals& balanced) {
  const PlanningTime time = planning_time(plan.run);
  std::vector<report::Card> cards{
      {"Energy as dealt", signed_text(saved_pct(given), 2) + " %", "planned clocks against full clocks"},
      {"Late, mean", fixed_text(kHundred * given.mean_lateness, 2) + " %", lateness_words(plan, given)}};
  if (balanced.steps > 0) {
    const auto& [before, after] = std::pair(given.sums.full_clocks, balanced.sums.full_clocks);
    cards.push_back(
        {"Balancing alone", signed_text(change_pct(before.energy_j, after.energy_j), 2) + " %",
         fmt::format("energy at full clocks, {} % time", signed_text(change_pct(before.time_s, after.time_s), 2))});
    cards.push_back(
        {"Clocks after balancing", signed_text(saved_pct(balanced), 2) + " %", "against balanced full clocks"});
  }
  cards.push_back(
      {"Planning a step", duration_text(time.mean_s), fmt::format("at most {}", duration_text(time.most_s))});
  return cards;
}

std::vector<report::SeriesPlots> step_plots(const StepsPlan& plan, const ShownSteps& shown) {
  using PlotUnit = report::SeriesPlots::Unit;
  return {
      plots_of(
          plan, shown, "Time of each step",
          "From its begin until the longest replica has finished: there all "
          "replicas sum their gradients. A plan that is above full clocks is late.",
          {"time", PlotUnit::seconds},
          [](const steps::StepPair& pair, bool planned) {
            return planned ? pair.plan.time_s : pair.full_clocks.time_s;
          },
          true),
      plots_of(
          plan, shown, "Waiting", "Share of all GPUs' time in which they wait for another rank or replica.",
          {"waiting", PlotUnit::percent},
          [](const steps::StepPair& pair, bool planned) {
            return kHundred * (planned ? pair.plan.waiting : pair.full_clocks.waiting);
          },
          true),
      plots_of(
          plan, shown, "Clock", "Mean over the time of all units, in MHz.", {"MHz", PlotUnit::none},
          [](const steps::StepPair& pair, bool) { return pair.plan.clock_mhz; }, false),
      plots_of(
          plan, shown, "Energy saved", "Against full clocks in the same deal: what balancing saves is not in it.",
          {"saved", PlotUnit::percent},
          [](const steps::StepPair& pair, bool) { return -change_pct(pair.full_clocks.energy_j, pair.plan.energy_j); },
          false)};
}

std::string title_words(const steps::StepsFile& file) {
  if (file.foresight != steps::Foresight::own) return "Clocks predicted from the steps before";
  return fmt::format("Clocks for every step's own {}", file.expert_ranks > 0 ? "loads of experts" : "lengths");
}

std::vector<report::Entry> reading_words(const StepsPlan& plan) {
  std::vector<report::Entry> words{{"Same deal", "Against full clocks with the same microbatches on each replica."}};
  if (plan.run.deals.size() > 1) {
    words.push_back(
        {"Balanced",
         fmt::format("Microbatches dealt anew, as many to each replica as before, where that is no slower and "
                     "no rank then holds more {} at once than the most as dealt; else as dealt.",
                     plan.file.inferred ? "time of microbatches (their lengths are not stated)" : "tokens")});
  }
  words.push_back({"Late", "How much longer a step takes than at full clocks; steps that are early count as 0."});
  words.push_back({"Energy",
                   "Of one GPU a rank (where experts are on several, of a mean one), from the step's begin to the "
                   "sum of gradients, waiting included. Messages and the optimizer take no time here."});
  return words;
}

}  // namespace

std::string deal_words(Deal deal) { return deal == Deal::given ? "as dealt" : "balanced"; }

std::string steps_text(const StepsPlan& plan) {
  const ShownSteps shown = shown_steps(plan);
  Table table({{"", Table::Align::left},
               {"time"},
               {"energy"},
               {"time, same deal"},
               {"energy, same deal"},
               {"energy, first row"},
               {"waiting"},
               {"late, mean"}});
  for (std::vector<std::string>& cells : state_cells(state_rows(plan, shown))) table.add_row(std::move(cells));
  const PlanningTime time = planning_time(plan.run);
  const bool can_balance = plan.run.deals.size() > 1;
  std::string text = fmt::format("steps     {}; {}\n", steps_words(plan), facts_words(plan));
  text +=
      fmt::format("times     {}; error of a unit {:.2f} % (rms{})\n", amounts_words(plan),
                  kHundred * (plan.file.prediction_error > 0 ? plan.file.prediction_error : plan.file.model.error()),
                  plan.file.prediction_error > 0 ? ", steps that were not fitted" : ", of the fit");
  text += fmt::format("clocks    one per {}, {}; margin {:.2f} % as dealt{}\n", name(plan.file.clocks_per),
                      clock_changes_text(plan.file.clock_lead_s, plan.file.late_by_s), kHundred * plan.file.margins[0],
                      can_balance ? fmt::format(", {:.2f} % balanced", kHundred * plan.file.margins[1]) : "");
  text += fmt::format("planning  {} a step, at most {}\n", duration_text(time.mean_s), duration_text(time.most_s));
  const auto bound_pct = [&](Deal deal) {
    const StepTotals sums = totals(plan.run, deal, shown.times, shown.which);
    return signed_text(change_pct(sums.bound_full_j, sums.bound_j), 2);
  };
  text +=
      fmt::format("bound     by predicted times no clocks come below {} % energy as dealt{}\n", bound_pct(Deal::given),
                  can_balance ? fmt::format(", {} % balanced", bound_pct(Deal::balanced)) : "");
  const StepTotals given = totals(plan.run, Deal::given, shown.times, shown.which);
  text += fmt::format("{} as dealt\n", lateness_words(plan, given));
  text += fmt::format("{}:\n{}", figures_words(plan, shown), table.text());
  text += simulated_text(plan.simulated);
  text += fmt::format("report    {}\nnext      lowgear verify {}\n",
                      (std::filesystem::path(plan.out) / output_file::kReport).string(), shell_word(plan.out));
  return text;
}

Json steps_json(const StepsPlan& plan) {
  const PlanningTime time = planning_time(plan.run);
  Json deals = Json::object();
  for (const Deal deal : plan.run.deals) {
    Json& of_deal = deals[std::string(name(deal))];
    of_deal["margin"] = plan.file.margins.at(steps::place(deal));
    of_deal["predicted"] = totals_json(totals(plan.run, deal, Times::predicted));
    for (const auto& [key, which] : {std::pair("recorded", Which::all), std::pair("recorded_fitted", Which::fitted),
                                     std::pair("recorded_held_out", Which::held_out)}) {
      const StepTotals recorded = totals(plan.run, deal, Times::recorded, which);
      of_deal[key] = recorded.steps > 0 ? totals_json(recorded) : Json(nullptr);
    }
    const StepTotals by_fit = totals(plan.run, deal, Times::by_fit);
    of_deal["replayed_by_fit"] = by_fit.steps > 0 ? totals_json(by_fit) : Json(nullptr);
  }
  return {{"out", plan.out},
          {"steps", plan.file.steps},
          {"fitted_steps", plan.file.fitted_steps},
          {"safe_steps", safe_steps(plan)},
          {"replicas", plan.file.replicas},
          {"ranks", plan.file.ranks},
          {"microbatches", plan.file.microbatches},
          {"schedule", plan.file.schedule},
          {"clocks_per", name(plan.file.clocks_per)},
          {"late_by_s", plan.file.late_by_s},
          {"clock_lead_s", plan.file.clock_lead_s},
          {"amounts_inferred", plan.file.inferred},
          {"foresight", name(plan.file.foresight)},
          {"expert_ranks", plan.file.expert_ranks},
          {"fit_error_pct", kHundred * plan.file.model.error()},
          {"prediction_error_pct", kHundred * plan.file.prediction_error},
          {"planning_s", {{"mean", time.mean_s}, {"most", time.most_s}}},
          {"deals", deals},
          {"warnings", plan.warnings}};
}

std::string steps_page(const StepsPlan& plan) {
  const ShownSteps shown = shown_steps(plan);
  const StepTotals given = totals(plan.run, Deal::given, shown.times, shown.which);
  const StepTotals balanced = totals(plan.run, Deal::balanced, shown.times, shown.which);
  const std::string basis = figures_words(plan, shown);
  report::Page page{.lowgear_version = version(),
                    .command = plan.file.command,
                    .title = title_words(plan.file),
                    .headline = headline(given, balanced),
                    .facts = {{"Job", facts_words(plan)},
                              {"Steps", steps_words(plan)},
                              {"All figures", "of " + basis},
                              {"Times", amounts_words(plan)},
                              {"Clocks", fmt::format("one per {}, {}", name(plan.file.clocks_per),
                                                     clock_changes_text(plan.file.clock_lead_s, plan.file.late_by_s))},
                              {"Profile", std::filesystem::path(plan.file.profile).filename().string()}},
                    .cards = cards(plan, given, balanced),
                    .warnings = plan.warnings,
                    .plot = std::nullopt,
                    .bars = {},
                    .tables = {{.title = plan.run.deals.size() > 1 ? "Four states of the same steps" : "The same steps",
                                .basis = basis,
                                .columns = state_columns(),
                                .rows = state_cells(state_rows(plan, shown)),
                                .chosen = 1}},
                    .reading = reading_words(plan)};
  page.series = step_plots(plan, shown);
  return render_html_page(page);
}

}  // namespace lowgear::cli
