#include "planning/adapt/power_cap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "base/core/error_of.h"
#include "planning/adapt/small_job.h"

namespace lowgear::adapt {
namespace {

using testing::HasSubstr;

CappedJob small_job() {
  // One clock per (stage, kind) is planned in a moment.
  return {small_schedule(),
          small_profile(),
          kSmallBlockingW,
          {{0, 0, 1}, {1, 0, 1}, {2, 1, 1}, {3, 1, 1}},
          {.granularity = planner::PlanGranularity::per_stage_kind},
          0};
}

PoweredPlan powered(const CappedJob& job, planner::PipelinePlanner& planner, double deadline_s) {
  plan::Plan plan = planner.plan(deadline_s);
  const auto traces = rank_power(plan, job.profile, job.blocking_power_w);
  PlanPower power = plan_power(traces, job.gpus, steady_phase(plan));
  return {std::move(plan), std::move(power)};
}

/// Plans of the frontier, fastest first.
std::vector<PoweredPlan> frontier_plans(const CappedJob& job, int count) {
  planner::PipelinePlanner planner(job.schedule, job.profile, job.blocking_power_w, job.planner);
  std::vector<PoweredPlan> plans;
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / (count - 1);
    plans.push_back(powered(job, planner, planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s())));
  }
  return plans;
}

TEST(Tightest, NamesTheLimitThatIsNearest) {
  PlanPower power;
  power.gpus = {{300, 200}, {350, 220}};
  power.nodes = {{4, {600, 420}}};
  power.job = {1200, 800};
  power.phase_swing_w = 90;
  EXPECT_TRUE(tightest(power, {}).fits());
  const CapUse gpu = tightest(power, {.gpu = {.peak_w = 340}, .job = {.mean_w = 900}});
  EXPECT_FALSE(gpu.fits());
  EXPECT_EQ(gpu.scope, "peak of a GPU of rank 1");
  EXPECT_EQ(gpu.power_w, 350);
  EXPECT_EQ(gpu.cap_w, 340);
  EXPECT_EQ(tightest(power, {.node = {.mean_w = 421}, .job = {.peak_w = 1300}}).scope, "mean of node 4");
  EXPECT_TRUE(tightest(power, {.phase_swing_w = 90}).fits());
  EXPECT_FALSE(tightest(power, {.phase_swing_w = 0}).fits());
}

TEST(Tightest, RefusesCapsThatMakeNoSense) {
  EXPECT_THAT(error_of([] { (void)tightest({}, {.gpu = {.peak_w = 0}}); }), HasSubstr("a peak per GPU of 0 W"));
  EXPECT_THAT(error_of([] { (void)tightest({}, {.node = {.mean_w = -5}}); }), HasSubstr("a mean per node of -5 W"));
  EXPECT_THAT(error_of([] { (void)tightest({}, {.phase_swing_w = std::numeric_limits<double>::quiet_NaN()}); }),
              HasSubstr("a swing of nan W"));
}

TEST(SearchDeadlines, FindsWhatAScanOfAllPlansFinds) {
  CappedJob job = small_job();
  job.planner.granularity = planner::PlanGranularity::per_op;
  const auto plans = frontier_plans(job, 400);
  planner::PipelinePlanner planner(job.schedule, job.profile, job.blocking_power_w, job.planner);
  const auto plan_for = [&](double deadline_s) { return powered(job, planner, deadline_s); };
  const double most_w = plans.front().power.job.mean_w;
  const double least_w = plans.back().power.job.mean_w;
  const double step_s = (planner.slowest_s() - planner.fastest_s()) / 399;
  for (const double share : {0.05, 0.3, 0.5, 0.7, 0.95}) {
    const PowerCap cap{.job = {.mean_w = most_w + share * (least_w - most_w)}};
    const PoweredPlan* scanned = fastest_within(plans, cap);
    ASSERT_NE(scanned, nullptr);
    const CapSearch found = search_deadlines(plan_for, {planner.fastest_s(), planner.slowest_s()}, cap);
    ASSERT_TRUE(found.use.fits()) << share;
    EXPECT_LE(found.plan.plan.time_s, scanned->plan.time_s + 1e-4 * scanned->plan.time_s) << share;
    EXPECT_GE(found.plan.plan.time_s, scanned->plan.time_s - 1.5 * step_s) << share;
  }
}

TEST(SearchDeadlines, GivesTheNearestWhenNoneFits) {
  const CappedJob job = small_job();
  planner::PipelinePlanner planner(job.schedule, job.profile, job.blocking_power_w, job.planner);
  const auto plan_for = [&](double deadline_s) { return powered(job, planner, deadline_s); };
  const CapSearch found =
      search_deadlines(plan_for, {planner.fastest_s(), planner.slowest_s()}, {.job = {.mean_w = 10}});
  EXPECT_FALSE(found.use.fits());
  EXPECT_NEAR(found.plan.plan.time_s, planner.slowest_s(), 0.01 * planner.slowest_s());
}

TEST(PlanWithinCap, WithoutACapItIsTheFastestPlan) {
  const CappedJob job = small_job();
  const CappedPlan capped = plan_within_cap(job, {});
  const auto plans = frontier_plans(job, 2);
  ASSERT_TRUE(capped.plan);
  EXPECT_NEAR(capped.plan->plan.time_s, plans.front().plan.time_s, 1e-9);
}

TEST(PlanWithinCap, IsNeverSlowerThanTheBestOfTheFrontier) {
  const CappedJob job = small_job();
  const auto plans = frontier_plans(job, 60);
  const PlanPower& fast = plans.front().power;
  // A mean falls as plans get slower, so that nothing is missed; a peak may fit for a moment in between.
  constexpr double kMissed = 0.01;
  const std::vector<PowerCap> caps = {{.gpu = {.peak_w = 0.9 * fast.gpus[0].peak_w}},
                                      {.gpu = {.mean_w = 0.95 * fast.gpus[3].mean_w}},
                                      {.node = {.peak_w = 0.9 * fast.nodes[0].power.peak_w}},
                                      {.node = {.mean_w = 0.95 * fast.nodes[1].power.mean_w}},
                                      {.job = {.peak_w = 0.85 * fast.job.peak_w}},
                                      {.job = {.mean_w = 0.9 * fast.job.mean_w}},
                                      {.phase_swing_w = 0.8 * fast.phase_swing_w}};
  for (std::size_t i = 0; i < caps.size(); ++i) {
    const CappedPlan capped = plan_within_cap(job, caps[i]);
    ASSERT_TRUE(capped.plan) << i << " " << capped.reason;
    EXPECT_TRUE(tightest(capped.plan->power, caps[i]).fits()) << i;
    const PoweredPlan* scanned = fastest_within(plans, caps[i]);
    if (scanned == nullptr) continue;
    const bool is_mean = caps[i].gpu.mean_w || caps[i].node.mean_w || caps[i].job.mean_w;
    EXPECT_LE(capped.plan->plan.time_s, scanned->plan.time_s * (1 + (is_mean ? 1e-4 : kMissed))) << i;
  }
}

/// Of the plans that keep a GPU's peak, none is faster than the fastest iteration with the rows that keep it.
TEST(PlanWithinCap, APeakPerGpuIsKeptExactly) {
  const CappedJob job = small_job();
  const double cap_w = 0.8 * frontier_plans(job, 2).front().power.gpus[0].peak_w;
  const CappedPlan capped = plan_within_cap(job, {.gpu = {.peak_w = cap_w}});
  planner::PipelinePlanner planner(job.schedule, within_gpu_power(job.profile, cap_w), job.blocking_power_w,
                                   job.planner);
  ASSERT_TRUE(capped.plan);
  EXPECT_NEAR(capped.plan->plan.time_s, planner.fastest_s(), 1e-9 * planner.fastest_s());
  for (const ScopePower& gpu : capped.plan->power.gpus) EXPECT_LE(gpu.peak_w, cap_w * (1 + 1e-9));
}

TEST(PlanWithinCap, GoesBelowTheMeanPowerOfThePlanOfLeastEnergy) {
  const CappedJob job = small_job();
  const double least_w = frontier_plans(job, 2).back().power.job.mean_w;
  const CappedPlan capped = plan_within_cap(job, {.job = {.mean_w = 0.97 * least_w}});
  ASSERT_TRUE(capped.plan) << capped.reason;
  EXPECT_LE(capped.plan->power.job.mean_w, 0.97 * least_w * (1 + 1e-9));
}

TEST(PlanWithinCap, IsNoFasterThanWanted) {
  CappedJob job = small_job();
  const auto plans = frontier_plans(job, 3);
  job.wanted_deadline_s = plans[1].plan.deadline_s;
  const CappedPlan capped = plan_within_cap(job, {.job = {.peak_w = 1e5}});
  ASSERT_TRUE(capped.plan);
  EXPECT_NEAR(capped.plan->plan.energy_j, plans[1].plan.energy_j, 1e-3 * plans[1].plan.energy_j);
}

TEST(PlanWithinCap, ClocksOfItsOwnForEachOpAreNoSlower) {
  CappedJob job = small_job();
  const double mean_w = frontier_plans(job, 2).front().power.job.mean_w;
  const PowerCap cap{.job = {.mean_w = 0.95 * mean_w}};
  const CappedPlan shared = plan_within_cap(job, cap);
  job.planner.granularity = planner::PlanGranularity::per_op;
  const CappedPlan own = plan_within_cap(job, cap);
  ASSERT_TRUE(shared.plan && own.plan);
  EXPECT_LE(own.plan->plan.time_s, shared.plan->plan.time_s * (1 + 1e-4));
  EXPECT_TRUE(tightest(own.plan->power, cap).fits());
}

TEST(PlanWithinCap, RefusesAJobThatDoesNotFitTogether) {
  CappedJob job = small_job();
  job.blocking_power_w.pop_back();
  EXPECT_THAT(error_of([&] { (void)plan_within_cap(job, {}); }), HasSubstr("3 blocking powers for 4 ranks"));
}

TEST(PlanWithinCap, SaysWhatTheLeastNeeds) {
  const CappedJob job = small_job();
  const CappedPlan gpu = plan_within_cap(job, {.gpu = {.peak_w = 90}});
  EXPECT_FALSE(gpu.plan);
  EXPECT_THAT(gpu.reason, HasSubstr("at its lowest profiled clock, and the cap is 90.0 W per GPU"));
  const CappedPlan total = plan_within_cap(job, {.job = {.peak_w = 400}});
  EXPECT_FALSE(total.plan);
  EXPECT_THAT(total.reason, HasSubstr("the peak of the job needs"));
  EXPECT_THAT(total.reason, HasSubstr("of 400.0 W"));
}

}  // namespace
}  // namespace lowgear::adapt
