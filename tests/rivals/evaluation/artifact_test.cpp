#include "rivals/evaluation/artifact.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::evaluation {

namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& json) {
  return error_of([&] { (void)window_figures(json, "3.prof.json"); });
}

TEST(Dump, KnowsItsFilesByNumber) {
  EXPECT_EQ(profile_number("37.prof.json"), 37);
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
              HasSubstr("rank 0 occurs twice"));
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
              HasSubstr("0 is not a power state"));
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
              HasSubstr("window 1 is missing: the baseline is window 0 alone"));
  const Dump none = compare_windows("d", {window(2, 1, 1)});
  EXPECT_THAT(none.note, HasSubstr("are missing"));
  EXPECT_FALSE(none.windows[0].saving_pct);
}

constexpr const char* kRun =
    R"([{"rank":0,"iter_time":[9,9,1,3],"iter_energy":[9,9,10,20]},{"rank":1,"iter_time":[9,9,2,2],"iter_energy":[9,9,1,1]}])";

TEST(Artifact, KnowsItsFilesByName) {
  EXPECT_TRUE(is_artifact_file("sosp24_data/emulation/stage_profile/bloom+a40_bf16.csv"));
  EXPECT_TRUE(is_artifact_file("data/frontier/a40/bloom_bf16_mb12.csv"));
  EXPECT_TRUE(is_artifact_file("data/envpipe_result.csv"));
  EXPECT_TRUE(is_artifact_file("zeus/A40/zeus_global.csv"));
  EXPECT_TRUE(is_artifact_file("runs/gpt3-xl_A100_pp4/12.prof.json"));
  EXPECT_TRUE(is_artifact_file("perseus/A40/dp1+pp8+tp1/merak+bloom-3b+custom:0,2+dp1+PointSolution/2.prof.json"));
  EXPECT_FALSE(is_artifact_file("zeus/raw/A40/zeus_local/merak+bloom-3b+x+PointSolution3D/2.prof.json"));
  EXPECT_FALSE(is_artifact_file("runs/gpt3-xl_A100_pp4/12.sched.json"));
  EXPECT_FALSE(is_artifact_file("runs/gpt3-xl_A100_pp4/x.prof.json"));
  EXPECT_FALSE(is_artifact_file("workloads/models_A100.csv"));
}

TEST(Artifact, ReadsRunsAsTheMeanAfterTheWarmUp) {
  Artifact artifact;
  add_file(artifact, "runs/gpt3-xl_A100_pp2/2.prof.json", kRun);
  add_file(artifact, "runs/gpt3-xl_A100_pp2/1.prof.json", "not read: a warm-up");
  add_file(artifact, "envpipe/A100/dp1/merak+gpt3-xl+custom:0,1+dp1+PointSolution/2.prof.json", kRun);
  const auto& plans = artifact.runs.at({{"A100", "gpt3-xl"}, Method::perseus});
  ASSERT_EQ(plans.size(), 1U);
  EXPECT_EQ(plans[0].number, 2);
  EXPECT_DOUBLE_EQ(plans[0].figures.time_s, 2.5);   // of (1, 2) and (3, 2) the slower rank
  EXPECT_DOUBLE_EQ(plans[0].figures.energy_j, 16);  // of both ranks
  EXPECT_TRUE(artifact.runs.contains({{"A100", "gpt3-xl"}, Method::envpipe}));
}

TEST(Artifact, RefusesWhatContradictsOrIsTooShort) {
  Artifact artifact;
  add_file(artifact, "runs/gpt3-xl_A100_pp2/2.prof.json", kRun);
  EXPECT_THROW(add_file(artifact, "other/gpt3-xl_A100_pp2/2.prof.json", kRun), InputError);
  EXPECT_THROW(
      add_file(artifact, "runs/gpt3-xl_A100_pp2/3.prof.json", R"([{"rank":0,"iter_time":[1,1],"iter_energy":[1,1]}])"),
      InputError);
  EXPECT_THROW(add_file(artifact, "frontier/a40/bloom_bf16_mb12.csv", "time,energy\n"), InputError);
}

TEST(Artifact, ReadsEnvPipesResultsOnTheScaleOfProfiles) {
  Artifact artifact;
  add_file(
      artifact, "envpipe_result.csv",
      "model,precision,device,num_microbatches,num_pipelines,iteration_time,energy\nbloom,bf16,a40,12,128,20,160\n");
  EXPECT_EQ(artifact.envpipe.at({{"bloom", "a40"}, 12}), (PipelineFigures{2, 2}));
}

TEST(Artifact, SaysWhyItsProfilesMayBeWrong) {
  Artifact artifact;
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 4; ++stage) {
    const int times = stage == 2 ? 9 : 1;
    csv += fmt::format("{0},forward,1410,{1},{2}\n{0},backward,1410,{3},{4}\n", stage, 0.05 * times, 15 * times,
                       0.1 * times, 30 * times);
  }
  add_file(artifact, "stage_profile/bloom+a40_bf16.csv", csv);
  EXPECT_EQ(artifact.profiles.size(), 1U);
  EXPECT_THAT(artifact.doubts,
              testing::Contains(testing::HasSubstr("bloom+a40_bf16.csv:6: stage 2: the forward takes 0.45 s")));
}

}  // namespace

}  // namespace lowgear::evaluation
