#include "report/evaluation/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planning/simulator/shared_data.h"

namespace lowgear::evaluation {
namespace {

const ExtrinsicCurve::Point& peak_of(const ExtrinsicCurve& curve) {
  return *std::ranges::max_element(curve.points, {}, &ExtrinsicCurve::Point::saving_pct);
}

TEST(Figure8, IsComputedFromTheFrontierByTheFormulaOfTheAuthors) {
  Artifact artifact;
  std::string profile = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 8; ++stage) {
    for (const char* kind : {"forward", "backward"}) {
      profile += std::to_string(stage) + "," + kind + ",1410,0.05,20\n" + std::to_string(stage) + "," + kind +
                 ",1000,0.06,18\n";
    }
  }
  add_file(artifact, "stage_profile/gpt3-175b+a100_sxm_bf16.csv", profile);
  add_file(artifact, "iteration_time_energy/a100_sxm/gpt3-175b_bf16_mb48.csv", "time,energy\n2.2,8000\n2,9000\n");
  const auto curves = extrinsic_curves(artifact);
  ASSERT_EQ(curves.size(), 4U) << "12, 24, 48 and 96 microbatches";
  EXPECT_FALSE(curves[0].from_results);
  const ExtrinsicCurve& curve = curves[2];
  EXPECT_TRUE(curve.from_results);
  EXPECT_EQ(curve.run.microbatches, 48);
  ASSERT_EQ(curve.points.size(), 51U);
  EXPECT_NEAR(curve.points[0].saving_pct, 0, 1e-9) << "no straggler";
  // 32 pipelines of 8 GPUs, 31 of which wait at 83.64 W until 2.4 s: the slower plan and 0.2 s against 0.4 s.
  const double power_w = 8 * 83.64;
  const double all_fast_j = 1.2 * 9000 + 31 * (9000 + 0.4 * power_w);
  const double planned_j = 1.2 * 9000 + 31 * (8000 + 0.2 * power_w);
  EXPECT_NEAR(curve.points[20].factor, 1.2, 1e-12);
  EXPECT_NEAR(curve.points[20].saving_pct, 100 * (1 - planned_j / all_fast_j), 1e-9);
}

TEST(Figure8, HasTheHighestPointsOfThePublishedFrontiers) {
  const std::string profile = "perseus/stage_profile/gpt3-175b+a100_sxm_bf16.csv";
  const std::string frontier = "perseus/frontier/a100_sxm/gpt3-175b_bf16_mb24.csv";
  const auto profile_text = simulator::read_shared(profile);
  const auto frontier_text = simulator::read_shared(frontier);
  if (!profile_text || !frontier_text) GTEST_SKIP() << simulator::kNoSharedData;
  Artifact artifact;
  add_file(artifact, profile, *profile_text);
  add_file(artifact, frontier, *frontier_text);
  const auto curves = extrinsic_curves(artifact);
  ASSERT_EQ(curves.size(), 4U);
  EXPECT_TRUE(curves[1].from_results);
  EXPECT_NEAR(peak_of(curves[1]).saving_pct, 15.1, 0.05);
  EXPECT_NEAR(peak_of(curves[1]).factor, 1.14, 0.0101);
  EXPECT_FALSE(curves[2].from_results);
  EXPECT_NEAR(peak_of(curves[2]).saving_pct, 16.3, 0.05);
}

TEST(Figure8, NeedsAStageProfile) {
  Artifact artifact;
  add_file(artifact, "iteration_time_energy/a100_sxm/gpt3-175b_bf16_mb48.csv", "time,energy\n2.2,8000\n2,9000\n");
  EXPECT_TRUE(extrinsic_curves(artifact).empty());
}

TEST(Figure9, HasPlansAndPowerLimits) {
  Artifact artifact;
  add_file(artifact, "zeus/A100/zeus_global.csv", "model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000\n");
  add_file(artifact, "runs/gpt3-xl_A100/2.prof.json", R"([{"rank":0,"iter_time":[1,1,120],"iter_energy":[1,1,800]}])");
  const auto points = measured_points(artifact);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].method, "Perseus");
  EXPECT_EQ(points[0].number, 2);
  EXPECT_EQ(points[0].figures, (PipelineFigures{120, 800}));
  EXPECT_EQ(points[1].method, "Zeus, one limit");
  EXPECT_EQ(points[1].workload.model, "gpt3-xl");
}

}  // namespace
}  // namespace lowgear::evaluation
