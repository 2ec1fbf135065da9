#include "app/cli/text/evaluation/evaluation_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/cli/terminal/table.h"

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

Json measured_points_json(const evaluation::Artifact& artifact) {
  Json points = Json::array();
  const auto add = [&points](const evaluation::Workload& workload, std::string_view method, int number,
                             const evaluation::PipelineFigures& figures) {
    points.push_back({{"gpu", workload.gpu},
                      {"model", workload.model},
                      {"method", method},
                      {"number", number},
                      {"time_s", figures.time_s},
                      {"energy_j", figures.energy_j}});
  };
  for (const auto& [run, plans] : artifact.runs) {
    for (const evaluation::MeasuredPlan& plan : plans) add(run.first, name(run.second), plan.number, plan.figures);
  }
  for (const auto& [workload, rows] : artifact.zeus) {
    for (std::size_t i = 0; i < rows.global.size(); ++i) {
      add(workload, "Zeus, one limit", static_cast<int>(i), rows.global[i]);
    }
    for (std::size_t i = 0; i < rows.per_stage.size(); ++i) {
      add(workload, "Zeus, limits by stage", static_cast<int>(i), rows.per_stage[i]);
    }
  }
  return points;
}

}  // namespace lowgear::cli
