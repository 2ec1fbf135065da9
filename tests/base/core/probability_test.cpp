#include "base/core/probability.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace lowgear {
namespace {

/// Tables of the distribution (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2), to three digits.
TEST(StudentT, AgreesWithThePublishedTable) {
  struct Row {
    double degrees_of_freedom;
    double at_0_9;
    double at_0_975;
    double at_0_995;
  };
  for (const Row& row : {Row{1, 3.078, 12.706, 63.657}, Row{2, 1.886, 4.303, 9.925}, Row{4, 1.533, 2.776, 4.604},
                         Row{9, 1.383, 2.262, 3.250}, Row{29, 1.311, 2.045, 2.756}, Row{100, 1.290, 1.984, 2.626}}) {
    EXPECT_NEAR(student_t_quantile(0.9, row.degrees_of_freedom), row.at_0_9, 5.01e-4);
    EXPECT_NEAR(student_t_quantile(0.975, row.degrees_of_freedom), row.at_0_975, 5.01e-4);
    EXPECT_NEAR(student_t_quantile(0.995, row.degrees_of_freedom), row.at_0_995, 5.01e-4);
  }
}

TEST(StudentT, AgreesWithTheClosedFormsOfOneAndTwoDegreesOfFreedom) {
  for (const double p : {0.001, 0.025, 0.3, 0.49, 0.6, 0.9, 0.975, 0.9999}) {
    const double one = std::tan(std::numbers::pi * (p - 0.5));
    const double u = 2 * p - 1;
    const double two = u * std::sqrt(2 / (1 - u * u));
    EXPECT_NEAR(student_t_quantile(p, 1), one, 1e-10 * std::abs(one)) << p;
    EXPECT_NEAR(student_t_quantile(p, 2), two, 1e-10 * std::abs(two)) << p;
  }
  EXPECT_NEAR(student_t_quantile(0.5, 3), 0, 1e-12);
}

/// The density integrated by Simpson's rule.
double integrated(double t, double degrees_of_freedom) {
  const auto density = [=](double x) {
    return std::exp(std::lgamma((degrees_of_freedom + 1) / 2) - std::lgamma(degrees_of_freedom / 2)) /
           std::sqrt(degrees_of_freedom * std::numbers::pi) *
           std::pow(1 + x * x / degrees_of_freedom, -(degrees_of_freedom + 1) / 2);
  };
  constexpr int kIntervals = 20'000;
  const double width = t / kIntervals;
  double sum = density(0) + density(t);
  for (int i = 1; i < kIntervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(i * width);
  return 0.5 + sum * width / 3;
}

TEST(StudentT, AgreesWithTheIntegralOfTheDensity) {
  for (const double degrees_of_freedom : {0.7, 1.0, 2.5, 3.0, 17.776, 40.0, 1000.0}) {
    for (const double t : {0.01, 0.5, 1.0, 2.0, 5.0}) {
      const double probability = integrated(t, degrees_of_freedom);
      EXPECT_NEAR(student_t_quantile(probability, degrees_of_freedom), t, 1e-5 * t) << t << ' ' << degrees_of_freedom;
      EXPECT_NEAR(student_t_quantile(1 - probability, degrees_of_freedom), -t, 1e-5 * t);
    }
  }
}

TEST(StudentT, IsNormalForManyDegreesOfFreedom) { EXPECT_NEAR(student_t_quantile(0.975, 1e7), 1.959964, 1e-5); }

}  // namespace
}  // namespace lowgear
