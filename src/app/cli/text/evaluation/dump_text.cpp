#include "app/cli/text/evaluation/dump_text.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "app/cli/terminal/table.h"
#include "base/core/error.h"

namespace lowgear::cli {
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

}  // namespace lowgear::cli
