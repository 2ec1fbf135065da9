#include "report/evaluation/artifact.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"

namespace lowgear::evaluation {
namespace {

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
