#include "planning/planner/planners/pipeline_planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/core/error_of.h"
#include "base/core/numbers/number.h"
#include "base/core/progress.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/planner/progress_log.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/random_pipelines.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

PipelinePlanner planner_of(const SampleProblem& sample, PlannerOptions options = {}) {
  const PlanningProblem problem = sample.problem();
  return {*problem.schedule, *problem.profile, problem.blocking_power_w, options};
}

/// A deadline at this share of the way from T_min to T*.
double deadline_at(const PipelinePlanner& planner, double share) {
  return planner.fastest_s() + share * (planner.slowest_s() - planner.fastest_s());
}

/// Checks all that holds for any plan: its figures are a replay's, the deadline is kept, and the bound is below.
void expect_sound(const plan::Plan& plan, const SamplePipeline& pipeline) {
  const simulator::Timeline timeline = simulator::replay(
      pipeline.dag, simulator::costs_at_clocks(pipeline.dag, pipeline.profile, clocks_for(plan, pipeline.dag)),
      pipeline.blocking_power_w);
  EXPECT_EQ(plan.time_s, timeline.time_s);
  EXPECT_EQ(plan.energy_j, timeline.energy_j_total);
  EXPECT_LE(plan.time_s, plan.deadline_s * (1 + 1e-12));
  ASSERT_TRUE(plan.gap_pct().has_value());
  EXPECT_GE(*plan.gap_pct(), -1e-7) << "but for what doubles make of sums";
  EXPECT_EQ(plan.policy, "lowgear");
  EXPECT_EQ(plan.schedule, pipeline.schedule.name);
  EXPECT_EQ(plan.microbatches, pipeline.schedule.microbatches);
  EXPECT_EQ(plan.switches, count_switches(plan.ranks));
}

void expect_one_clock_per_stage_and_kind(const plan::Plan& plan) {
  std::map<std::pair<int, OpKind>, std::set<int>> clocks;
  for (const auto& rank : plan.ranks) {
    for (const plan::PlannedOp& op : rank) clocks[{op.stage, op.kind}].insert(op.clock_mhz);
  }
  for (const auto& [cell, clocks_mhz] : clocks) {
    EXPECT_THAT(clocks_mhz, SizeIs(1)) << "stage " << cell.first << ' ' << name(cell.second);
  }
}

TEST(PipelinePlanner, MakesSoundPlansOfRandomPipelines) {
  std::mt19937_64 random(41);
  const RandomPipelineLimits limits{.max_ranks = 4, .max_microbatches = 8, .max_clocks = 12};
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(fmt::format("pipeline {}", i));
    const SamplePipeline pipeline = random_pipeline(random, limits);
    PlannerOptions options;
    options.method = i % 2 == 0 ? FrontierMethod::exact : FrontierMethod::sandwich;
    PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
    EXPECT_EQ(planner.method(), options.method);
    options.granularity = PlanGranularity::per_stage_kind;
    PipelinePlanner coarse(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
    for (int k = 0; k <= 3; ++k) {
      SCOPED_TRACE(fmt::format("deadline {}", k));
      const double deadline_s = deadline_at(planner, k / 3.0);
      const plan::Plan plan = planner.plan(deadline_s);
      EXPECT_EQ(plan.deadline_s, deadline_s);
      expect_sound(plan, pipeline);
      const plan::Plan shared = coarse.plan(deadline_s);
      expect_sound(shared, pipeline);
      expect_one_clock_per_stage_and_kind(shared);
    }
    if (HasFailure()) return;
  }
}

void expect_same(const plan::Plan& plan, const plan::Plan& other) {
  EXPECT_EQ(plan.time_s, other.time_s);
  EXPECT_EQ(plan.energy_j, other.energy_j);
  ASSERT_EQ(plan.ranks.size(), other.ranks.size());
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    EXPECT_TRUE(std::ranges::equal(plan.ranks[rank], other.ranks[rank], {}, &plan::PlannedOp::clock_mhz,
                                   &plan::PlannedOp::clock_mhz));
  }
}

TEST(PipelinePlanner, PlansADeadlineInTheSameWayByItselfAndAmongOthers) {
  std::mt19937_64 random(47);
  for (const FrontierMethod method : {FrontierMethod::exact, FrontierMethod::sandwich}) {
    PlannerOptions options;
    options.method = method;
    for (int i = 0; i < 15; ++i) {
      SCOPED_TRACE(fmt::format("pipeline {} with {}", i, name(method)));
      const SamplePipeline pipeline =
          random_pipeline(random, {.max_ranks = 4, .max_microbatches = 8, .max_clocks = 12});
      const auto planner_of_it = [&] {
        return PipelinePlanner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
      };
      PipelinePlanner among_all = planner_of_it();
      constexpr int kPlans = 8;
      std::vector<plan::Plan> plans;
      for (int k = kPlans; k >= 0; --k) {
        plans.push_back(among_all.plan(deadline_at(among_all, static_cast<double>(k) / kPlans)));
      }
      for (const plan::Plan& one : plans) {
        PipelinePlanner alone = planner_of_it();
        expect_same(alone.plan(one.deadline_s), one);
      }
    }
  }
}

TEST(PipelinePlanner, AgreesWithItselfOnBothFrontiers) {
  const SampleProblem sample = four_stages(8);
  PlannerOptions options;
  options.method = FrontierMethod::exact;
  PipelinePlanner exact = planner_of(sample, options);
  options.method = FrontierMethod::sandwich;
  PipelinePlanner sandwich = planner_of(sample, options);
  EXPECT_EQ(exact.fastest_s(), sandwich.fastest_s());
  EXPECT_EQ(exact.frontier().epsilon(), 0);
  EXPECT_LE(sandwich.frontier().epsilon(), options.epsilon);
  for (int k = 0; k <= 10; ++k) {
    const TimePs time_ps = ps_from_s(deadline_at(exact, k / 10.0));
    const double least_j = exact.frontier().lower_bound_j_at(time_ps);
    EXPECT_LE(sandwich.frontier().lower_bound_j_at(time_ps), least_j * (1 + 1e-12));
    EXPECT_GE(sandwich.frontier().lower_bound_j_at(time_ps), least_j * (1 - options.epsilon));
    EXPECT_NEAR(sandwich.plan(s_from_ps(time_ps)).energy_j / exact.plan(s_from_ps(time_ps)).energy_j, 1, 2e-3);
  }
}

TEST(PipelinePlanner, ChoosesTheExactFrontierForSmallPipelines) {
  EXPECT_EQ(planner_of(four_stages(2)).method(), FrontierMethod::exact);
  EXPECT_EQ(name(FrontierMethod::automatic), "automatic");
  EXPECT_EQ(name(FrontierMethod::exact), "exact");
  EXPECT_EQ(name(FrontierMethod::sandwich), "sandwich");
}

TEST(PipelinePlanner, RefusesDeadlinesThatAreNone) {
  PipelinePlanner planner = planner_of(four_stages(2));
  const auto error = [&planner](double deadline_s) { return error_of([&] { (void)planner.plan(deadline_s); }); };
  const std::string fastest = fmt::format("{} s", planner.fastest_s());
  for (const double deadline_s : {0.0, -1.0, -std::numeric_limits<double>::infinity(), planner.fastest_s() * 0.999}) {
    EXPECT_THAT(error(deadline_s), AllOf(HasSubstr("T_min"), HasSubstr(fastest))) << deadline_s;
  }
  for (const double deadline_s : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::max(), 1.1e6}) {
    EXPECT_THAT(error(deadline_s), HasSubstr("is not a time below 10^6 s")) << deadline_s;
  }
  EXPECT_EQ(error(planner.fastest_s()), "no error");
}

TEST(PipelinePlanner, RefusesAProfileOrALatencyThatItCannotPlanWith) {
  const SampleProblem sample = four_stages(2);
  const PlanningProblem problem = sample.problem();
  const profile::StageProfile too_small = modelled_profile({0.05, 0.05, 0.05});
  EXPECT_NE(error_of([&] { PipelinePlanner(*problem.schedule, too_small, problem.blocking_power_w, {}); }), "no error");
  for (const double latency_s : {-0.01, std::numeric_limits<double>::quiet_NaN()}) {
    PlannerOptions options;
    options.switch_latency_s = latency_s;
    PipelinePlanner planner = planner_of(sample, options);
    EXPECT_NE(error_of([&] { (void)planner.plan(planner.slowest_s()); }), "no error") << latency_s;
  }
}

TEST(PipelinePlanner, GivesThePlanOfLeastEnergyBeyondIt) {
  const SampleProblem sample = four_stages(4);
  PipelinePlanner planner = planner_of(sample);
  const plan::Plan slowest = planner.plan(planner.slowest_s());
  const plan::Plan beyond = planner.plan(10 * planner.slowest_s());
  EXPECT_EQ(clocks_for(beyond, planner.dag()), clocks_for(slowest, planner.dag()));
  EXPECT_EQ(beyond.energy_j, slowest.energy_j);
  EXPECT_EQ(beyond.deadline_s, 10 * planner.slowest_s());
}

TEST(PipelinePlanner, PlansAPipelineWithNothingToChoose) {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    profile.add(stage, OpKind::forward, {1410, 0.1, 30});
    profile.add(stage, OpKind::backward, {1410, 0.2, 60});
  }
  for (const double blocking_power_w : {0.0, 80.0}) {
    for (const FrontierMethod method : {FrontierMethod::exact, FrontierMethod::sandwich}) {
      const SampleProblem sample(schedule::one_f_one_b_schedule(2, 2), profile, blocking_power_w);
      PlannerOptions options;
      options.method = method;
      PipelinePlanner planner = planner_of(sample, options);
      EXPECT_EQ(planner.fastest_s(), planner.slowest_s());
      const plan::Plan plan = planner.plan(1);
      EXPECT_NEAR(plan.time_s, 0.9, 1e-12);
      EXPECT_NEAR(plan.energy_j, 360 + 0.6 * blocking_power_w, 1e-9);
      EXPECT_NEAR(plan.gap_pct().value(), 0, 1e-9);
      EXPECT_EQ(plan.switches, 0);
    }
  }
}

TEST(PipelinePlanner, PlansASingleOpOfEachKind) {
  const SampleProblem sample(schedule::one_f_one_b_schedule(1, 1), modelled_profile({0.05}), 0);
  PipelinePlanner planner = planner_of(sample);
  const plan::Plan fastest = planner.plan(planner.fastest_s());
  for (const int clock_mhz : clocks_for(fastest, planner.dag())) EXPECT_EQ(clock_mhz, 1410);
  EXPECT_NEAR(fastest.gap_pct().value(), 0, 1e-7);
  EXPECT_LT(planner.plan(planner.slowest_s()).energy_j, fastest.energy_j);
}

TEST(PipelinePlanner, OutlivesItsArgumentsAndMoves) {
  auto sample = std::make_unique<SampleProblem>(four_stages(2));
  PipelinePlanner planner = planner_of(*sample);
  const double energy_j = planner.plan(planner.slowest_s()).energy_j;
  sample.reset();
  PipelinePlanner moved = std::move(planner);
  EXPECT_EQ(moved.plan(moved.slowest_s()).energy_j, energy_j);
}

TEST(PipelinePlanner, PlansTheLargestAndTheSmallestValues) {
  struct Extreme {
    double time_s;
    double energy_j;
    double blocking_power_w;
  };
  for (const auto& [time_s, energy_j, blocking_power_w] :
       {Extreme{5e4, 5e8, profile::kMaxBlockingPowerW}, Extreme{5e4, 5e4, 0}, Extreme{1e-9, 5e8, 0},
        Extreme{1e-9, 1e-9, 0}}) {
    SCOPED_TRACE(fmt::format("{} s, {} J", time_s, energy_j));
    profile::StageProfile profile(2);
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (int stage = 0; stage < 2; ++stage) {
        profile.add(stage, kind, {1410, time_s, energy_j});
        profile.add(stage, kind, {1000, 1.4 * time_s, 0.7 * energy_j});
      }
    }
    for (const FrontierMethod method : {FrontierMethod::exact, FrontierMethod::sandwich}) {
      PlannerOptions options;
      options.method = method;
      const SampleProblem sample(schedule::one_f_one_b_schedule(2, 2), profile, blocking_power_w);
      PipelinePlanner planner = planner_of(sample, options);
      for (const double share : {0.0, 0.5, 1.0}) {
        const double deadline_s = deadline_at(planner, share);
        const plan::Plan plan = planner.plan(deadline_s);
        EXPECT_LE(plan.time_s, deadline_s * (1 + 1e-12) + 1e-12);
        EXPECT_TRUE(std::isfinite(plan.energy_j));
        EXPECT_GE(plan.gap_pct().value(), -1e-6);
      }
    }
  }
}

TEST(PipelinePlanner, RefusesAPipelineThatTakesLongerThanTheModelHolds) {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1410, 9e5, 1});
  profile.add(0, OpKind::backward, {1410, 9e5, 1});
  const SampleProblem sample(schedule::one_f_one_b_schedule(1, 1), profile, 0);
  EXPECT_THAT(error_of([&] { (void)planner_of(sample); }), HasSubstr("10^6 s"));
}

/// One rank whose forward is fastest at 1410 MHz and whose backward is fastest at 1395 MHz, as noise makes them.
profile::StageProfile profile_of_unlike_fastest_clocks() {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1410, 0.10, 30});
  profile.add(0, OpKind::forward, {1395, 0.11, 29});
  profile.add(0, OpKind::backward, {1395, 0.20, 60});
  profile.add(0, OpKind::backward, {1410, 0.21, 59});
  return profile;
}

TEST(PipelinePlanner, CountsTheSwitchLatencyInTheShortestTime) {
  const SampleProblem sample(schedule::one_f_one_b_schedule(1, 1), profile_of_unlike_fastest_clocks(), 0);
  for (const PlanGranularity granularity : {PlanGranularity::per_op, PlanGranularity::per_stage_kind}) {
    PlannerOptions options;
    options.granularity = granularity;
    options.switch_latency_s = 0.05;
    PipelinePlanner planner = planner_of(sample, options);
    // The lower clock during 0.05 s of the forward: 0.05 + (1 - 0.05 / 0.11) 0.10, and alike 0.05 of the backward.
    const double with_changes_s = (0.05 + (1 - 0.05 / 0.11) * 0.10) + (0.05 + (1 - 0.05 / 0.21) * 0.20);
    EXPECT_NEAR(planner.fastest_s(), with_changes_s, 1e-9);
    EXPECT_LE(planner.plan(planner.fastest_s()).time_s, planner.fastest_s() + 1e-12);
    EXPECT_THAT(error_of([&] { (void)planner.plan(0.301); }),
                AllOf(HasSubstr("T_min"), HasSubstr("a switch latency of 50 ms, and 0.3 s without one"),
                      HasSubstr(rounded_up(planner.fastest_s()) + " s")));
    options.switch_latency_s = 10;
    EXPECT_NEAR(planner_of(sample, options).fastest_s(), 0.31, 1e-9) << "either clock throughout";
  }
}

TEST(PipelinePlanner, HasAPlanForEveryDeadlineOnceATopClockIsSlowerThanTheNext) {
  // A top clock that measures 1 % slower than the next one, in every second (stage, kind).
  const profile::StageProfile exact = modelled_profile({0.05, 0.06, 0.05, 0.055});
  profile::StageProfile profile(exact.stages());
  for (const auto& [stage, kind, rows] : exact.ops()) {
    const bool is_odd = (stage + static_cast<int>(kind)) % 2 == 1;
    for (profile::Measurement row : rows) {
      if (is_odd && row.clock_mhz == rows.front().clock_mhz) row.time_s = 1.01 * rows[1].time_s;
      profile.add(stage, kind, row);
    }
  }
  const SampleProblem sample(schedule::one_f_one_b_schedule(4, 6), profile, 70);
  PlannerOptions options;
  options.switch_latency_s = 0.025;
  PipelinePlanner planner = planner_of(sample, options);
  EXPECT_GE(planner.fastest_s(), s_from_ps(planner.frontier().fastest_ps()));
  EXPECT_LE(planner.fastest_s(), s_from_ps(planner.frontier().fastest_ps()) * 1.03);
  double last_j = std::numeric_limits<double>::infinity();
  for (const double share : {0.0, 0.1, 0.5, 1.0}) {
    const double deadline_s = deadline_at(planner, share);
    const plan::Plan plan = planner.plan(deadline_s);
    EXPECT_LE(plan.time_s, deadline_s);
    EXPECT_LT(plan.energy_j, last_j) << share;
    last_j = plan.energy_j;
  }
}

TEST(PipelinePlanner, EndsAPlanWithASwitchLatencyWhenItIsStopped) {
  const SampleProblem sample = four_stages(200);
  const PlanningProblem problem = sample.problem();
  PlannerOptions options;
  options.switch_latency_s = 0.025;
  for (const PlanGranularity granularity : {PlanGranularity::per_op, PlanGranularity::per_stage_kind}) {
    options.granularity = granularity;
    const auto reports_of_plan = [&](int last_of_plan) {
      StopsAfter counted(0);
      PipelinePlanner once(*problem.schedule, *problem.profile, problem.blocking_power_w, options, {}, &counted);
      StopsAfter progress(last_of_plan == 0 ? 0 : counted.reports() + last_of_plan);
      PipelinePlanner planner(*problem.schedule, *problem.profile, problem.blocking_power_w, options, {}, &progress);
      const int before = progress.reports();
      if (last_of_plan == 0) {
        EXPECT_NO_THROW((void)planner.plan(deadline_at(planner, 0.3)));
      } else {
        EXPECT_THROW((void)planner.plan(deadline_at(planner, 0.3)), Stopped) << "report " << last_of_plan;
      }
      return progress.reports() - before;
    };
    const int all = reports_of_plan(0);
    EXPECT_GE(all, 20) << "one in a few milliseconds of work";
    for (const int last : {1, 2, all / 2, all}) EXPECT_EQ(reports_of_plan(last), last);
  }
}

TEST(PipelinePlanner, KeepsOneClockAStageAndKindWithASwitchLatency) {
  std::mt19937_64 random(43);
  const RandomPipelineLimits limits{.max_ranks = 4, .max_microbatches = 8, .max_clocks = 12};
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(fmt::format("pipeline {}", i));
    const SamplePipeline pipeline = random_pipeline(random, limits);
    PlannerOptions options;
    options.granularity = PlanGranularity::per_stage_kind;
    options.switch_latency_s = 1e-3 * static_cast<double>(random_in(random, 1, 60));
    PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
    for (int k = 0; k <= 3; ++k) {
      const double deadline_s = deadline_at(planner, k / 3.0);
      const plan::Plan plan = planner.plan(deadline_s);
      EXPECT_LE(plan.time_s, deadline_s + 1e-12);
      expect_one_clock_per_stage_and_kind(plan);
    }
  }
}

/// Three stages at four clocks, with a setting that trades time for energy at each of them.
profile::StageProfile profile_with_settings() {
  profile::StageProfile profile(3);
  for (int stage = 0; stage < 3; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (const int clock_mhz : {1400, 1200, 1000, 800}) {
        const double time_s =
            (kind == OpKind::forward ? 0.05 : 0.1) * (0.3 + 0.7 * 1400 / clock_mhz) * (1 + 0.1 * stage);
        const double power_w = 100 + 300 * std::pow(clock_mhz / 1400.0, 3);
        profile.add(stage, kind, {clock_mhz, time_s, time_s * power_w, "sm12"});
        profile.add(stage, kind, {clock_mhz, time_s * 1.05, time_s * power_w * 0.92, "sm3"});
      }
    }
  }
  return profile;
}

TEST(PipelinePlannerWithSettings, UsesThemAsOptions) {
  const schedule::Schedule schedule = schedule::one_f_one_b_schedule(3, 6);
  const SamplePipeline pipeline{schedule, build_dag(schedule), profile_with_settings(), std::vector<double>(3, 70)};
  PipelinePlanner planner(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, {});
  PipelinePlanner of_clocks(pipeline.schedule, at_fastest_settings(pipeline.profile), pipeline.blocking_power_w, {});
  for (const PlanGranularity granularity : {PlanGranularity::per_op, PlanGranularity::per_stage_kind}) {
    PlannerOptions options;
    options.granularity = granularity;
    PipelinePlanner shared(pipeline.schedule, pipeline.profile, pipeline.blocking_power_w, options);
    for (const double share : {0.0, 0.3, 1.0}) {
      const plan::Plan plan = shared.plan(deadline_at(shared, share));
      const plan::OpChoices choices = choices_for(plan, pipeline.dag);
      const simulator::Timeline timeline = simulator::replay(
          pipeline.dag, simulator::costs_at_clocks(pipeline.dag, pipeline.profile, choices), pipeline.blocking_power_w);
      EXPECT_EQ(plan.time_s, timeline.time_s);
      EXPECT_EQ(plan.energy_j, timeline.energy_j_total);
      EXPECT_LE(plan.time_s, plan.deadline_s * (1 + 1e-12));
      EXPECT_GE(*plan.gap_pct(), -1e-7);
    }
  }
  const double deadline_s = deadline_at(planner, 0.3);
  EXPECT_LT(planner.plan(deadline_s).energy_j, 0.99 * of_clocks.plan(deadline_s).energy_j);
}

TEST(PipelinePlannerWithSettings, RefusesASwitchLatency) {
  PlannerOptions options;
  options.switch_latency_s = 0.025;
  EXPECT_THAT(lowgear::error_of([&] {
                PipelinePlanner(schedule::one_f_one_b_schedule(3, 6), profile_with_settings(),
                                std::vector<double>(3, 70), options);
              }),
              HasSubstr("give --switch-latency instant"));
}

}  // namespace
}  // namespace lowgear::planner
