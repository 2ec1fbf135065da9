/// Lowgear's plans on the profiles that the authors of Perseus published (SOSP'24 artifact). Skipped where these are
/// absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "planning/planner/planners/pipeline_planner.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/perseus/perseus_policy.h"
#include "rivals/policies/published_profile.h"

namespace lowgear::policies {
namespace {

constexpr int kGpt3Stages = 8;

struct PublishedPlan {
  std::string name;
  PublishedPipeline pipeline;
  int microbatches = 0;
  double max_gap_pct = 0;

  friend std::ostream& operator<<(std::ostream& out, const PublishedPlan& plan) { return out << plan.name; }
};

class PublishedPlans : public testing::TestWithParam<PublishedPlan> {
 protected:
  void SetUp() override {
    if (!published_data_present()) GTEST_SKIP() << kNoPublishedData;
  }

  [[nodiscard]] static planner::PipelinePlanner planner() {
    const auto& [name, pipeline, microbatches, max_gap_pct] = GetParam();
    const std::vector<double> blocking_power_w(kGpt3Stages, pipeline.blocking_power_w);
    return {schedule::one_f_one_b_schedule(kGpt3Stages, microbatches), pipeline.read(), blocking_power_w, {}};
  }
};

TEST_P(PublishedPlans, HaveASmallCertifiedGap) {
  constexpr int kDeadlines = 10;
  planner::PipelinePlanner planner = PublishedPlans::planner();
  double worst_pct = 0;
  for (int k = 0; k < kDeadlines; ++k) {
    const double share = static_cast<double>(k) / (kDeadlines - 1);
    const double deadline_s = planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s());
    const plan::Plan plan = planner.plan(deadline_s);
    EXPECT_LE(plan.time_s, deadline_s * (1 + 1e-12));
    EXPECT_GE(plan.gap_pct().value(), -1e-9);
    worst_pct = std::max(worst_pct, plan.gap_pct().value());
  }
  EXPECT_LT(worst_pct, GetParam().max_gap_pct);
}

TEST_P(PublishedPlans, UseNoMoreThanThoseOfPerseusInTheSameReplayedTime) {
  constexpr int kPoints = 6;
  const auto& [name, pipeline, microbatches, max_gap_pct] = GetParam();
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(kGpt3Stages, microbatches), pipeline.read(),
                                      pipeline.blocking_power_w);
  const PerseusModel perseus(sample.problem(), pipeline.unit_s);
  const double cheapest_s = perseus.solve(std::numeric_limits<double>::infinity()).time_s;
  planner::PipelinePlanner planner = PublishedPlans::planner();
  for (int k = 0; k < kPoints; ++k) {
    const double share = static_cast<double>(k) / (kPoints - 1);
    const double deadline_s = perseus.fastest_s() + share * (cheapest_s - perseus.fastest_s()) + pipeline.unit_s / 2;
    const simulator::Timeline theirs = replay_clocks(sample.problem(), perseus.clocks_mhz(perseus.solve(deadline_s)));
    const plan::Plan plan = planner.plan(theirs.time_s);
    const simulator::Timeline ours = replay_clocks(sample.problem(), clocks_for(plan, sample.dag()));
    EXPECT_LE(ours.time_s, theirs.time_s * (1 + 1e-12)) << "point " << k;
    EXPECT_LE(ours.energy_j_total, theirs.energy_j_total * (1 + 1e-12)) << "point " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Planner, PublishedPlans,
                         testing::Values(PublishedPlan{"Gpt3OnA100With12Microbatches", kGpt3OnA100, 12, 0.25},
                                         PublishedPlan{"Gpt3OnA100With24Microbatches", kGpt3OnA100, 24, 0.25},
                                         PublishedPlan{"BloomOnA40With12Microbatches", kBloomOnA40, 12, 0.6},
                                         PublishedPlan{"BloomOnA40With24Microbatches", kBloomOnA40, 24, 0.6}),
                         [](const auto& plan) { return plan.param.name; });

}  // namespace
}  // namespace lowgear::policies
