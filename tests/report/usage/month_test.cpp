#include "report/usage/month.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

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

}  // namespace
}  // namespace lowgear::usage
