#include "app/cli/terminal/amount_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace lowgear::cli {
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
