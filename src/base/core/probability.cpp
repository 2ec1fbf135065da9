#include "base/core/probability.h"

#include <cmath>
#include <limits>

namespace lowgear {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
/// Replaces a denominator of zero.
constexpr double kTiny = 1e-300;
constexpr int kMostTerms = 10'000;

double not_zero(double value) { return std::abs(value) < kTiny ? kTiny : value; }

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), evaluated by Lentz's method. It converges
/// fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  double c = 1;
  double d = 1 / not_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  const auto multiply = [&](double coefficient) {
    d = 1 / not_zero(1 + coefficient * d);
    c = not_zero(1 + coefficient / c);
    fraction *= c * d;
    return std::abs(c * d - 1);
  };
  for (int term = 1; term < kMostTerms; ++term) {
    const double m = term;
    multiply(m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)));
    if (multiply(-(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))) < kEpsilon) break;
  }
  return fraction;
}

/// I_x(a, b), given x and 1 - x: neither is the difference of the other from 1 where that would lose digits.
double incomplete_beta(double x, double rest, double a, double b) {
  if (x <= 0) return 0;
  if (rest <= 0) return 1;
  const double factor =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log(rest));
  if (x < (a + 1) / (a + b + 2)) return factor * beta_fraction(x, a, b) / a;
  return 1 - factor * beta_fraction(rest, b, a) / b;
}

/// The probability of a value above |t|.
double upper_tail(double t, double degrees_of_freedom) {
  const double sum = degrees_of_freedom + t * t;
  return incomplete_beta(degrees_of_freedom / sum, t * t / sum, degrees_of_freedom / 2, 0.5) / 2;
}

}  // namespace

double student_t_quantile(double probability, double degrees_of_freedom) {
  const double tail = probability < 0.5 ? probability : 1 - probability;
  double low = 0;
  double high = 1;
  while (upper_tail(high, degrees_of_freedom) > tail && high < 1e150) high *= 2;
  // Bisection ends where no double lies between.
  for (double middle = (low + high) / 2; middle > low && middle < high; middle = (low + high) / 2) {
    (upper_tail(middle, degrees_of_freedom) > tail ? low : high) = middle;
  }
  return probability < 0.5 ? -high : high;
}

}  // namespace lowgear
