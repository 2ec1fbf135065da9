#include "report/usage/usage_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>

#include "base/core/error_of.h"

namespace lowgear::usage {

namespace {

/// As the C library counts.
std::int64_t seconds(int year, int month) {
  std::tm time{};
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_mday = 1;
  return ::timegm(&time);
}

TEST(Month, BeginsWhereTheCalendarOfTheSystemSays) {
  for (int year = 1970; year <= 2410; ++year) {
    for (int month = 1; month <= 12; ++month) {
      const std::string name = std::to_string(year) + (month < 10 ? "-0" : "-") + std::to_string(month);
      const Month parsed = parse_month(name);
      ASSERT_EQ(parsed.from_s, seconds(year, month)) << name;
      ASSERT_EQ(parsed.to_s, seconds(year, month + 1)) << name;
    }
  }
}

TEST(Month, EndsBeforeTheNext) {
  const Month month = parse_month("2026-11");
  EXPECT_TRUE(month.has(month.from_s));
  EXPECT_TRUE(month.has(month.to_s - 1));
  EXPECT_FALSE(month.has(month.to_s));
  EXPECT_FALSE(month.has(month.from_s - 1));
}

TEST(Month, RefusesWhatIsNone) {
  for (const char* text : {"", "2026", "2026-13", "2026-00", "2026-1", "1969-12", "9999-01", "2026/11", "26-11-01",
                           "2026-11 ", "-026-11"}) {
    EXPECT_THAT(error_of([&] { (void)parse_month(text); }), testing::HasSubstr("such as 2026-11")) << text;
  }
}

using testing::HasSubstr;

UsageRow row() {
  return {.hour_s = 7200,
          .job = "j-1",
          .run = "run, with \"quotes\"",
          .name = "a\nname",
          .user = "",
          .gpu = "NVIDIA H100",
          .simulated = true,
          .iterations = 12,
          .measured_iterations = 11,
          .time_s = 1.0 / 3,
          .energy_j = 1e9 / 7,
          .energy_error_j = 0.1,
          .doubtful_energy_j = 1e9 / 9,
          .baseline_time_s = 0.3,
          .baseline_energy_j = 2e9 / 7,
          .baseline_error_j = 3};
}

std::string text_of(const UsageRow& one) { return std::string(usage_header()) + usage_line(one); }

TEST(UsageRow, ReadsBackWhatItWrites) {
  UsageRow plain = row();
  plain.name = "name";
  plain.baseline_time_s = plain.baseline_energy_j = plain.baseline_error_j = 0;
  plain.simulated = false;
  EXPECT_THAT(read_usage(text_of(plain), "usage.csv"), testing::ElementsAre(plain));
  UsageRow quoted = row();
  quoted.name = "name, with a comma";
  EXPECT_THAT(read_usage(text_of(quoted) + usage_line(plain), "usage.csv"), testing::ElementsAre(quoted, plain));
  EXPECT_TRUE(read_usage(usage_header(), "usage.csv").empty());
}

TEST(UsageRow, NamesWhatIsWrong) {
  const auto refusal = [](auto alter) {
    UsageRow one = row();
    one.name = "n";
    one.run = "r";
    alter(one);
    return error_of([&] { (void)read_usage(text_of(one), "usage.csv"); });
  };
  EXPECT_THAT(refusal([](UsageRow& one) { one.hour_s = 7201; }), HasSubstr("usage.csv:2:1: hour_s"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.doubtful_energy_j = 2 * one.energy_j; }),
              HasSubstr("doubtful_energy_j is more than energy_j"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.energy_j = -1; }), HasSubstr("energy_j is negative"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.energy_error_j = -1; }), HasSubstr("energy_error_j is negative"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.energy_error_j = 1e6 * one.energy_j; }),
              HasSubstr("energy_error_j is many times the energy itself"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.baseline_error_j = 1e6 * one.baseline_energy_j; }),
              HasSubstr("baseline_error_j is many times the energy itself"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.iterations = -1; }), HasSubstr("iterations is negative"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.measured_iterations = 13; }), HasSubstr("more than iterations"));
  EXPECT_THAT(refusal([](UsageRow& one) { one.baseline_time_s = 0; }), HasSubstr("lacks its time"));
  const std::string header(usage_header());
  EXPECT_THAT(error_of([&] { (void)read_usage("job\nj-1\n", "usage.csv"); }), HasSubstr("hour_s"));
  EXPECT_THAT(error_of([&] { (void)read_usage(header + "0,j,r,n,u,g,maybe,1,1,1,1,0,0,,,\n", "usage.csv"); }),
              HasSubstr("neither true nor false"));
  EXPECT_THAT(error_of([&] { (void)read_usage(header + "0,j,r,n,u,g,true,1,1,1,1,0,0,1,1,\n", "usage.csv"); }),
              HasSubstr("lacks its time or its error"));
  EXPECT_THAT(error_of([&] { (void)read_usage(header + "0,j,r,n,u,g,true,1,1,1,nan,0,0,,,\n", "usage.csv"); }),
              HasSubstr("finite"));
}

}  // namespace

}  // namespace lowgear::usage
