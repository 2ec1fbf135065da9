#include "app/cli/text/evaluation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/terminal/table.h"
#include "base/core/error.h"
#include "base/core/version.h"

namespace lowgear::cli {
namespace {

using evaluation::Cell;
using evaluation::CellState;

/// Cells of one published table, by state.
struct Count {
  std::string table;
  std::array<int, 3> by_state{};

  [[nodiscard]] int of(CellState state) const { return by_state.at(static_cast<std::size_t>(state)); }
  [[nodiscard]] int all() const { return by_state[0] + by_state[1] + by_state[2]; }
};

std::vector<Count> counts_of(std::span<const Cell> cells) {
  std::vector<Count> counts;
  for (const Cell& cell : cells) {
    if (counts.empty() || counts.back().table != cell.table) counts.push_back({.table = cell.table});
    ++counts.back().by_state.at(static_cast<std::size_t>(state(cell)));
  }
  return counts;
}

std::string percent(const std::optional<double>& pct) { return pct ? fmt::format("{:.2f}", *pct) : "-"; }

std::string counts_text(const std::vector<Count>& counts) {
  std::string text;
  for (const Count& count : counts) {
    text += fmt::format("{}: {} of {} cells reproduced", count.table, count.of(CellState::reproduced), count.all());
    if (const int deviating = count.of(CellState::deviates); deviating > 0)
      text += fmt::format(", {} deviate", deviating);
    if (const int absent = count.of(CellState::no_input); absent > 0) text += fmt::format(", {} lack an input", absent);
    text += '\n';
  }
  return text;
}

std::string missing_text(std::span<const Cell> cells) {
  std::set<std::string> missing;
  for (const Cell& cell : cells) {
    if (!cell.missing.empty()) missing.insert(cell.missing);
  }
  std::string text;
  for (const std::string& input : missing) text += fmt::format("not in the folders: {}\n", input);
  return text;
}

}  // namespace

std::string evaluation_text(std::span<const Cell> cells) {
  Table table({{"", Table::Align::left},
               {"GPU", Table::Align::left},
               {"model", Table::Align::left},
               {"cell", Table::Align::left},
               {"published"},
               {"results"},
               {"replanned"},
               {"lowgear"},
               {"", Table::Align::left}});
  for (const Cell& cell : cells) {
    table.add_row({cell.table, cell.gpu, cell.model, cell.column,
                   fmt::format("{:.{}f}", cell.published_pct, cell.digits), percent(cell.from_results_pct),
                   percent(cell.replanned_pct), percent(cell.lowgear_pct), std::string(name(state(cell)))});
  }
  return table.text() + '\n' + missing_text(cells) + '\n' + counts_text(counts_of(cells)) +
         "\nAll figures in per cent, published ones of Perseus (SOSP'24). results: computed from measured or planned "
         "results in\nthe folders; replanned: planned by Lowgear's implementation of the same method for the stage "
         "profile; "
         "lowgear:\nLowgear's own plan, replayed.\n";
}

Json evaluation_json(std::span<const Cell> cells) {
  Json rows = Json::array();
  for (const Cell& cell : cells) {
    rows.push_back({{"table", cell.table},
                    {"gpu", cell.gpu},
                    {"model", cell.model},
                    {"cell", cell.column},
                    {"published_pct", cell.published_pct},
                    {"from_results_pct", or_null(cell.from_results_pct)},
                    {"replanned_pct", or_null(cell.replanned_pct)},
                    {"lowgear_pct", or_null(cell.lowgear_pct)},
                    {"state", name(state(cell))},
                    {"missing", cell.missing.empty() ? Json(nullptr) : Json(cell.missing)}});
  }
  Json counts = Json::array();
  for (const Count& count : counts_of(cells)) {
    counts.push_back({{"table", count.table},
                      {"cells", count.all()},
                      {"reproduced", count.of(CellState::reproduced)},
                      {"deviate", count.of(CellState::deviates)},
                      {"no_input", count.of(CellState::no_input)}});
  }
  return {{"tables", counts}, {"cells", rows}};
}

Json extrinsic_curves_json(std::span<const evaluation::ExtrinsicCurve> curves) {
  Json json = Json::array();
  for (const evaluation::ExtrinsicCurve& curve : curves) {
    Json points = Json::array();
    for (const auto& point : curve.points) {
      points.push_back({{"factor", point.factor}, {"saving_pct", point.saving_pct}});
    }
    json.push_back({{"gpu", curve.run.pipeline.device},
                    {"model", curve.run.pipeline.model},
                    {"microbatches", curve.run.microbatches},
                    {"from_results", curve.from_results},
                    {"points", std::move(points)}});
  }
  return json;
}

Json measured_points_json(std::span<const evaluation::MeasuredPoint> points) {
  Json json = Json::array();
  for (const evaluation::MeasuredPoint& point : points) {
    json.push_back({{"gpu", point.workload.gpu},
                    {"model", point.workload.model},
                    {"method", point.method},
                    {"number", point.number},
                    {"time_s", point.figures.time_s},
                    {"energy_j", point.figures.energy_j}});
  }
  return json;
}

namespace {

std::string states_text(const std::optional<std::pair<int, int>>& states) {
  if (!states) return "-";
  if (states->first == states->second) return fmt::to_string(states->first);
  return fmt::format("{}-{}", states->first, states->second);
}

std::string percent_text(const std::optional<double>& pct) { return pct ? fmt::format("{:.2f}", *pct) : "-"; }

std::string baseline_text(const evaluation::Dump& dump) {
  if (!dump.baseline) return "no baseline";
  return fmt::format("baseline {:.4f} s, {:.1f} J{}", dump.baseline->time_s, dump.baseline->energy_j,
                     dump.note.empty() ? " (windows 0 and 1)" : "");
}

std::string dump_text(const evaluation::Dump& dump) {
  Table table({{"window"}, {"power states"}, {"time, s"}, {"energy, J"}, {"saving, %"}, {"slowdown, %"}});
  for (const evaluation::Window& window : dump.windows) {
    table.add_row({fmt::to_string(window.number), states_text(window.states),
                   fmt::format("{:.4f}", window.figures.time_s), fmt::format("{:.1f}", window.figures.energy_j),
                   percent_text(window.saving_pct), percent_text(window.slowdown_pct)});
  }
  return fmt::format("{}: {} windows, {}\n{}", printable(dump.folder), dump.windows.size(), baseline_text(dump),
                     table.text());
}

}  // namespace

std::string dumps_text(std::span<const evaluation::Dump> dumps) {
  std::string text;
  for (const evaluation::Dump& dump : dumps) text += dump_text(dump) + '\n';
  return text +
         "Measured, per iteration, the first two of each window left out: time of the slowest rank, energy of all "
         "ranks.\n";
}

Json dumps_json(std::span<const evaluation::Dump> dumps) {
  Json json = Json::array();
  for (const evaluation::Dump& dump : dumps) {
    Json windows = Json::array();
    for (const evaluation::Window& window : dump.windows) {
      windows.push_back({{"window", window.number},
                         {"lowest_state", window.states ? Json(window.states->first) : Json()},
                         {"highest_state", window.states ? Json(window.states->second) : Json()},
                         {"time_s", window.figures.time_s},
                         {"energy_j", window.figures.energy_j},
                         {"saving_pct", or_null(window.saving_pct)},
                         {"slowdown_pct", or_null(window.slowdown_pct)}});
    }
    json.push_back(
        {{"folder", dump.folder},
         {"baseline",
          dump.baseline ? Json{{"time_s", dump.baseline->time_s}, {"energy_j", dump.baseline->energy_j}} : Json()},
         {"note", dump.note.empty() ? Json() : Json(dump.note)},
         {"windows", std::move(windows)}});
  }
  return json;
}

namespace {

using report::SeriesPlots;

/// How many of the cells of a table are in this state.
int count_of(std::span<const Cell> cells, const std::string& table, std::optional<CellState> wanted) {
  return static_cast<int>(std::ranges::count_if(
      cells, [&](const Cell& cell) { return cell.table == table && (!wanted || state(cell) == *wanted); }));
}

/// "19 of 184 cells", with how many of these agree.
report::Card summary(std::span<const Cell> cells) {
  const auto in_state = [&](CellState wanted) {
    return std::ranges::count_if(cells, [&](const Cell& cell) { return state(cell) == wanted; });
  };
  const auto agreeing = in_state(CellState::reproduced);
  const auto checked = agreeing + in_state(CellState::deviates);
  return {"Can be checked with this data", fmt::format("{} of {} cells", checked, cells.size()),
          checked == 0 ? "no cell has its input"
          : agreeing == checked
              ? "all agree with the published figures"
              : fmt::format("{} agree with the published figures, {} deviate", agreeing, checked - agreeing)};
}

std::vector<report::Card> cards(std::span<const Cell> cells) {
  std::vector<report::Card> all{summary(cells)};
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

report::Page evaluation_page(const EvaluationResults& results, std::string command) {
  report::Page page;
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
