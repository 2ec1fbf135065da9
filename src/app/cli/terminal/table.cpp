#include "app/cli/terminal/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "base/core/text.h"

namespace lowgear::cli {
namespace {

constexpr std::string_view kGap = "  ";

/// Characters, as a terminal counts them for the text that stands in these tables.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char byte) { return !is_utf8_continuation(byte); }));
}

}  // namespace

void Table::add_row(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = width_of(columns_[column].header);
    for (const auto& row : rows_) width = std::max(width, width_of(row[column]));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::text() const {
  const std::vector<std::size_t> width = widths();
  std::string out;
  const auto write_row = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      const std::string& cell = cell_of(column);
      const std::string blanks(width[column] - width_of(cell), ' ');
      if (column > 0) line += kGap;
      line += columns_[column].align == Align::right ? blanks + cell : cell + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  };
  write_row([&](std::size_t column) -> const std::string& { return columns_[column].header; });
  for (const auto& row : rows_) write_row([&](std::size_t column) -> const std::string& { return row[column]; });
  return out;
}

namespace {

struct Unit {
  double size;
  std::string_view name;
};

/// In the largest unit of which there is at least one; `units` largest first.
std::string in_units(double amount, std::span<const Unit> units) {
  for (const Unit& unit : units) {
    if (std::abs(amount) >= unit.size) return fmt::format("{:.4g} {}", amount / unit.size, unit.name);
  }
  return fmt::format("{:.4g} {}", amount / units.back().size, units.back().name);
}

constexpr auto kEnergy = std::to_array<Unit>({{1e9, "GJ"}, {1e6, "MJ"}, {1e3, "kJ"}, {1, "J"}});
constexpr auto kPower = std::to_array<Unit>({{1e6, "MW"}, {1e3, "kW"}, {1, "W"}});
constexpr auto kMass = std::to_array<Unit>({{1e6, "t"}, {1e3, "kg"}, {1, "g"}});

}  // namespace

std::string energy_text(double energy_j) { return in_units(energy_j, kEnergy); }
std::string power_text(double power_w) { return in_units(power_w, kPower); }
std::string mass_text(double mass_g) { return in_units(mass_g, kMass); }

int decimals(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return 0;
  return std::clamp(digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value)))), 0, 12);
}

}  // namespace lowgear::cli
