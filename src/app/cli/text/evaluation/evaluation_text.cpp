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

}  // namespace lowgear::cli
