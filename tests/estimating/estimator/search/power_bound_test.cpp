#include "estimating/estimator/search/power_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "estimating/estimator/iteration/roofline_estimate.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "planning/schedule/dag.h"
#include "planning/simulator/replay.h"

namespace lowgear::estimator {
namespace {

TrainingJob job_of(const std::string& gpu, ParallelLayout parallel, BatchShape batch, const std::string& schedule) {
  TrainingJob job;
  job.model = named_model("llama-2-7b");
  job.gpu = named_gpu(gpu);
  job.cluster = default_cluster(job.gpu);
  job.parallel = parallel;
  job.batch = batch;
  job.schedule = schedule;
  return job;
}

/// Jobs with all that a bound has to get right: uneven stages, orders, messages that run concurrently.
TrainingJob random_job(std::mt19937& random) {
  const auto pick = [&random](std::initializer_list<int> values) {
    return *(values.begin() + std::uniform_int_distribution<std::ptrdiff_t>(0, std::ssize(values) - 1)(random));
  };
  const int pp = pick({1, 2, 3, 4, 5});
  const int chunks = pp > 1 ? pick({1, 1, 2}) : 1;
  const std::string plain = std::vector<std::string>{"1f1b", "1f1b", "gpipe", "zb-h1"}[pick({0, 1, 2, 3})];
  const int microbatches = chunks > 1 ? pp * pick({1, 2, 3}) : pick({1, 2, 4, 7, 12});
  TrainingJob job =
      job_of(pick({0, 1}) == 0 ? "a100" : "h100", {.dp = 2, .tp = pick({1, 2, 8}), .pp = pp, .virtual_stages = chunks},
             {2 * microbatches, 1, 2048}, chunks > 1 ? "interleaved" : plain);
  job.overlap.pipeline = pick({0, 1}) == 1;
  job.cluster.gpus_per_node = job.parallel.dp * job.parallel.tp;
  return job;
}

/// All ops of the planner's pipeline at these clocks, replayed by the simulator.
JobFigures replayed(const TrainingJob& job, const IterationEstimate& estimate, const EstimatedPipeline& pipeline,
                    const std::vector<int>& clocks_mhz) {
  const schedule::PipelineDag dag = build_dag(pipeline.schedule);
  const auto timeline_at = [&](const std::vector<int>& mhz) {
    std::vector<simulator::OpCost> costs;
    for (std::size_t op = 0; op < dag.ops.size(); ++op) {
      const auto cells = pipeline.profile.measurements(dag.ops[op].stage, dag.ops[op].kind);
      const auto cell = std::ranges::find(cells, mhz[op], &profile::Measurement::clock_mhz);
      costs.push_back({cell->time_s, cell->energy_j});
    }
    return simulator::replay(dag, costs, pipeline.blocking_power_w);
  };
  const simulator::Timeline full = timeline_at(std::vector<int>(dag.ops.size(), job.gpu.clocks.max_mhz));
  const simulator::Timeline slowed = timeline_at(clocks_mhz);
  return JobScale(job, estimate, full.time_s).job(slowed.time_s, slowed.energy_j_total);
}

TEST(CappedLayout, IsReplayedAtOneClock) {
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    const TrainingJob job = random_job(random);
    const IterationEstimate estimated = estimate(job);
    const EstimatedPipeline pipeline = estimated_pipeline(job, estimated);
    const std::size_t ops = build_dag(pipeline.schedule).ops.size();
    const CappedLayout capped(job, estimated);
    for (const int clock_mhz : {job.gpu.clocks.max_mhz, job.gpu.clocks.max_mhz - 20 * job.gpu.clocks.step_mhz}) {
      const JobFigures expected = replayed(job, estimated, pipeline, std::vector<int>(ops, clock_mhz));
      EXPECT_NEAR(capped.at_clock(clock_mhz).time_s, expected.time_s, 1e-9 * expected.time_s);
      EXPECT_NEAR(capped.at_clock(clock_mhz).energy_j, expected.energy_j, 1e-9 * expected.energy_j);
    }
    EXPECT_NEAR(capped.full_clocks().energy_j, capped.at_clock(job.gpu.clocks.max_mhz).energy_j,
                1e-9 * capped.full_clocks().energy_j);
  }
}

TEST(CappedLayout, BoundsThePlansOfAnyJob) {
  std::mt19937 random(1);
  double closest = 0;
  for (int i = 0; i < 25; ++i) {
    const TrainingJob job = random_job(random);
    const IterationEstimate estimated = estimate(job);
    const CappedLayout capped(job, estimated);
    PlannedJob planner(job, estimated);
    for (const double share : {0.0, 0.03, 0.2, 0.6, 1.0}) {
      const JobFigures plan = planner.plan(planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s()));
      SCOPED_TRACE(job.schedule + ", pp " + std::to_string(job.parallel.pp) + ", share " + std::to_string(share));
      EXPECT_LE(capped.least_energy_j(plan.time_s), plan.energy_j * (1 + 1e-9));
      EXPECT_LE(planner.least_energy_j(plan.time_s), plan.energy_j * (1 + 1e-9));
      const auto least_s = capped.fastest_s(plan.mean_power_w());
      ASSERT_TRUE(least_s.has_value());
      EXPECT_LE(*least_s, plan.time_s * (1 + 1e-9));
      closest = std::max(closest, *least_s / plan.time_s);
    }
    const double waiting_w = job.parallel.gpus() * job.gpu.power.blocking_w;
    EXPECT_EQ(capped.fastest_s(waiting_w), std::nullopt) << "waiting alone takes that";
    EXPECT_EQ(capped.one_clock(waiting_w), std::nullopt);
  }
  EXPECT_GT(closest, 0.99) << "bounds are not far from all plans";
}

/// All clocks of all ops, one by one: nothing in common with the bound but the profile and the simulator.
TEST(CappedLayout, BoundsAllClocksOfASmallPipeline) {
  TrainingJob job = job_of("a100", {.dp = 1, .tp = 8, .pp = 2}, {2, 1, 2048}, "1f1b");
  job.gpu.clocks = {1050, 1410, 180};
  const IterationEstimate estimated = estimate(job);
  const EstimatedPipeline pipeline = estimated_pipeline(job, estimated);
  const CappedLayout capped(job, estimated);
  const std::vector<int> clocks_mhz = profiled_clocks_mhz(job.gpu.clocks);
  ASSERT_EQ(clocks_mhz.size(), 3U);
  constexpr int kOps = 8;
  std::vector<JobFigures> all;
  for (int number = 0; number < std::pow(3, kOps); ++number) {
    std::vector<int> chosen;
    for (int op = 0, rest = number; op < kOps; ++op, rest /= 3) chosen.push_back(clocks_mhz[rest % 3]);
    all.push_back(replayed(job, estimated, pipeline, chosen));
  }
  const double full_w = capped.full_clocks().mean_power_w();
  for (const double share : {1.0, 0.95, 0.9, 0.8}) {
    double best_s = std::numeric_limits<double>::infinity();
    for (const JobFigures& figures : all) {
      if (figures.mean_power_w() <= share * full_w * (1 + 1e-12)) best_s = std::min(best_s, figures.time_s);
    }
    const auto least_s = capped.fastest_s(share * full_w);
    ASSERT_TRUE(least_s.has_value());
    EXPECT_LE(*least_s, best_s * (1 + 1e-9)) << share;
    EXPECT_GE(*least_s, 0.93 * best_s) << share;
    const auto one = capped.one_clock(share * full_w);
    if (!one) continue;
    EXPECT_LE(one->figures.mean_power_w(), share * full_w);
    EXPECT_GE(one->figures.time_s, best_s * (1 - 1e-9)) << share;
  }
}

}  // namespace
}  // namespace lowgear::estimator
