#include "report/metrics/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lowgear::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Histogram, ABucketHoldsWhatIsAtMostItsBound) {
  Histogram histogram({1, 2, 4});
  for (const double value :
       {0.5, 1.0, 1.5, 4.0, 5.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    histogram.observe(value);
  }
  EXPECT_THAT(histogram.counts(), ElementsAre(2, 1, 1, 1));
  EXPECT_EQ(histogram.count(), 5U);
  EXPECT_DOUBLE_EQ(histogram.sum(), 12);
}

TEST(Histogram, BoundsGrowByAFactor) { EXPECT_THAT(geometric_bounds(0.5, 2, 4), ElementsAre(0.5, 1, 2, 4)); }

TEST(Exposition, WritesEachKindUnderItsName) {
  Exposition exposition;
  exposition.gauge("power_watts", "Power.").add({{"gpu", "0"}}, 312.5);
  exposition.counter("steps", "Steps.").add({}, 7);
  Histogram histogram({0.1, 1});
  for (const double value : {0.05, 0.5, 0.5, 2.0}) histogram.observe(value);
  exposition.histogram("step_seconds", "Time.").add({{"job", "a"}}, histogram);
  EXPECT_EQ(exposition.text(),
            "# HELP lowgear_power_watts Power.\n# TYPE lowgear_power_watts gauge\n"
            "lowgear_power_watts{gpu=\"0\"} 312.5\n"
            "# HELP lowgear_steps_total Steps.\n# TYPE lowgear_steps_total counter\nlowgear_steps_total 7\n"
            "# HELP lowgear_step_seconds Time.\n# TYPE lowgear_step_seconds histogram\n"
            "lowgear_step_seconds_count{job=\"a\"} 4\nlowgear_step_seconds_sum{job=\"a\"} 3.05\n"
            "lowgear_step_seconds_bucket{job=\"a\",le=\"0.1\"} 1\nlowgear_step_seconds_bucket{job=\"a\",le=\"1\"} 3\n"
            "lowgear_step_seconds_bucket{job=\"a\",le=\"+Inf\"} 4\n");
}

TEST(Exposition, NumbersReadBackAsTheSame) {
  Exposition exposition;
  MetricFamily& family = exposition.gauge("value", "A\\B\nof two lines, \"quoted\".");
  for (const double value : {0.1 + 0.2, 1e300, -4e-320, 0.0, 123456789012.0}) family.add({}, value);
  EXPECT_EQ(exposition.text(),
            "# HELP lowgear_value A\\\\B\\nof two lines, \"quoted\".\n# TYPE lowgear_value gauge\n"
            "lowgear_value 0.30000000000000004\nlowgear_value 1e+300\nlowgear_value -4e-320\nlowgear_value 0\n"
            "lowgear_value 123456789012\n");
}

TEST(Exposition, WhatIsNotKnownIsLeftOut) {
  Exposition exposition;
  MetricFamily& power = exposition.gauge("power_watts", "Power.");
  power.add({}, std::numeric_limits<double>::quiet_NaN());
  power.add({}, std::numeric_limits<double>::infinity());
  power.add({}, std::optional<double>());
  EXPECT_EQ(exposition.text(), "");
  power.add({}, std::optional<int>(3), 0.5);
  EXPECT_THAT(exposition.text(), HasSubstr("lowgear_power_watts 1.5\n"));
}

TEST(Exposition, LabelsMayBeAnything) {
  Exposition exposition;
  exposition.gauge("info", "Who.").add(with({{"a", "\"quoted\"\\\nof two lines"}}, "b", "\xff\xc3\xa9"), 1);
  EXPECT_THAT(exposition.text(), HasSubstr("{a=\"\\\"quoted\\\"\\\\\\nof two lines\",b=\"?\xc3\xa9\"} 1"));
  EXPECT_THAT(exposition.text(), testing::Not(HasSubstr("\xff")));
}

}  // namespace
}  // namespace lowgear::metrics
