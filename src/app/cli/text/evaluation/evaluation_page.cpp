#include "app/cli/text/evaluation/evaluation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/core/version.h"

namespace lowgear::cli {
namespace {

using evaluation::Cell;
using evaluation::CellState;
using report::SeriesPlots;

/// How many of the cells of a table are in this state.
int count_of(std::span<const Cell> cells, const std::string& table, std::optional<CellState> wanted) {
  return static_cast<int>(std::ranges::count_if(
      cells, [&](const Cell& cell) { return cell.table == table && (!wanted || state(cell) == *wanted); }));
}

std::vector<report::Card> cards(std::span<const Cell> cells) {
  std::vector<report::Card> all;
  for (const char* table : {"table 3", "table 4", "table 6", "figure 7"}) {
    all.push_back(
        {table,
         fmt::format("{} of {}", count_of(cells, table, CellState::reproduced), count_of(cells, table, std::nullopt)),
         fmt::format("cells reproduced; {} deviate, {} lack an input", count_of(cells, table, CellState::deviates),
                     count_of(cells, table, CellState::no_input))});
  }
  return all;
}

void add_bar(report::Intervals::Group& group, std::string name, std::optional<double> pct) {
  if (!pct) return;
  group.rows.push_back({.name = std::move(name),
                        .mean = pct,
                        .low = std::nullopt,
                        .high = std::nullopt,
                        .sense = report::Intervals::Sense::none,
                        .text = fmt::format("{:.2f} % saved", *pct)});
}

/// Total savings with a straggler, by pipeline.
report::Intervals figure7(std::span<const Cell> cells) {
  report::Intervals figure{
      .title = "Figure 7: saving with a straggler of 1.2, 96 microbatches",
      .basis = "published and computed",
      .caption =
          "Energy of the whole cluster against all GPUs at their highest clock. Results: from the frontier and "
          "EnvPipe's results in the folders; replanned: by Lowgear's implementation of the method; Lowgear: its "
          "own plans, replayed, each pipeline waiting for its own remaining time.",
      .groups = {}};
  std::map<std::string, report::Intervals::Group> groups;
  for (const Cell& cell : cells) {
    if (cell.table != "figure 7") continue;
    report::Intervals::Group& group = groups[fmt::format("{}, {}", cell.model, cell.gpu)];
    const std::string method = cell.column.substr(0, cell.column.find(','));
    add_bar(group, method + ", published", cell.published_pct);
    add_bar(group, method + ", results", cell.from_results_pct);
    add_bar(group, method + ", replanned", cell.replanned_pct);
    add_bar(group, "Lowgear", cell.lowgear_pct);
  }
  for (auto& [name, group] : groups) figure.groups.push_back({name, std::move(group.rows)});
  return figure;
}

SeriesPlots figure8(std::span<const evaluation::ExtrinsicCurve> curves) {
  SeriesPlots figure{
      .title = "Figure 8: what waiting for a straggler saves beyond the fastest plan",
      .basis = "planned as Perseus plans",
      .caption =
          "By the authors' formula: all pipelines but the straggler run the plan of least energy that keeps its "
          "time. The paper prints no values. Frontiers of the folders, or planned for the stage profile: see "
          "the table.",
      .x = {"straggler's slowdown", SeriesPlots::Unit::none},
      .y = {"extrinsic saving", SeriesPlots::Unit::percent},
      .plots = {}};
  for (const evaluation::ExtrinsicCurve& curve : curves) {
    std::string name = fmt::format("{}, {}", curve.run.pipeline.model, curve.run.pipeline.device);
    if (figure.plots.empty() || figure.plots.back().name != name) figure.plots.push_back({std::move(name), {}});
    SeriesPlots::Series line{fmt::format("{} microbatches", curve.run.microbatches), true, {}};
    for (const auto& point : curve.points) line.points.push_back({point.factor, point.saving_pct});
    figure.plots.back().series.push_back(std::move(line));
  }
  return figure;
}

SeriesPlots figure9(std::span<const evaluation::MeasuredPoint> points) {
  SeriesPlots figure{.title = "Figure 9: measured iterations",
                     .basis = "measured by the authors",
                     .caption =
                         "Each mark is a plan or a power limit: the mean of its iterations. Axes do not start at "
                         "zero.",
                     .x = {"iteration time", SeriesPlots::Unit::seconds},
                     .y = {"energy of all GPUs", SeriesPlots::Unit::joules},
                     .plots = {}};
  std::map<evaluation::Workload, std::map<std::string_view, SeriesPlots::Series>> workloads;
  for (const evaluation::MeasuredPoint& point : points) {
    SeriesPlots::Series& series = workloads[point.workload][point.method];
    series.name = point.method;
    series.points.push_back({point.figures.time_s, point.figures.energy_j});
  }
  for (auto& [workload, methods] : workloads) {
    SeriesPlots::PlotOfSeries plot{fmt::format("{}, {}", workload.model, workload.gpu), {}};
    for (auto& [method, series] : methods) plot.series.push_back(std::move(series));
    figure.plots.push_back(std::move(plot));
  }
  return figure;
}

report::Table peaks_table(std::span<const evaluation::ExtrinsicCurve> curves) {
  report::Table table{
      .title = "Peaks of figure 8",
      .basis = "planned as Perseus plans",
      .columns = {"pipeline", "microbatches", "frontier", "largest extrinsic saving", "at a slowdown of"},
      .rows = {},
      .chosen = std::nullopt};
  for (const evaluation::ExtrinsicCurve& curve : curves) {
    const auto& peak = *std::ranges::max_element(curve.points, {}, &evaluation::ExtrinsicCurve::Point::saving_pct);
    table.rows.push_back({fmt::format("{}, {}", curve.run.pipeline.model, curve.run.pipeline.device),
                          fmt::to_string(curve.run.microbatches), curve.from_results ? "of the folders" : "planned",
                          fmt::format("{:.2f} %", peak.saving_pct), fmt::format("{:.2f}", peak.factor)});
  }
  return table;
}

std::string cell_text(const std::optional<double>& pct) { return pct ? fmt::format("{:.2f} %", *pct) : "-"; }

report::Table cells_table(std::span<const Cell> cells) {
  report::Table table{.title = "Cells of the tables and of figure 7",
                      .basis = "published and computed",
                      .columns = {"cell", "published", "results", "replanned", "Lowgear", "state"},
                      .rows = {},
                      .chosen = std::nullopt};
  for (const Cell& cell : cells) {
    table.rows.push_back({fmt::format("{}: {}, {}, {}", cell.table, cell.gpu, cell.model, cell.column),
                          fmt::format("{:.{}f} %", cell.published_pct, cell.digits), cell_text(cell.from_results_pct),
                          cell_text(cell.replanned_pct), cell_text(cell.lowgear_pct), std::string(name(state(cell)))});
  }
  return table;
}

}  // namespace

report::EstimateReport evaluation_page(const EvaluationResults& results, std::string command) {
  report::EstimateReport page;
  page.lowgear_version = version();
  page.command = std::move(command);
  page.title = "Perseus' evaluation (SOSP'24), recomputed";
  page.facts = {{"Emulated pipelines", fmt::to_string(results.extrinsic.size())},
                {"Measured points", fmt::to_string(results.measured.size())}};
  page.cards = cards(results.cells);
  std::set<std::string> missing;
  for (const Cell& cell : results.cells) {
    if (!cell.missing.empty()) missing.insert(cell.missing);
  }
  if (!missing.empty()) {
    page.warnings.push_back(fmt::format("{} inputs are not in the folders; the command names each", missing.size()));
  }
  page.intervals = {figure7(results.cells)};
  if (!results.extrinsic.empty()) page.series.push_back(figure8(results.extrinsic));
  if (!results.measured.empty()) page.series.push_back(figure9(results.measured));
  if (!results.extrinsic.empty()) page.tables.push_back(peaks_table(results.extrinsic));
  page.tables.push_back(cells_table(results.cells));
  page.reading = {{"Published", "As the notebook of the artifact prints it."},
                  {"Results", "Computed by the authors' formulas from measured or planned results in the folders."},
                  {"Replanned", "Planned by Lowgear's implementation of the same method for the stage profile."},
                  {"Lowgear", "Lowgear's own plan for the stage profile, replayed."}};
  return page;
}

}  // namespace lowgear::cli
