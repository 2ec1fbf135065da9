#pragma once

#include <string>

namespace lowgear::cli {

/// Amounts with four digits in the unit that suits them: `2.911 MJ`, `43.18 kW`, `1.2 kg`.
[[nodiscard]] std::string energy_text(double energy_j);
[[nodiscard]] std::string power_text(double power_w);
[[nodiscard]] std::string mass_text(double mass_g);

/// Digits after the point that give `value` this number of significant digits.
[[nodiscard]] int decimals(double value, int digits);

}  // namespace lowgear::cli
