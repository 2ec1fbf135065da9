#include "planning/api/power/power_cap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/core/error_of.h"
#include "planning/api/small_job.h"
#include "planning/planner/policies/clock_choice.h"

namespace lowgear::api {
namespace {

using testing::HasSubstr;

/// A pipeline, and what its plans are made with: one clock per (stage, kind) is planned in a moment.
struct SmallJob {
  schedule::Schedule schedule = small_schedule();
  schedule::PipelineDag dag = build_dag(schedule);
  profile::StageProfile profile = small_profile();
  std::vector<double> blocking_power_w = kSmallBlockingW;
  CapConditions conditions{.gpus = {{0, 0, 1}, {1, 0, 1}, {2, 1, 1}, {3, 1, 1}},
                           .planner = {.granularity = planner::PlanGranularity::per_stage_kind}};

  [[nodiscard]] planner::PipelinePlanner solved() const {
    return {schedule, profile, blocking_power_w, conditions.planner};
  }
  [[nodiscard]] CappedPlan within(const PowerCap& cap) const {
    return plan_within_cap({&schedule, &dag, &profile, blocking_power_w}, conditions, cap);
  }
};

PoweredPlan powered(const SmallJob& job, planner::PipelinePlanner& planner, double deadline_s) {
  plan::Plan plan = planner.plan(deadline_s);
  const auto traces = rank_power(plan, job.profile, job.blocking_power_w);
  PlanPower power = plan_power(traces, job.conditions.gpus, steady_phase(plan));
  return {std::move(plan), std::move(power)};
}

/// Plans of the frontier, fastest first.
std::vector<PoweredPlan> frontier_plans(const SmallJob& job, int count) {
  planner::PipelinePlanner planner = job.solved();
  std::vector<PoweredPlan> plans;
  for (int i = 0; i < count; ++i) {
    const double share = static_cast<double>(i) / (count - 1);
    plans.push_back(powered(job, planner, planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s())));
  }
  return plans;
}

/// The fastest of the plans within the cap; null when none is.
const PoweredPlan* fastest_within(std::span<const PoweredPlan> plans, const PowerCap& cap) {
  const PoweredPlan* best = nullptr;
  for (const PoweredPlan& candidate : plans) {
    if (best != nullptr && candidate.plan.time_s >= best->plan.time_s) continue;
    if (tightest(candidate.power, cap).fits()) best = &candidate;
  }
  return best;
}

TEST(Tightest, NamesTheLimitThatIsNearest) {
  PlanPower power;
  power.gpus = {{300, 200}, {350, 220}};
  power.nodes = {{4, {600, 420}}};
  power.job = {1200, 800};
  power.phase_swing_w = 90;
  EXPECT_TRUE(tightest(power, {}).fits());
  const CapUse gpu = tightest(power, {.watts = 340});
  EXPECT_FALSE(gpu.fits());
  EXPECT_EQ(gpu.scope, "peak of a GPU of rank 1");
  EXPECT_EQ(gpu.power_w, 350);
  EXPECT_EQ(gpu.cap_w, 340);
  EXPECT_EQ(tightest(power, {.scope = CapScope::node, .watts = 601, .swing_w = 100}).scope, "peak of node 4");
  EXPECT_EQ(tightest(power, {.scope = CapScope::job, .watts = 1300, .swing_w = 91}).scope,
            "swing of the job between phases");
  EXPECT_TRUE(tightest(power, {.swing_w = 90}).fits());
  EXPECT_FALSE(tightest(power, {.swing_w = 0}).fits());
}

TEST(Tightest, RefusesCapsThatMakeNoSense) {
  EXPECT_THAT(error_of([] { (void)tightest({}, {.watts = 0}); }), HasSubstr("0 W per GPU; it must be above 0"));
  EXPECT_THAT(error_of([] { (void)tightest({}, {.scope = CapScope::node, .watts = -5}); }), HasSubstr("-5 W per node"));
  EXPECT_THAT(error_of([] { (void)tightest({}, {.swing_w = std::numeric_limits<double>::quiet_NaN()}); }),
              HasSubstr("a swing of nan W"));
}

TEST(DescribePowerCap, SaysItInWords) {
  EXPECT_EQ(describe(std::nullopt), "no power cap");
  EXPECT_EQ(describe(PowerCap{.scope = CapScope::node, .watts = 300, .swing_w = 20}),
            "at most 300 W per node, at most 20 W between phases");
  EXPECT_EQ(describe(PowerCap{.watts = 300}), "at most 300 W per GPU");
}

TEST(ShareOfACap, IsOfNodesAndTheJobAndNotOfAGpu) {
  EXPECT_EQ(share_of({.watts = 300, .swing_w = 20}, 0.5), (PowerCap{.watts = 300, .swing_w = 10}));
  EXPECT_EQ(share_of({.scope = CapScope::job, .watts = 300}, 0.5), (PowerCap{.scope = CapScope::job, .watts = 150}));
  EXPECT_EQ(cap_scope("node"), CapScope::node);
  EXPECT_FALSE(cap_scope("rack"));
}

TEST(SearchDeadlines, FindsWhatAScanOfAllPlansFinds) {
  SmallJob job;
  job.conditions.planner.granularity = planner::PlanGranularity::per_op;
  const auto plans = frontier_plans(job, 400);
  planner::PipelinePlanner planner = job.solved();
  const auto plan_for = [&](double deadline_s) { return powered(job, planner, deadline_s); };
  const double most_w = plans.front().power.job.peak_w;
  const double least_w = plans.back().power.job.peak_w;
  for (const double share : {0.05, 0.3, 0.5, 0.7, 0.95}) {
    const PowerCap cap{.scope = CapScope::job, .watts = most_w + share * (least_w - most_w)};
    const PoweredPlan* scanned = fastest_within(plans, cap);
    ASSERT_NE(scanned, nullptr);
    const CapSearch found = search_deadlines(plan_for, {planner.fastest_s(), planner.slowest_s()}, cap);
    ASSERT_TRUE(found.use.fits()) << share;
    // A peak may fit for a moment that one of the two steps over.
    EXPECT_NEAR(found.plan.plan.time_s, scanned->plan.time_s, 0.05 * scanned->plan.time_s) << share;
  }
}

TEST(SearchDeadlines, GivesTheNearestWhenNoneFits) {
  const SmallJob job;
  planner::PipelinePlanner planner = job.solved();
  const auto plan_for = [&](double deadline_s) { return powered(job, planner, deadline_s); };
  const PowerCap cap{.scope = CapScope::job, .watts = 10};
  const CapSearch found = search_deadlines(plan_for, {planner.fastest_s(), planner.slowest_s()}, cap);
  EXPECT_FALSE(found.use.fits());
  const auto plans = frontier_plans(job, 64);
  const double least_w =
      std::ranges::min(plans, {}, [](const PoweredPlan& plan) { return plan.power.job.peak_w; }).power.job.peak_w;
  EXPECT_NEAR(found.use.power_w, least_w, 1e-6 * least_w);
}

TEST(PlanWithinCap, WithoutACapItIsTheFastestPlan) {
  const SmallJob job;
  const CappedPlan capped = job.within({});
  const auto plans = frontier_plans(job, 2);
  ASSERT_TRUE(capped.plan);
  EXPECT_NEAR(capped.plan->plan.time_s, plans.front().plan.time_s, 1e-9);
}

TEST(PlanWithinCap, IsNeverSlowerThanTheBestOfTheFrontier) {
  const SmallJob job;
  const auto plans = frontier_plans(job, 60);
  const PlanPower& fast = plans.front().power;
  // A peak may fit for a moment between two of the plans.
  constexpr double kMissed = 0.01;
  const std::vector<PowerCap> caps = {{.watts = 0.9 * fast.gpus[0].peak_w},
                                      {.scope = CapScope::node, .watts = 0.9 * fast.nodes[0].power.peak_w},
                                      {.scope = CapScope::job, .watts = 0.85 * fast.job.peak_w},
                                      {.swing_w = 0.8 * fast.phase_swing_w}};
  for (std::size_t i = 0; i < caps.size(); ++i) {
    const CappedPlan capped = job.within(caps[i]);
    ASSERT_TRUE(capped.plan) << i << " " << capped.reason;
    EXPECT_TRUE(tightest(capped.plan->power, caps[i]).fits()) << i;
    const PoweredPlan* scanned = fastest_within(plans, caps[i]);
    if (scanned == nullptr) continue;
    EXPECT_LE(capped.plan->plan.time_s, scanned->plan.time_s * (1 + kMissed)) << i;
  }
}

TEST(PlanWithinCap, IsNeverSlowerThanOneClockForAllOps) {
  const SmallJob job;
  const planner::PlanningProblem problem{&job.schedule, &job.dag, &job.profile, job.blocking_power_w};
  for (const profile::Measurement& row : job.profile.measurements(0, OpKind::forward)) {
    const std::vector<int> clocks_mhz(job.dag.ops.size(), row.clock_mhz);
    const plan::Plan plan = plan_of_replay("max", problem, replay_clocks(problem, clocks_mhz), clocks_mhz);
    const auto traces = rank_power(plan, job.profile, job.blocking_power_w);
    const double peak_w = plan_power(traces, job.conditions.gpus, steady_phase(plan)).job.peak_w;
    const CappedPlan capped = job.within({.scope = CapScope::job, .watts = peak_w});
    ASSERT_TRUE(capped.plan) << row.clock_mhz << " MHz: " << capped.reason;
    EXPECT_LE(capped.plan->plan.time_s, plan.time_s * (1 + 1e-9)) << row.clock_mhz;
    EXPECT_LE(capped.plan->power.job.peak_w, peak_w * (1 + 1e-9)) << row.clock_mhz;
  }
}

TEST(PlanWithinCap, IsHardlySlowerThanAnEqualShareForEachGpu) {
  const SmallJob job;
  const double most_w = frontier_plans(job, 2).front().power.job.peak_w;
  const auto gpus = static_cast<double>(job.conditions.gpus.size());
  int compared = 0;
  for (const double share : {0.6, 0.7, 0.8, 0.9}) {
    const CappedPlan each = job.within({.watts = share * most_w / gpus});
    const CappedPlan all = job.within({.scope = CapScope::job, .watts = share * most_w});
    if (!each.plan) continue;
    ++compared;
    ASSERT_TRUE(all.plan) << share << ": " << all.reason;
    EXPECT_LE(all.plan->plan.time_s, each.plan->plan.time_s * (1 + 1e-3)) << share;
  }
  EXPECT_GE(compared, 2);
}

/// Of the plans that keep a GPU's peak, none is faster than the fastest iteration with the rows that keep it.
TEST(PlanWithinCap, APeakPerGpuIsKeptExactly) {
  const SmallJob job;
  const double cap_w = 0.8 * frontier_plans(job, 2).front().power.gpus[0].peak_w;
  const CappedPlan capped = job.within({.watts = cap_w});
  planner::PipelinePlanner planner(job.schedule, within_gpu_power(job.profile, cap_w), job.blocking_power_w,
                                   job.conditions.planner);
  ASSERT_TRUE(capped.plan);
  EXPECT_NEAR(capped.plan->plan.time_s, planner.fastest_s(), 1e-9 * planner.fastest_s());
  for (const ScopePower& gpu : capped.plan->power.gpus) EXPECT_LE(gpu.peak_w, cap_w * (1 + 1e-9));
}

TEST(PlanWithinCap, GoesBelowThePeakOfThePlanOfLeastEnergy) {
  const SmallJob job;
  const double least_w = frontier_plans(job, 2).back().power.job.peak_w;
  const CappedPlan capped = job.within({.scope = CapScope::job, .watts = 0.97 * least_w});
  ASSERT_TRUE(capped.plan) << capped.reason;
  EXPECT_LE(capped.plan->power.job.peak_w, 0.97 * least_w * (1 + 1e-9));
}

TEST(PlanWithinCap, TakesTheTimeThatIsWanted) {
  SmallJob job;
  const auto plans = frontier_plans(job, 3);
  job.conditions.wanted_deadline_s = plans[1].plan.deadline_s;
  const CappedPlan capped = job.within({.scope = CapScope::job, .watts = 1e5});
  ASSERT_TRUE(capped.plan);
  EXPECT_NEAR(capped.plan->plan.energy_j, plans[1].plan.energy_j, 1e-3 * plans[1].plan.energy_j);
}

TEST(PlanWithinCap, ClocksOfItsOwnForEachOpAreNoSlower) {
  SmallJob job;
  const double peak_w = frontier_plans(job, 2).front().power.job.peak_w;
  const PowerCap cap{.scope = CapScope::job, .watts = 0.9 * peak_w};
  const CappedPlan shared = job.within(cap);
  job.conditions.planner.granularity = planner::PlanGranularity::per_op;
  const CappedPlan own = job.within(cap);
  ASSERT_TRUE(shared.plan && own.plan);
  EXPECT_LE(own.plan->plan.time_s, shared.plan->plan.time_s * (1 + 1e-2));
  EXPECT_TRUE(tightest(own.plan->power, cap).fits());
}

TEST(PlanWithinCap, RefusesAJobThatDoesNotFitTogether) {
  SmallJob job;
  job.blocking_power_w.pop_back();
  EXPECT_THAT(error_of([&] { (void)job.within({}); }), HasSubstr("3 blocking powers for 4 ranks"));
}

TEST(PlanWithinCap, SaysWhatTheLeastNeeds) {
  const SmallJob job;
  const CappedPlan gpu = job.within({.watts = 90});
  EXPECT_FALSE(gpu.plan);
  EXPECT_THAT(gpu.reason, HasSubstr("at its lowest profiled clock, and the cap is 90.0 W per GPU"));
  const CappedPlan total = job.within({.scope = CapScope::job, .watts = 400});
  EXPECT_FALSE(total.plan);
  EXPECT_THAT(total.reason, HasSubstr("the peak of the job needs"));
  EXPECT_THAT(total.reason, HasSubstr("of 400.0 W"));
}

}  // namespace
}  // namespace lowgear::api
