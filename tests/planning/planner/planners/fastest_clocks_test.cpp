#include "planning/planner/planners/fastest_clocks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/core/progress.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/random_pipelines.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// The clock that each op was given in a walk through all possibilities, and the next of them.
class AllClocks {
 public:
  explicit AllClocks(const SamplePipeline& pipeline) : pipeline_(&pipeline), choice_(pipeline.dag.ops.size(), 0) {}

  [[nodiscard]] std::vector<int> clocks_mhz() const {
    std::vector<int> clocks_mhz;
    for (std::size_t op = 0; op < choice_.size(); ++op) clocks_mhz.push_back(rows(op)[choice_[op]].clock_mhz);
    return clocks_mhz;
  }

  bool next() {
    for (std::size_t op = 0; op < choice_.size(); ++op) {
      if (++choice_[op] < rows(op).size()) return true;
      choice_[op] = 0;
    }
    return false;
  }

  [[nodiscard]] double count() const {
    double count = 1;
    for (std::size_t op = 0; op < choice_.size(); ++op) count *= static_cast<double>(rows(op).size());
    return count;
  }

 private:
  [[nodiscard]] std::span<const profile::Measurement> rows(std::size_t op) const {
    const schedule::ComputeOp& of = pipeline_->dag.ops[op];
    return pipeline_->profile.measurements(of.stage, of.kind);
  }

  const SamplePipeline* pipeline_;
  std::vector<std::size_t> choice_;
};

double shortest_of_all_s(const SamplePipeline& pipeline, const LatencyPlanner& latency) {
  double shortest_s = std::numeric_limits<double>::infinity();
  AllClocks all(pipeline);
  do {
    shortest_s = std::min(shortest_s, latency.replayed(all.clocks_mhz()).timeline.time_s);
  } while (all.next());
  return shortest_s;
}

std::vector<int> highest_clocks(const SamplePipeline& pipeline) {
  std::vector<int> clocks_mhz;
  for (const schedule::ComputeOp& op : pipeline.dag.ops) {
    clocks_mhz.push_back(pipeline.profile.at_max_clock(op.stage, op.kind).clock_mhz);
  }
  return clocks_mhz;
}

TEST(FastestClocks, FindsTheShortestOfAllPossibilitiesOfSmallPipelines) {
  std::mt19937_64 random(61);
  const RandomPipelineLimits limits{.max_ranks = 2, .max_microbatches = 3, .max_clocks = 3};
  int missed = 0;
  for (int searched = 0; searched < 300;) {
    const SamplePipeline pipeline = random_pipeline(random, limits);
    const double latency_s = 1e-3 * static_cast<double>(random_in(random, 1, 80));
    if (AllClocks(pipeline).count() > 20'000) continue;
    SCOPED_TRACE("pipeline " + std::to_string(searched++));
    const LatencyPlanner latency(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, latency_s);
    const double shortest_s = shortest_of_all_s(pipeline, latency);
    const ReplayedClocks found = FastestClocks(pipeline.dag, pipeline.profile, latency, nullptr).find(0);
    EXPECT_EQ(found.timeline.time_s, latency.replayed(found.clocks_mhz).timeline.time_s);
    EXPECT_GE(found.timeline.time_s, shortest_s * (1 - 1e-12));
    EXPECT_LE(found.timeline.time_s, shortest_s * 1.005);
    EXPECT_LE(found.timeline.time_s, latency.replayed(highest_clocks(pipeline)).timeline.time_s);
    missed += found.timeline.time_s > shortest_s * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_LE(missed, 3);
}

/// One rank whose forward is fastest at 1410 MHz and whose backward is fastest at 1395 MHz.
SamplePipeline unlike_fastest_clocks() {
  SamplePipeline pipeline;
  pipeline.schedule = schedule::one_f_one_b_schedule(1, 2);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = profile::StageProfile(1);
  pipeline.profile.add(0, OpKind::forward, {1410, 0.100, 30});
  pipeline.profile.add(0, OpKind::forward, {1395, 0.102, 29});
  pipeline.profile.add(0, OpKind::backward, {1410, 0.201, 60});
  pipeline.profile.add(0, OpKind::backward, {1395, 0.200, 59});
  pipeline.blocking_power_w = {70};
  return pipeline;
}

TEST(FastestClocks, ChangesClocksOnlyWhereThatComesInTime) {
  const SamplePipeline pipeline = unlike_fastest_clocks();
  const auto fastest = [&pipeline](double latency_s) {
    const LatencyPlanner latency(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, latency_s);
    return FastestClocks(pipeline.dag, pipeline.profile, latency, nullptr).find(0);
  };
  const ReplayedClocks at_once = fastest(1e-6);
  EXPECT_THAT(at_once.clocks_mhz, ElementsAre(1410, 1395, 1410, 1395));
  EXPECT_NEAR(at_once.timeline.time_s, 0.600, 1e-5);
  const ReplayedClocks late = fastest(1);
  EXPECT_THAT(late.clocks_mhz, Each(1410)) << "0.602 s, and 0.604 s at 1395 MHz";
  EXPECT_NEAR(late.timeline.time_s, 0.602, 1e-12);
}

TEST(FastestClocks, TakesTheHighestClocksWhereTheyAreTheFastest) {
  SamplePipeline pipeline = unlike_fastest_clocks();
  pipeline.profile = profile::StageProfile(1);
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    pipeline.profile.add(0, kind, {1410, 0.1, 30});
    pipeline.profile.add(0, kind, {1395, 0.1, 29});  // as fast: no reason to change
    pipeline.profile.add(0, kind, {1200, 0.12, 25});
  }
  const LatencyPlanner latency(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 0.03);
  EXPECT_THAT(FastestClocks(pipeline.dag, pipeline.profile, latency, nullptr).find(0.4).clocks_mhz, Each(1410));
}

TEST(FastestClocks, EndsWhenItIsStopped) {
  const SamplePipeline pipeline = unlike_fastest_clocks();
  const LatencyPlanner latency(pipeline.dag, pipeline.profile, pipeline.blocking_power_w, 0.03);
  StopSwitch stop;
  WorkReport work(&stop);
  FastestClocks search(pipeline.dag, pipeline.profile, latency, &work);
  EXPECT_NO_THROW((void)search.find(0));
  stop.stop();
  EXPECT_THROW((void)search.find(0), Stopped);
}

}  // namespace
}  // namespace lowgear::planner
