#include "report/evaluation/dump.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::evaluation {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& json) {
  return error_of([&] { (void)window_figures(json, "3.prof.json"); });
}

TEST(Dump, KnowsItsFilesByNumber) {
  EXPECT_EQ(profile_number("37.prof.json"), 37);
  EXPECT_EQ(states_number("0.sched.json"), 0);
  for (const char* name : {"x.prof.json", ".prof.json", "1.prof.json.tmp", "1234567.prof.json", "1.sched.json"}) {
    EXPECT_FALSE(profile_number(name)) << name;
  }
}

/// As `total_time_and_energy` of Perseus: the mean after two iterations, of the slowest rank and of all.
TEST(Dump, WindowsAreMeansAfterTheWarmUp) {
  const PipelineFigures figures = window_figures(
      R"([{"rank":0,"iter_time":[9,9,1,3],"iter_energy":[9,9,10,20]},{"rank":1,"iter_time":[9,9,2,2],"iter_energy":[9,9,1,1]}])",
      "0.prof.json");
  EXPECT_DOUBLE_EQ(figures.time_s, 2.5);
  EXPECT_DOUBLE_EQ(figures.energy_j, 16);
}

TEST(Dump, RefusesRanksThatDoNotFitTogether) {
  EXPECT_THAT(refusal("[]"), HasSubstr("3.prof.json: $: no rank has reported"));
  EXPECT_THAT(refusal(R"([{"rank":0,"iter_time":[1,1],"iter_energy":[1,1]}])"),
              HasSubstr("2 iterations, of which the first 2 are warm-up; measure more"));
  EXPECT_THAT(refusal(R"([{"rank":0,"iter_time":[1,1,1],"iter_energy":[1,1,1]},)"
                      R"({"rank":0,"iter_time":[1,1,1],"iter_energy":[1,1,1]}])"),
              HasSubstr("rank 0 is there twice"));
  for (const char* other : {"[1,1,1,1]", "[1,1]"}) {
    EXPECT_THAT(refusal(std::string(R"([{"rank":0,"iter_time":[1,1,1],"iter_energy":[1,1,1]},{"rank":1,"iter_time":)") +
                        other + R"(,"iter_energy":[1,1,1]}])"),
                HasSubstr("iterations, where the first rank has 3"));
  }
  EXPECT_THAT(refusal(R"([{"rank":0,"iter_time":[1,1,-1],"iter_energy":[1,1,1]}])"), HasSubstr("-1 is negative"));
}

TEST(Dump, ReadsTheRangeOfPowerStates) {
  EXPECT_EQ(window_states(R"([{"rank":0,"power_states":[1410,990]},{"rank":1,"power_states":[1200]}])", "s"),
            (std::pair{990, 1410}));
  EXPECT_THAT(error_of([] { (void)window_states(R"([{"rank":0,"power_states":[0]}])", "s"); }),
              HasSubstr("0 is no power state"));
}

Window window(int number, double time_s, double energy_j, int state = 1410) {
  return {.number = number, .figures = {time_s, energy_j}, .states = {{state, state}}};
}

TEST(Dump, ComparesWithWindowsZeroAndOne) {
  const Dump dump = compare_windows("d", {window(2, 110, 900, 1200), window(1, 101, 1010), window(0, 99, 990)});
  ASSERT_TRUE(dump.baseline);
  EXPECT_DOUBLE_EQ(dump.baseline->time_s, 100);
  EXPECT_DOUBLE_EQ(dump.baseline->energy_j, 1000);
  EXPECT_EQ(dump.note, "");
  EXPECT_FALSE(dump.windows[0].saving_pct);
  EXPECT_DOUBLE_EQ(*dump.windows[2].saving_pct, 10);
  EXPECT_NEAR(*dump.windows[2].slowdown_pct, 10, 1e-12);
}

TEST(Dump, SaysWhereTheBaselineIsNotAtFullClocks) {
  EXPECT_THAT(compare_windows("d", {window(0, 1, 1), window(1, 1, 1, 1200), window(2, 1, 1)}).note,
              HasSubstr("windows 0 and 1 did not run at 1410 alone"));
  EXPECT_THAT(compare_windows("d", {window(0, 1, 1), window(2, 1, 1)}).note,
              HasSubstr("window 1 is not there: the baseline is window 0 alone"));
  const Dump none = compare_windows("d", {window(2, 1, 1)});
  EXPECT_THAT(none.note, HasSubstr("are not there"));
  EXPECT_FALSE(none.windows[0].saving_pct);
}

}  // namespace
}  // namespace lowgear::evaluation
