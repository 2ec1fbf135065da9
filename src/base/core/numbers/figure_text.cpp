#include "base/core/numbers/figure_text.h"

#include <cmath>

namespace lowgear {
namespace {

double without_sign_of_zero(double value, int digits) {
  const double scale = std::pow(10, digits);
  return std::abs(value) * scale < 0.5 ? 0 : value;
}

}  // namespace

std::string fixed_text(double value, int digits) {
  return fmt::format("{:.{}f}", without_sign_of_zero(value, digits), digits);
}

std::string signed_text(double value, int digits) {
  return fmt::format("{:+.{}f}", without_sign_of_zero(value, digits), digits);
}

std::string three_digits(double value) {
  constexpr double kFourDigits = 999.5;
  return std::abs(value) < kFourDigits ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

std::string duration_text(double time_s) {
  constexpr double kMinuteS = 60;
  constexpr double kHourS = 3600;
  if (time_s < 1) return fmt::format("{:.3g} ms", time_s * 1e3);
  if (time_s < 2 * kMinuteS) return fmt::format("{:.3g} s", time_s);
  if (time_s < 2 * kHourS) return fmt::format("{:.3g} min", time_s / kMinuteS);
  return fmt::format("{:.3g} h", time_s / kHourS);
}

}  // namespace lowgear
