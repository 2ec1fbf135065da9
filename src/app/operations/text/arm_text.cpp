#include "app/operations/text/arm_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/cli/terminal/table.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/version.h"

namespace lowgear::operations {
namespace {

using experiment::ArmComparison;
using experiment::ArmQuantity;
using experiment::ComparedArm;
using experiment::Interval;
using experiment::Quantity;
using experiment::Verdict;

constexpr const char* kMissing = "-";

std::string unit_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::energy:
    case Quantity::energy_to_loss:
      return ", J";
    case Quantity::time:
    case Quantity::time_to_loss:
      return ", s";
    case Quantity::cost:
      return ", $";
    case Quantity::emissions:
      return ", g";
    default:
      return "";
  }
}

std::string heading_of(const ArmQuantity& quantity, const ArmComparison& comparison) {
  if (quantity.quantity == Quantity::time_per_work && comparison.unit == experiment::WorkUnit::token) {
    return "\u00b5s/token";
  }
  return heading(quantity.quantity, comparison.unit) + unit_of(quantity.quantity);
}

constexpr int kDigits = 5;

/// Times per token are short.
double scale_of(Quantity quantity, experiment::WorkUnit unit) {
  return quantity == Quantity::time_per_work && unit == experiment::WorkUnit::token ? 1e6 : 1;
}

/// `1.234 ± 0.012`: as many digits as the interval leaves meaning.
std::string value_text(const ArmQuantity& quantity, experiment::WorkUnit unit) {
  if (!quantity.value) return quantity.without > 0 ? "not reached" : kMissing;
  const double scale = scale_of(quantity.quantity, unit);
  const double mean = scale * quantity.value->mean;
  const auto range = quantity.value->range;
  const double half = range ? scale * (range->high - range->low) / 2 : 0;
  const int digits = half > 0 ? cli::decimals(half, 2) : cli::decimals(mean, kDigits);
  std::string text = fmt::format("{:.{}f}", mean, digits);
  if (range) text += fmt::format(" \u00b1 {:.{}f}", half, digits);
  if (quantity.without > 0) text += fmt::format(" ({} not reached)", quantity.without);
  return text;
}

std::string interval_text(const Interval& interval) {
  if (!interval.range) return kMissing;
  return fmt::format("{} to {}", change_text(interval.range->low), change_text(interval.range->high));
}

std::string verdict_text(const ArmQuantity& quantity) {
  std::string result(text(quantity.verdict));
  if (quantity.within_margin)
    result += *quantity.within_margin ? "; within the margin" : "; not shown within the margin";
  return result;
}

std::string count_text(const ArmQuantity& quantity) {
  const int count = quantity.difference_pct->count;
  return quantity.paired ? counted(count, "pair", "pairs") : counted(count, "run", "runs");
}

const std::vector<ArmQuantity>& quantities_of(const ArmComparison& comparison) {
  return comparison.arms.front().quantities;
}

bool has_clocks(const ArmComparison& comparison) {
  return std::ranges::any_of(comparison.arms, [](const ComparedArm& arm) { return arm.sm_clock_mhz.has_value(); });
}

bool has_policies(const ArmComparison& comparison) {
  return std::ranges::any_of(comparison.arms, [](const ComparedArm& arm) { return !arm.policy.empty(); });
}

std::string rounded_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : kMissing;
}

/// Header and rows of the quantities of all arms.
struct Cells {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

Cells quantity_cells(const ArmComparison& comparison) {
  Cells cells{.header = {"arm", "runs"}, .rows = {}};
  const bool clocks = has_clocks(comparison);
  const bool policies = has_policies(comparison);
  for (const ArmQuantity& quantity : quantities_of(comparison))
    cells.header.push_back(heading_of(quantity, comparison));
  if (clocks) cells.header.insert(cells.header.end(), {"MHz", "\u00b0C"});
  if (policies) cells.header.emplace_back("policy");
  for (const ComparedArm& arm : comparison.arms) {
    std::vector<std::string>& row = cells.rows.emplace_back(std::vector{arm.name, fmt::to_string(arm.runs)});
    for (const ArmQuantity& quantity : arm.quantities) row.push_back(value_text(quantity, comparison.unit));
    if (clocks) row.insert(row.end(), {rounded_text(arm.sm_clock_mhz), rounded_text(arm.temperature_c)});
    if (policies) row.push_back(arm.policy.empty() ? kMissing : arm.policy);
  }
  return cells;
}

Cells difference_cells(const ArmComparison& comparison) {
  Cells cells{.header = {"arm", "against " + comparison.baseline, "difference", "95 % interval", "of", "verdict"},
              .rows = {}};
  for (const ComparedArm& arm : comparison.arms) {
    for (const ArmQuantity& quantity : arm.quantities) {
      if (!quantity.difference_pct) continue;
      cells.rows.push_back({arm.name, heading(quantity.quantity, comparison.unit),
                            change_text(quantity.difference_pct->mean), interval_text(*quantity.difference_pct),
                            count_text(quantity), verdict_text(quantity)});
    }
  }
  return cells;
}

std::string table_text(const Cells& cells) {
  std::vector<cli::Table::Column> columns;
  for (const std::string& name : cells.header) columns.push_back({name, cli::Table::Align::left});
  cli::Table table(std::move(columns));
  for (const std::vector<std::string>& row : cells.rows) table.add_row(row);
  return table.text();
}

/// Few columns: a row for every quantity, a column for every arm.
Cells turned(const Cells& cells) {
  Cells result;
  for (const std::vector<std::string>& row : cells.rows) result.header.push_back(row.front());
  result.header.insert(result.header.begin(), "");
  for (std::size_t column = 1; column < cells.header.size(); ++column) {
    std::vector<std::string>& row = result.rows.emplace_back(std::vector{cells.header[column]});
    for (const std::vector<std::string>& arm : cells.rows) row.push_back(arm[column]);
  }
  return result;
}

std::string common_text(const ArmComparison& comparison) {
  return fmt::format("{:.0f} {}s", comparison.common_work, name(comparison.unit));
}

Json interval_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  return {{"mean", interval->mean},
          {"low", interval->range ? Json(interval->range->low) : Json(nullptr)},
          {"high", interval->range ? Json(interval->range->high) : Json(nullptr)},
          {"count", interval->count}};
}

Json quantity_json(const ArmQuantity& quantity) {
  Json json = {{"value", interval_json(quantity.value)}, {"runs_without", quantity.without}};
  if (!quantity.difference_pct) return json;
  json["difference_pct"] = interval_json(quantity.difference_pct);
  json["paired"] = quantity.paired;
  json["verdict"] = text(quantity.verdict);
  if (quantity.within_margin) json["within_margin"] = *quantity.within_margin;
  return json;
}

Json arm_json(const ComparedArm& arm, const ArmComparison& comparison) {
  Json json = {{"name", arm.name}, {"runs", arm.runs}};
  if (!arm.policy.empty()) json["policy"] = arm.policy;
  if (arm.sm_clock_mhz) json["sm_clock_mhz"] = *arm.sm_clock_mhz;
  if (arm.temperature_c) json["temperature_c"] = *arm.temperature_c;
  for (const ArmQuantity& quantity : arm.quantities) {
    json[member_name(quantity.quantity, comparison.unit)] = quantity_json(quantity);
  }
  Json curve = Json::array();
  for (const experiment::LearningPoint& point : arm.curve) {
    Json entry = {{std::string(name(comparison.unit)) + "s", point.work}, {"loss", point.loss}};
    if (comparison.common_energy_j) entry["energy_j"] = point.energy_j;
    curve.push_back(std::move(entry));
  }
  json["curve"] = std::move(curve);
  return json;
}

report::Intervals::Sense sense_of(Verdict verdict) {
  if (verdict == Verdict::less) return report::Intervals::Sense::better;
  return verdict == Verdict::more ? report::Intervals::Sense::worse : report::Intervals::Sense::none;
}

report::Intervals intervals_of(const ArmComparison& comparison) {
  report::Intervals result{
      .title = "Differences from " + comparison.baseline,
      .basis = basis_text(comparison),
      .caption =
          "Points are differences of geometric means, lines their 95 % confidence intervals. An interval that "
          "includes zero shows no difference. Less is better for all of them.",
      .groups = {}};
  for (const ComparedArm& arm : comparison.arms) {
    report::Intervals::Group group{.name = arm.name, .rows = {}};
    for (const ArmQuantity& quantity : arm.quantities) {
      // In proportion to the energy.
      const bool is_derived = quantity.quantity == Quantity::cost || quantity.quantity == Quantity::emissions;
      if (!quantity.difference_pct || is_derived) continue;
      const Interval& difference = *quantity.difference_pct;
      report::Intervals::Row row{.name = heading(quantity.quantity, comparison.unit),
                                 .mean = difference.mean,
                                 .low = std::nullopt,
                                 .high = std::nullopt,
                                 .sense = sense_of(quantity.verdict),
                                 .text = fmt::format("{}: {}", change_text(difference.mean), text(quantity.verdict))};
      if (difference.range) {
        row.low = difference.range->low;
        row.high = difference.range->high;
      }
      group.rows.push_back(std::move(row));
    }
    if (!group.rows.empty()) result.groups.push_back(std::move(group));
  }
  return result;
}

report::Curves curves_of(const ArmComparison& comparison, bool by_energy) {
  const std::string work = std::string(name(comparison.unit)) + "s";
  report::Curves plot{.title = by_energy ? "Loss against energy" : "Loss against " + work,
                      .basis = basis_text(comparison),
                      .caption =
                          "Mean over the runs of an arm; each loss is the mean over the steps before it that "
                          "have 5 % of all " +
                          work + ".",
                      .x = {.name = by_energy ? "energy" : work, .energy = by_energy},
                      .y_name = "loss, nats",
                      .curves = {}};
  for (const ComparedArm& arm : comparison.arms) {
    if (arm.curve.empty()) continue;
    report::Curves::Curve curve{.name = arm.name, .points = {}};
    for (const experiment::LearningPoint& point : arm.curve) {
      curve.points.push_back({by_energy ? point.energy_j : point.work, point.loss});
    }
    plot.curves.push_back(std::move(curve));
  }
  return plot;
}

report::Table table_of(std::string title, const Cells& cells, const ArmComparison& comparison) {
  return {.title = std::move(title),
          .basis = basis_text(comparison),
          .columns = cells.header,
          .rows = cells.rows,
          .chosen = std::nullopt};
}

/// The energy per token of each arm against the baseline.
std::vector<report::Card> cards_of(const ArmComparison& comparison) {
  std::vector<report::Card> cards;
  for (const ComparedArm& arm : comparison.arms) {
    if (arm.quantities.empty()) continue;
    const ArmQuantity& first = arm.quantities.front();
    cards.push_back({.name = fmt::format("{}, {}", heading_of(first, comparison), arm.name),
                     .value = first.value ? fmt::format("{:.4g}", first.value->mean) : kMissing,
                     .detail = first.difference_pct
                                   ? change_text(first.difference_pct->mean) + ": " + verdict_text(first)
                                   : "the baseline"});
  }
  return cards;
}

/// `planned: -13.20 % energy per token (less), against full clocks`, arm by arm, each with its verdict.
std::string headline_of(const ArmComparison& comparison) {
  std::string text;
  for (const ComparedArm& arm : comparison.arms) {
    if (arm.quantities.empty() || !arm.quantities.front().difference_pct) continue;
    const ArmQuantity& first = arm.quantities.front();
    const std::string quantity = first.quantity == Quantity::energy_per_work
                                     ? "energy per " + std::string(name(comparison.unit))
                                     : heading(first.quantity, comparison.unit);
    text += fmt::format("{}{}: {} {} ({})", text.empty() ? "" : "; ", arm.name, change_text(first.difference_pct->mean),
                        quantity, verdict_text(first));
  }
  return text.empty() ? text : fmt::format("{}, against {}", text, comparison.baseline);
}

/// What the quantities per unit of work are means of.
std::string per_work_text(const ArmComparison& comparison) {
  return fmt::format(
      "over the equal work without the first {0} {1}s of a run (if it has more), in which memory is allocated and "
      "clocks settle; all other quantities count those that every run has, but for MHz and °C, which are means of the "
      "whole run{2}",
      experiment::kSettlingSteps, comparison.unit == experiment::WorkUnit::token ? "step" : "iteration",
      comparison.unit == experiment::WorkUnit::token ? ""
                                                     : "; an iteration of a recording lasts until the next one begins");
}

/// `J/token and s/token`
std::string per_work_heading(const ArmComparison& comparison) {
  std::string text;
  for (const ArmQuantity& quantity : quantities_of(comparison)) {
    if (quantity.quantity != Quantity::energy_per_work && quantity.quantity != Quantity::time_per_work) continue;
    text += (text.empty() ? "" : " and ") + heading_of(quantity, comparison);
  }
  return text;
}

std::vector<report::Entry> reading_of(const ArmComparison& comparison) {
  const std::string work(name(comparison.unit));
  return {
      {"Measured, simulated, replayed",
       "Measured: by counters and clocks on real GPUs. Simulated: on simulated GPUs. Replayed: computed from a plan "
       "and "
       "a profile. A report has runs of one kind only."},
      {"Energy",
       "Of all GPUs of a run, in its steps: without CPUs, network and cooling, and without the time before the "
       "first step and for checkpoints."},
      {"Per " + work, "Means " + per_work_text(comparison) + "."},
      {"Energy, time, cost, CO2",
       fmt::format("Of the first {:.0f} {}s that every run has.", comparison.common_work, work)},
      {"Loss",
       "At equal energy: when a run has used as much as the run that used least in all. To a loss: until the "
       "mean loss is that low for the first time."},
      {"Interval",
       "95 % confidence, by Student's t: over blocks of an experiment (for losses: over seeds), or over "
       "runs. Differences are of logarithms: paired by block or seed, otherwise by Welch's method."},
      {"No difference shown",
       "The interval includes zero. That is no proof that there is none: more runs may show one."}};
}

}  // namespace

std::string basis_text(const ArmComparison& comparison) {
  return comparison.basis ? std::string(name(*comparison.basis)) : "without energy";
}

std::string arms_text(const ArmComparison& comparison) {
  std::string text = fmt::format("{}; equal work: {}\n\n", basis_text(comparison), common_text(comparison));
  text += table_text(turned(quantity_cells(comparison)));
  const Cells differences = difference_cells(comparison);
  if (!differences.rows.empty()) text += '\n' + table_text(differences);
  return text + fmt::format("\n{}: means {}\n", per_work_heading(comparison), per_work_text(comparison));
}

Json arms_json(const ArmComparison& comparison) {
  Json arms = Json::array();
  for (const ComparedArm& arm : comparison.arms) arms.push_back(arm_json(arm, comparison));
  Json json = {{"format", "lowgear.arms/1"},
               {"basis", comparison.basis ? Json(name(*comparison.basis)) : Json(nullptr)},
               {"baseline", comparison.baseline},
               {std::string("common_") + std::string(name(comparison.unit)) + "s", comparison.common_work},
               {"common_energy_j", or_null(comparison.common_energy_j)},
               {"confidence", experiment::kConfidence},
               {"arms", std::move(arms)},
               {"warnings", comparison.warnings}};
  return json;
}

report::Page arms_page(const ArmComparison& comparison, std::string command) {
  report::Page page{.lowgear_version = version(),
                    .command = std::move(command),
                    .title = fmt::format("{} arms of training runs", comparison.arms.size()),
                    .headline = headline_of(comparison),
                    .facts = {{"Kind", basis_text(comparison)},
                              {"Compared with", comparison.baseline},
                              {"Equal work", common_text(comparison)}},
                    .cards = cards_of(comparison),
                    .warnings = comparison.warnings,
                    .plot = std::nullopt,
                    .bars = {},
                    .tables = {table_of("Arms", turned(quantity_cells(comparison)), comparison)},
                    .reading = reading_of(comparison)};
  if (report::Intervals intervals = intervals_of(comparison); !intervals.groups.empty()) {
    page.intervals.push_back(std::move(intervals));
    page.tables.push_back(table_of("Differences", difference_cells(comparison), comparison));
  }
  report::Curves by_work = curves_of(comparison, false);
  if (by_work.curves.empty()) return page;
  page.curves.push_back(std::move(by_work));
  if (comparison.common_energy_j) page.curves.push_back(curves_of(comparison, true));
  return page;
}

std::string change_text(double pct) { return signed_text(pct, 2) + " %"; }

}  // namespace lowgear::operations
