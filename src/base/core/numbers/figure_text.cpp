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

std::string duration_text(double time_s) {
  constexpr double kMsPerS = 1e3;
  return time_s < 1 ? fmt::format("{:.3g} ms", time_s * kMsPerS) : fmt::format("{:.3g} s", time_s);
}

}  // namespace lowgear
