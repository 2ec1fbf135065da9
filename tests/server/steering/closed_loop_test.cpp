#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "planning/api/job_planner.h"
#include "planning/api/small_job.h"
#include "planning/simulator/replay.h"
#include "server/job/iteration_history.h"
#include "server/steering/noisy_job.h"
#include "server/steering/slowdown_guard.h"
#include "server/steering/straggler_detector.h"

namespace lowgear::server {
namespace {

constexpr int kReplicas = 4;
constexpr int kRanks = 4;
constexpr double kSpread = 0.01;

/// A *simulated* job of four pipelines with all controllers in a loop. Clocks by replica and op.
class ControlledJob {
 public:
  ControlledJob() { adopt(plan_now()); }

  struct Iteration {
    double time_s = 0;
    double energy_j = 0;
    double full_clock_time_s = 0;
  };

  Iteration run(const std::map<std::pair<int, int>, double>& factors) {
    ++iteration_;
    if (boundary_ == iteration_) adopt(std::move(next_));
    std::vector<RankIteration> ranks;
    std::vector<simulator::PipelineGroup> pipelines;
    Iteration result;
    for (int replica = 0; replica < kReplicas; ++replica) {
      const auto& clocks_mhz = clocks_[static_cast<std::size_t>(replica)];
      std::vector<simulator::StageSlowdown> slowdowns;
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto found = factors.find({replica, rank});
        slowdowns.push_back({rank, (found == factors.end() ? 1 : found->second) * (1 + kSpread * noise_.normal())});
      }
      const simulator::Timeline timeline = slowed(clocks_mhz, slowdowns);
      const simulator::Timeline expected = slowed(clocks_mhz, {});
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        ranks.push_back(
            {replica * kRanks + static_cast<int>(rank), timeline.busy_s[rank], expected.busy_s[rank], 0, 0});
      }
      pipelines.push_back({{timeline.time_s, timeline.energy_j_total}, 1});
      result.full_clock_time_s = std::max(result.full_clock_time_s, slowed(full_clocks_, slowdowns).time_s);
    }
    const simulator::PipelineFigures job = synchronise(pipelines, kRanks * 80);
    result.time_s = job.time_s;
    result.energy_j = job.energy_j;
    control(ranks, result);
    return result;
  }

  [[nodiscard]] const SlowdownGuard& guard() const { return guard_; }

 private:
  [[nodiscard]] simulator::Timeline slowed(const std::vector<int>& clocks_mhz,
                                           const std::vector<simulator::StageSlowdown>& slowdowns) const {
    const std::vector<double> work = slowed_work(dag_, slowdowns);
    const auto costs = simulator::costs_at_clocks(dag_, profile_, clocks_mhz, {.work = work, .clocks_before_mhz = {}});
    return simulator::replay(dag_, costs, api::kSmallBlockingW);
  }

  /// Clocks for what the detector knows. Says what full clocks would take.
  std::vector<std::vector<int>> plan_now() {
    std::vector<api::RankSlowdown> slowdowns;
    for (int rank = 0; rank < kReplicas * kRanks; ++rank) {
      slowdowns.push_back({rank / kRanks, rank % kRanks, detector_.factor(rank)});
    }
    const api::Replan job = api::replan(dag_, profile_, kReplicas, slowdowns, 0);
    scale_ = job.fastest_time_s / healthy_s_;
    std::vector<std::vector<int>> clocks_mhz(kReplicas, full_clocks_);
    for (const api::ReplicaGroup& group : job.groups) {
      planner::PipelinePlanner planner(api::small_schedule(), group.profile, api::kSmallBlockingW,
                                       {.granularity = planner::PlanGranularity::per_stage_kind});
      const plan::Plan plan = planner.plan(job.deadline_s);
      for (const int replica : group.replicas) clocks_mhz[static_cast<std::size_t>(replica)] = clocks_for(plan, dag_);
    }
    guard_.set_plans({job.deadline_s});
    return clocks_mhz;
  }

  void control(const std::vector<RankIteration>& ranks, const Iteration& result) {
    now_s_ += result.time_s;
    const auto changes = detector_.observe(ranks);
    if (!changes.empty()) {
      const double before = scale_;
      next_ = plan_now();
      boundary_ = switch_boundary({iteration_, 0, healthy_s_}, 0.05);
      if (scale_ > before) guard_.excuse((scale_ - before) * healthy_s_ * (changes.front().iterations - 1));
    }
    if (guard_.observe(now_s_, result.time_s, scale_) || guard_.level().is_full_clocks) {
      next_ = guard_.level().is_full_clocks ? std::vector<std::vector<int>>(kReplicas, full_clocks_) : plan_now();
      boundary_ = switch_boundary({iteration_, 0, healthy_s_}, 0.05);
    }
  }

  void adopt(std::vector<std::vector<int>> clocks_mhz) { clocks_ = std::move(clocks_mhz); }

  profile::StageProfile profile_ = api::small_profile();
  schedule::PipelineDag dag_ = schedule::build_dag(api::small_schedule());
  std::vector<int> full_clocks_ =
      std::vector<int>(dag_.ops.size(), profile_.at_max_clock(0, OpKind::forward).clock_mhz);
  double healthy_s_ =
      simulator::replay(dag_, simulator::costs_at_clocks(dag_, profile_, full_clocks_), api::kSmallBlockingW).time_s;
  StragglerDetector detector_{kReplicas * kRanks};
  // The slowest of four noisy pipelines takes longer than an exact one.
  SlowdownGuard guard_{{healthy_s_ * (1 + 2 * kSpread), 0.001 * healthy_s_, kSpread* healthy_s_}, {.limit_pct = 1}};
  Noise noise_{21};
  std::vector<std::vector<int>> clocks_;
  std::vector<std::vector<int>> next_;
  std::int64_t iteration_ = -1;
  std::int64_t boundary_ = -1;
  double scale_ = 1;
  double now_s_ = 0;
};

TEST(ClosedLoop, AStragglerComesAndGoes) {
  ControlledJob job;
  std::vector<ControlledJob::Iteration> iterations;
  double time_s = 0;
  double full_clock_time_s = 0;
  const auto run = [&](int count, const std::map<std::pair<int, int>, double>& factors) {
    for (int i = 0; i < count; ++i) {
      iterations.push_back(job.run(factors));
      time_s += iterations.back().time_s;
      full_clock_time_s += iterations.back().full_clock_time_s;
    }
  };
  run(60, {});
  run(60, {{{1, 2}, 1.2}});
  run(60, {});
  // Two iterations to be sure, one that runs while all ranks are told, and then the new plan.
  constexpr std::size_t kReaction = 3;
  const auto mean = [&](std::size_t from, std::size_t to, double ControlledJob::Iteration::*what) {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i) sum += iterations[i].*what / static_cast<double>(to - from);
    return sum;
  };
  const double waiting_j = mean(60, 62, &ControlledJob::Iteration::energy_j);
  EXPECT_LT(mean(60 + kReaction, 120, &ControlledJob::Iteration::energy_j), 0.97 * waiting_j);
  EXPECT_LT(iterations[60 + kReaction].energy_j, 0.97 * waiting_j);
  const double healthy_s = mean(0, 60, &ControlledJob::Iteration::time_s);
  EXPECT_LT(iterations[120 + kReaction].time_s, 1.05 * healthy_s);
  EXPECT_NEAR(mean(120 + kReaction, 180, &ControlledJob::Iteration::time_s), healthy_s, 0.01 * healthy_s);
  EXPECT_LE(time_s, full_clock_time_s * 1.01 + 2 * healthy_s) << "1 %, and two iterations";
  EXPECT_EQ(job.guard().level(), GuardLevel{});
}

}  // namespace
}  // namespace lowgear::server
