#include "server/steering/adaptive_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"
#include "server/steering/noisy_job.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Everything that could be measured, and what of it has been.
struct Laboratory {
  profile::StageProfile truth;
  ProfilingTask task;
  std::vector<int> measured_mhz;
  ProfilingStep step;
  int rounds = 0;

  Laboratory(profile::StageProfile profile, int microbatches, double blocking_power_w, double slowdown_pct)
      : truth(std::move(profile)) {
    for (const profile::Measurement& row : truth.measurements(0, OpKind::forward))
      task.supported_mhz.push_back(row.clock_mhz);
    task.schedule = schedule::one_f_one_b_schedule(truth.stages(), microbatches);
    task.blocking_power_w.assign(static_cast<std::size_t>(truth.stages()), blocking_power_w);
    task.slowdown_pct = slowdown_pct;
    task.planner.granularity = planner::PlanGranularity::per_stage_kind;
  }

  [[nodiscard]] profile::StageProfile measured() const {
    profile::StageProfile part(truth.stages());
    for (int stage = 0; stage < truth.stages(); ++stage) {
      for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
        for (const int clock_mhz : measured_mhz) part.add(stage, kind, truth.at_clock(stage, kind, clock_mhz));
      }
    }
    return part;
  }

  void run(const AdaptiveProfileOptions& options = {}) {
    measured_mhz = profile::choose_clocks(task.supported_mhz, task.supported_mhz.back(), task.supported_mhz.front(), 6);
    for (rounds = 1; rounds < 40; ++rounds) {
      step = next_profiling_step(task, measured(), {}, options);
      if (step.is_known) return;
      for (const int clock_mhz : step.next_clocks_mhz) measured_mhz.push_back(clock_mhz);
    }
  }

  /// What the wanted plan of a profile takes by the truth, and was planned to take.
  struct Outcome {
    double true_time_s = 0;
    double true_energy_j = 0;
    double planned_energy_j = 0;
  };
  [[nodiscard]] Outcome outcome(const profile::StageProfile& profile, double deadline_s) const {
    planner::PipelinePlanner planner(task.schedule, profile, task.blocking_power_w, task.planner);
    const plan::Plan plan = planner.plan(std::max(deadline_s, planner.fastest_s()));
    const schedule::PipelineDag dag = build_dag(task.schedule);
    const auto costs = simulator::costs_at_clocks(dag, truth, clocks_for(plan, dag));
    const simulator::Timeline timeline = simulator::replay(dag, costs, task.blocking_power_w);
    // At the planned iteration time: an op that takes longer in truth replaces waiting.
    double blocking_w = 0;
    for (const double power_w : task.blocking_power_w) blocking_w += power_w;
    return {timeline.time_s, timeline.energy_j_total + blocking_w * (plan.time_s - timeline.time_s), plan.energy_j};
  }

  [[nodiscard]] double deadline_s() const {
    planner::PipelinePlanner planner(task.schedule, step.profile, task.blocking_power_w, task.planner);
    return planner.fastest_s() * (1 + task.slowdown_pct / 100);
  }

  /// Relative error of the planned energy.
  [[nodiscard]] double true_error() const {
    const Outcome few = outcome(step.profile, deadline_s());
    return std::abs(few.true_energy_j - few.planned_energy_j) / few.planned_energy_j;
  }
};

/// The example's profile with deviations that no model of few parameters explains: random walks over the clocks.
profile::StageProfile wobbly_profile() {
  const profile::StageProfile smooth = profile::example_profile();
  profile::StageProfile wobbly(smooth.stages());
  Noise noise(11);
  for (int stage = 0; stage < smooth.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      double deviation = 0;
      for (profile::Measurement row : smooth.measurements(stage, kind)) {
        deviation += 0.005 * noise.normal();
        row.energy_j *= std::exp(deviation);
        wobbly.add(stage, kind, row);
      }
    }
  }
  return wobbly;
}

TEST(AdaptiveProfile, KnowsAModelledProfileFromFewClocks) {
  Laboratory laboratory(profile::example_profile(), 12, 80, 5);
  laboratory.run();
  EXPECT_TRUE(laboratory.step.is_known);
  EXPECT_LE(laboratory.measured_mhz.size(), 12U) << "of " << laboratory.task.supported_mhz.size();
  EXPECT_LE(laboratory.step.energy_error_j, 0.005 * laboratory.step.energy_j);
  EXPECT_LE(laboratory.true_error(), 0.01) << "two standard errors";
}

TEST(AdaptiveProfile, AsksForMoreClocksForASmallerError) {
  Laboratory coarse(wobbly_profile(), 8, 80, 5);
  coarse.run({.wanted_error = 0.02});
  Laboratory fine(wobbly_profile(), 8, 80, 5);
  fine.run({.wanted_error = 0.001});
  EXPECT_TRUE(fine.step.is_known);
  EXPECT_GT(fine.measured_mhz.size(), coarse.measured_mhz.size());
  EXPECT_LT(fine.measured_mhz.size(), fine.task.supported_mhz.size());
  EXPECT_LE(fine.true_error(), 0.002) << "two standard errors";
}

TEST(AdaptiveProfile, AsksForClocksThatAreThere) {
  Laboratory laboratory(profile::example_profile(), 8, 80, 5);
  laboratory.measured_mhz =
      profile::choose_clocks(laboratory.task.supported_mhz, 210, 1410, profile::kMinMeasuredClocks);
  const ProfilingStep step =
      next_profiling_step(laboratory.task, laboratory.measured(), {}, {.wanted_error = 1e-6, .clocks_per_round = 3});
  EXPECT_FALSE(step.is_known);
  ASSERT_EQ(step.next_clocks_mhz.size(), 3);
  for (const int clock_mhz : step.next_clocks_mhz) {
    EXPECT_EQ(std::ranges::count(laboratory.task.supported_mhz, clock_mhz), 1);
    EXPECT_EQ(std::ranges::count(laboratory.measured_mhz, clock_mhz), 0);
    EXPECT_EQ(std::ranges::count(step.next_clocks_mhz, clock_mhz), 1);
  }
}

std::vector<MeasuredError> errors_of(const profile::StageProfile& profile, double relative) {
  std::vector<MeasuredError> errors;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (const profile::Measurement& row : profile.measurements(stage, kind)) {
        errors.push_back({stage, kind, row.clock_mhz, 0, relative * row.energy_j});
      }
    }
  }
  return errors;
}

TEST(AdaptiveProfile, AsksToMeasureAgainWhatIsNoisy) {
  Laboratory laboratory(profile::example_profile(), 8, 80, 5);
  laboratory.measured_mhz = laboratory.task.supported_mhz;
  const profile::StageProfile measured = laboratory.measured();
  const ProfilingStep exact = next_profiling_step(laboratory.task, measured, {});
  EXPECT_TRUE(exact.is_known);
  EXPECT_EQ(exact.energy_error_j, 0);
  EXPECT_THAT(exact.next_clocks_mhz, IsEmpty());
  const ProfilingStep noisy = next_profiling_step(laboratory.task, measured, errors_of(measured, 0.1));
  EXPECT_FALSE(noisy.is_known);
  ASSERT_FALSE(noisy.next_clocks_mhz.empty());
  EXPECT_EQ(std::ranges::count(laboratory.measured_mhz, noisy.next_clocks_mhz.front()), 1);
}

/// The error that it states against the spread of the plan's energy when measurements are drawn anew.
TEST(AdaptiveProfile, StatesTheSpreadThatMeasuringAgainShows) {
  Laboratory laboratory(profile::example_profile(), 8, 80, 5);
  laboratory.measured_mhz = laboratory.task.supported_mhz;
  const profile::StageProfile exact = laboratory.measured();
  constexpr double kRelative = 0.02;
  const ProfilingStep stated = next_profiling_step(laboratory.task, exact, errors_of(exact, kRelative));
  planner::PipelinePlanner planner(laboratory.task.schedule, stated.profile, laboratory.task.blocking_power_w,
                                   laboratory.task.planner);
  const plan::Plan plan = planner.plan(planner.fastest_s() * 1.05);
  Noise noise(5);
  double squares = 0;
  constexpr int kDraws = 400;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::map<std::tuple<int, OpKind, int>, double> error;
    double energy_j = 0;
    for (const auto& ops : plan.ranks) {
      for (const plan::PlannedOp& op : ops) {
        const auto [at, is_new] = error.try_emplace({op.stage, op.kind, op.clock_mhz}, 0.0);
        if (is_new) at->second = kRelative * noise.normal();
        energy_j += at->second * exact.at_clock(op.stage, op.kind, op.clock_mhz).energy_j;
      }
    }
    squares += energy_j * energy_j / kDraws;
  }
  EXPECT_NEAR(stated.energy_error_j, std::sqrt(squares), 0.15 * stated.energy_error_j);
}

TEST(AdaptiveProfile, KnowsPublishedProfilesFromFewClocks) {
  const auto folder = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus/stage_profile";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "NOT CHECKED against the published profiles of Perseus: ../shared/data/perseus is absent";
  }
  struct Published {
    const char* file;
    double blocking_power_w;
  };
  for (const Published& published :
       {Published{"gpt3-175b+a100_sxm_bf16.csv", 83.64}, Published{"bloom+a40_bf16.csv", 70.38}}) {
    for (const double slowdown_pct : {0.0, 5.0}) {
      const auto path = folder / published.file;
      Laboratory laboratory(profile::read_profile_file(read_file(path), path.filename()).profile, 12,
                            published.blocking_power_w, slowdown_pct);
      laboratory.run();
      const auto few = laboratory.outcome(laboratory.step.profile, laboratory.deadline_s());
      const auto all = laboratory.outcome(laboratory.truth, few.true_time_s);
      std::printf(
          "%s at %g %%: %zu of %zu clocks in %d rounds; energy stated to %.2f %%, off by %.2f %%, %.2f %% above "
          "the plan of all clocks at its time\n",
          published.file, slowdown_pct, laboratory.measured_mhz.size(), laboratory.task.supported_mhz.size(),
          laboratory.rounds, 100 * laboratory.step.energy_error_j / laboratory.step.energy_j,
          100 * laboratory.true_error(), 100 * (few.true_energy_j / all.true_energy_j - 1));
      EXPECT_LE(few.true_energy_j, all.true_energy_j * 1.02) << published.file;
      EXPECT_TRUE(laboratory.step.is_known) << published.file;
      EXPECT_LE(laboratory.measured_mhz.size(), laboratory.task.supported_mhz.size() / 2) << published.file;
      EXPECT_LE(laboratory.true_error(), 0.01) << published.file << ", two standard errors";
    }
  }
}

TEST(AdaptiveProfile, RefusesBadInput) {
  Laboratory laboratory(profile::example_profile(), 8, 80, 5);
  laboratory.measured_mhz = {1410, 1005, 600, 210};
  const profile::StageProfile measured = laboratory.measured();
  const auto error = [&](std::vector<MeasuredError> errors, AdaptiveProfileOptions options = {}) {
    return error_of([&] { (void)next_profiling_step(laboratory.task, measured, errors, options); });
  };
  EXPECT_THAT(error({}, {.wanted_error = 0}), HasSubstr("an error of 0"));
  EXPECT_THAT(error({}, {.clocks_per_round = 0}), HasSubstr("with 0 clocks a round"));
  EXPECT_THAT(error({{0, OpKind::forward, 1410, -1, 0}}), HasSubstr("errors of -1 s"));
  EXPECT_THAT(error({{0, OpKind::forward, 1410, 0, std::numeric_limits<double>::quiet_NaN()}}), HasSubstr("nan J"));
  EXPECT_THAT(error({{0, OpKind::forward, 1395, 0, 0}}), HasSubstr("1395"));
  laboratory.measured_mhz = {1410, 210};
  EXPECT_THAT(error_of([&] { (void)next_profiling_step(laboratory.task, laboratory.measured(), {}); }),
              HasSubstr("measure at least 4"));
  laboratory.task.blocking_power_w.pop_back();
  laboratory.measured_mhz = {1410, 1005, 600, 210};
  EXPECT_THAT(error_of([&] { (void)next_profiling_step(laboratory.task, laboratory.measured(), {}); }),
              HasSubstr("7 blocking powers for 8 ranks"));
}

}  // namespace
}  // namespace lowgear::server
