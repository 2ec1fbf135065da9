#include "app/cli/text/composed_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/cli/terminal/table.h"

namespace lowgear::cli {
namespace {

constexpr std::size_t kMostRows = 40;

}  // namespace

std::string composed_table(const profile::ComposedProfile& composed) {
  Table table({{"stage"},
               {"instruction", Table::Align::left},
               {"MHz"},
               {"parts"},
               {"combinations"},
               {"on hull"},
               {"options"},
               {"above hull"},
               {"largest step"}});
  for (const profile::ComposedCell& row : composed.cells) {
    if (&row - composed.cells.data() == kMostRows) break;
    table.add_row({fmt::to_string(row.cell.stage), std::string(name(row.cell.kind)), fmt::to_string(row.cell.clock_mhz),
                   fmt::to_string(row.parts), fmt::format("{:.4g}", row.combinations), fmt::to_string(row.vertices),
                   fmt::to_string(row.options), fmt::format("{:.3f} %", 100 * row.gap.thinned),
                   fmt::format("{:.3f} %", 100 * row.gap.step)});
  }
  std::string text = table.text();
  if (composed.cells.size() > kMostRows) text += fmt::format("and {} rows more\n", composed.cells.size() - kMostRows);
  return text;
}

Json composed_json(const profile::ComposedProfile& composed) {
  Json rows = Json::array();
  for (const profile::ComposedCell& row : composed.cells) {
    rows.push_back({{"stage", row.cell.stage},
                    {"instruction", name(row.cell.kind)},
                    {"frequency", row.cell.clock_mhz},
                    {"parts", row.parts},
                    {"combinations", row.combinations},
                    {"hull_options", row.vertices},
                    {"options", row.options},
                    {"above_hull_pct", 100 * row.gap.thinned},
                    {"largest_step_pct", 100 * row.gap.step}});
  }
  return {{"cells", std::move(rows)}};
}

}  // namespace lowgear::cli
