#include "app/cli/text/power_search_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "app/cli/terminal/table.h"
#include "app/cli/text/estimate_text.h"
#include "app/cli/text/job_facts.h"
#include "base/core/numbers/figure_text.h"
#include "base/core/version.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/search/search.h"

namespace lowgear::cli {
namespace {

/// Differences below this, in per cent, are none.
constexpr double kTellingPct = 0.05;
constexpr double kWattsPerMw = 1e6;

double tokens(const estimator::SearchRequest& request) {
  return static_cast<double>(request.job.batch.global * request.job.batch.sequence_length);
}

int gpus_of(const estimator::PoweredLayout& layout) { return layout.layout.parallel.gpus(); }

double percent_more(double factor) { return 100 * (factor - 1); }

/// `1,744`.
std::string grouped(double number) {
  std::string text = fmt::format("{:.0f}", number);
  for (std::size_t end = text.size(); end > 3; end -= 3) text.insert(end - 3, ",");
  return text;
}

/// The clocks that run: where the power limit holds passes below the ones asked for, those that it allows.
std::string clock_text(const estimator::PoweredLayout& layout) {
  const auto& [lowest_mhz, median_mhz, highest_mhz] = layout.clocks;
  const auto held_mhz = static_cast<int>(std::lround(layout.sustained.lowest_mhz));
  const auto allowed_mhz = static_cast<int>(std::lround(layout.sustained.highest_mhz));
  const int from_mhz = std::min(lowest_mhz, held_mhz);
  const int to_mhz = std::min(highest_mhz, allowed_mhz);
  if (from_mhz == to_mhz) return fmt::to_string(to_mhz);
  if (median_mhz > held_mhz) return fmt::format("{}-{}", from_mhz, to_mhz);
  return fmt::format("{} ({}-{})", median_mhz, from_mhz, to_mhz);
}

std::string mean_clock_text(const estimator::ClockSpread& clocks, int max_mhz) {
  if (clocks.lowest_mhz == max_mhz) return "full clocks";
  return fmt::format("{} MHz{}", grouped(clocks.median_mhz),
                     clocks.lowest_mhz == clocks.highest_mhz ? "" : " (median of its units)");
}

/// The fastest of all numbers of GPUs at one clock.
const estimator::PoweredLayout* best_one_clock(const estimator::PowerSearchData& found) {
  const estimator::PoweredLayout* best = nullptr;
  for (const estimator::GpuCount& count : found.counts) {
    const bool faster = count.one_clock && (best == nullptr || count.one_clock->figures.time_s < best->figures.time_s);
    if (faster) best = &*count.one_clock;
  }
  return best;
}

struct NamedLayout {
  std::string name;
  const estimator::PoweredLayout* layout;
};

std::vector<NamedLayout> compared(const estimator::PowerSearchData& found) {
  std::vector<NamedLayout> rows;
  if (found.reference) rows.push_back({"full clocks, estimated", &*found.reference});
  if (const auto* const one = best_one_clock(found)) rows.push_back({"one clock, planned", one});
  rows.push_back({"best plan, planned", &found.best});
  rows.push_back({"its layout at full clocks", &found.best_at_full_clocks});
  return rows;
}

/// The result in words.
std::string answer(const PowerSearchResult& result) {
  const estimator::PowerSearchData& found = result.found;
  const estimator::PoweredLayout& best = found.best;
  const bool one = gpus_of(best) == 1;
  const std::string with = fmt::format("{} {} at {}", grouped(gpus_of(best)), one ? "GPU" : "GPUs",
                                       mean_clock_text(best.clocks, result.request.job.gpu.clocks.max_mhz));
  const std::string tokens_text = grouped(tokens(result.request) / best.figures.time_s) + " tokens a second";
  const char* const make = one ? "makes" : "make";
  if (!found.reference)
    return fmt::format("{} {} {}; at full clocks every layout draws too much.", with, make, tokens_text);
  const double more_pct = percent_more(found.gain()->total());
  if (more_pct < kTellingPct) return fmt::format("{} {} {}: slower clocks make no more.", with, make, tokens_text);
  return fmt::format("{} {} {:.1f} % more tokens than {} at full clocks: {}.", with, make, more_pct,
                     grouped(gpus_of(*found.reference)), tokens_text);
}

/// Where the best plan relies on a voltage that was not measured.
std::string best_curve_note(const PowerSearchResult& result) {
  return curve_note(result.request.job.gpu, "the best plan", result.found.best.clocks.lowest_mhz);
}

std::string reasons(const estimator::PowerSearchData& found) {
  const auto gain = found.gain();
  if (!gain || percent_more(gain->total()) < kTellingPct) return "";
  return fmt::format(
      "Of the tokens, {} % come from drawing more of the power, {} % from the number of GPUs and their layout at full "
      "clocks, {} % from slower clocks.",
      signed_text(percent_more(gain->power), 1), signed_text(percent_more(gain->layout), 1),
      signed_text(percent_more(gain->clocks), 1));
}

std::string bound_sentence(const PowerSearchResult& result) {
  const estimator::PowerSearchData& found = result.found;
  return fmt::format(
      "No clocks of these layouts on {} to {} GPUs make more than {} tokens a second, {:.2f} % above the best plan.",
      grouped(found.least_gpus), grouped(found.most_gpus), grouped(tokens(result.request) / found.least_time_s),
      100 * found.gap());
}

std::string overhead_text(const estimator::FacilityPower& facility) {
  std::string text = fmt::format("{} more for each GPU", power_text(facility.gpu_overhead_w));
  if (facility.node_overhead_w > 0) text += fmt::format(" and {} for each node", power_text(facility.node_overhead_w));
  return text;
}

std::string counts_text(const estimator::PowerSearchData& found) {
  return fmt::format("{} layouts with {} numbers of GPUs estimated; {} do not fit into memory; clocks of {} planned",
                     found.layouts - found.too_large, found.counts.size(), found.too_large, found.planned);
}

std::vector<std::string> cells_of(const PowerSearchResult& result, const NamedLayout& row) {
  const estimator::PoweredLayout& layout = *row.layout;
  const double tokens_per_s = tokens(result.request) / layout.figures.time_s;
  return {row.name,
          fmt::to_string(gpus_of(layout)),
          clock_text(layout),
          fmt::format("{:.0f}", tokens_per_s),
          power_text(layout.power_w),
          fmt::format("{:.4g}", layout.power_w / tokens_per_s),
          seconds_text(layout.figures.time_s),
          describe(layout.layout)};
}

Json row_json(const PowerSearchResult& result, const estimator::PoweredLayout& layout) {
  const double tokens_per_s = tokens(result.request) / layout.figures.time_s;
  return {{"layout", search_layout_json(layout.layout)},
          {"options", options_of(layout.layout)},
          {"gpus", gpus_of(layout)},
          {"time_s", layout.figures.time_s},
          {"energy_j", layout.figures.energy_j},
          {"power_w", layout.power_w},
          {"tokens_per_s", tokens_per_s},
          {"j_per_token", layout.power_w / tokens_per_s},
          {"lowest_clock_mhz", layout.clocks.lowest_mhz},
          {"median_clock_mhz", layout.clocks.median_mhz},
          {"highest_clock_mhz", layout.clocks.highest_mhz},
          {"full_clocks_mhz", {{"lowest", layout.sustained.lowest_mhz}, {"highest", layout.sustained.highest_mhz}}}};
}

Json row_json(const PowerSearchResult& result, const std::optional<estimator::PoweredLayout>& layout) {
  return layout ? row_json(result, *layout) : Json(nullptr);
}

/// That on the best plan first.
std::vector<std::string> power_search_notes(const PowerSearchResult& result) {
  std::vector<std::string> notes = estimator::search_notes(result.request.job);
  if (std::string note = best_curve_note(result); !note.empty()) notes.insert(notes.begin(), std::move(note));
  return notes;
}

report::SeriesPlots picture(const PowerSearchResult& result) {
  using Plots = report::SeriesPlots;
  Plots::Series bound{"bound: no plan makes more", true, {}};
  Plots::Series full{"full clocks", true, {}};
  Plots::Series one{"one clock", true, {}};
  Plots::Series planned{"clocks planned op by op", false, {}};
  Plots::Series reference{"the best at full clocks", false, {}};
  Plots::Series best{"the best plan", false, {}};
  const auto add = [&](Plots::Series& series, int gpus, double time_s) {
    series.points.push_back({static_cast<double>(gpus), tokens(result.request) / time_s});
  };
  const auto add_layout = [&](Plots::Series& series, const std::optional<estimator::PoweredLayout>& layout) {
    if (layout) add(series, gpus_of(*layout), layout->figures.time_s);
  };
  for (const estimator::GpuCount& count : result.found.counts) {
    add(bound, count.gpus, *count.least_time_s);
    add_layout(full, count.full_clocks);
    add_layout(one, count.one_clock);
    add_layout(planned, count.planned);
  }
  add_layout(reference, result.found.reference);
  add_layout(best, result.found.best);
  Plots plots{.title = "Tokens a second by number of GPUs",
              .basis = "estimated at full clocks, otherwise planned on estimated values",
              .caption =
                  "The best layout of each number of GPUs within the facility's power. A bound is that of the "
                  "layouts before their clocks were planned. Axes span the values drawn, with or without zero.",
              .x = {"GPUs", Plots::Unit::none},
              .y = {"tokens a second", Plots::Unit::none},
              .plots = {{"", {}}}};
  for (Plots::Series* const series : {&bound, &full, &one, &planned, &reference, &best}) {
    if (!series->points.empty()) plots.plots.front().series.push_back(std::move(*series));
  }
  return plots;
}

}  // namespace

std::string power_search_text(const PowerSearchResult& result) {
  const estimator::TrainingJob& job = result.request.job;
  Table table({{"", Table::Align::left},
               {"GPUs"},
               {"clock MHz"},
               {"tokens/s"},
               {"power"},
               {"J/token"},
               {"time s"},
               {"layout", Table::Align::left}});
  for (const NamedLayout& row : compared(result.found)) table.add_row(cells_of(result, row));
  const std::string why = reasons(result.found);
  const std::string note = best_curve_note(result);
  return fmt::format(
      "{} on {} within {}, {}; global batch {} x {} tokens, stack {}\npower by clock {}\n{}. {:.2f} "
      "s\n\n{}\n{}\n{}{}{}\n",
      job.model.name, describe(job.gpu), power_text(result.facility.limit_w), overhead_text(result.facility),
      job.batch.global, job.batch.sequence_length, describe(job.stack), job.gpu.power_source, counts_text(result.found),
      result.found.search_s, table.text(), answer(result), note.empty() ? "" : "note: " + note + "\n",
      why.empty() ? "" : why + "\n", bound_sentence(result));
}

Json power_search_json(const PowerSearchResult& result) {
  const estimator::PowerSearchData& found = result.found;
  Json counts = Json::array();
  for (const estimator::GpuCount& count : found.counts) {
    counts.push_back({{"gpus", count.gpus},
                      {"bound_tokens_per_s", tokens(result.request) / *count.least_time_s},
                      {"full_clocks", row_json(result, count.full_clocks)},
                      {"one_clock", row_json(result, count.one_clock)},
                      {"planned", row_json(result, count.planned)}});
  }
  Json factors = nullptr;
  if (const auto gain = found.gain()) {
    factors = {{"total", gain->total()}, {"power", gain->power}, {"layout", gain->layout}, {"clocks", gain->clocks}};
  }
  return {{"format", "lowgear.power_search/1"},
          {"figures", "estimated at full clocks; all others planned on estimated values"},
          {"answer", answer(result)},
          {"power_w", result.facility.limit_w},
          {"gpu_overhead_w", result.facility.gpu_overhead_w},
          {"node_overhead_w", result.facility.node_overhead_w},
          {"gpu", result.request.job.gpu.name},
          {"stack", result.request.job.stack.name},
          {"least_gpus", found.least_gpus},
          {"most_gpus", found.most_gpus},
          {"layouts", found.layouts},
          {"too_large", found.too_large},
          {"planned", found.planned},
          {"search_s", found.search_s},
          {"reference", row_json(result, found.reference)},
          {"best", row_json(result, found.best)},
          {"best_at_full_clocks", row_json(result, found.best_at_full_clocks)},
          {"gain", std::move(factors)},
          {"bound_tokens_per_s", tokens(result.request) / found.least_time_s},
          {"gap", found.gap()},
          {"counts", std::move(counts)},
          {"notes", power_search_notes(result)}};
}

report::Page power_search_page(const PowerSearchResult& result, std::string command) {
  const estimator::TrainingJob& job = result.request.job;
  const estimator::PowerSearchData& found = result.found;
  report::Table table{.title = "What is compared",
                      .basis = "estimated at full clocks, otherwise planned",
                      .columns = {"", "GPUs", "Clock, MHz", "Tokens a second", "Power", "J a token",
                                  "Time of an iteration, s", "Layout"},
                      .rows = {},
                      .chosen = {}};
  for (const NamedLayout& row : compared(found)) {
    if (row.layout == &found.best) table.chosen = table.rows.size();
    table.rows.push_back(cells_of(result, row));
  }
  const double tokens_per_s = tokens(result.request) / found.best.figures.time_s;
  report::Page page{
      .lowgear_version = version(),
      .command = std::move(command),
      .title =
          fmt::format("{} on {} within {}", job.model.name, describe(job.gpu), power_text(result.facility.limit_w)),
      .headline = answer(result),
      .facts = {{"Overhead", overhead_text(result.facility)},
                {"Batch", fmt::format("{} \u00d7 {} tokens", job.batch.global, job.batch.sequence_length)},
                {"Software", describe(job.stack)},
                {"Power by clock", job.gpu.power_source},
                {"Searched", counts_text(found)}},
      .cards = {{"Tokens a second, planned", grouped(tokens_per_s),
                 fmt::format("{} for each MW of the facility",
                             grouped(tokens_per_s / result.facility.limit_w * kWattsPerMw))},
                {"At most, proven", fmt::format("{} %", signed_text(100 * found.gap(), 2)), bound_sentence(result)}},
      .warnings = power_search_notes(result),
      .plot = std::nullopt,
      .bars = {},
      .tables = {std::move(table)},
      .reading = {{"Power",
                   "Mean power of an iteration: all GPUs, with the overhead of each GPU and node. CPUs, network "
                   "and cooling count as far as the overhead states them."},
                  {"Planned",
                   "Clocks by Lowgear's planner on estimated times and energies. Nothing on this page was "
                   "measured."},
                  {"One clock", "All computations at the highest clock with which the power suffices."}}};
  if (const std::string why = reasons(found); !why.empty()) {
    page.cards.push_back(
        {"Of the gain by clocks", fmt::format("{} %", signed_text(percent_more(found.gain()->clocks), 1)), why});
  }
  page.series.push_back(picture(result));
  return page;
}

}  // namespace lowgear::cli
