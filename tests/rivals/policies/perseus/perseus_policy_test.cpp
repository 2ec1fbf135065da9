#include "rivals/policies/perseus/perseus_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"
#include "planning/simulator/replay.h"

namespace lowgear::policies {
namespace {

using testing::HasSubstr;

constexpr double kMillisecondS = 1e-3;
constexpr double kBlockingPowerW = 80;

/// Two stages whose ops have four options each, a unit apart, whose effective energy is an exponential. `M` = 2.
planner::SampleProblem tiny_problem() {
  profile::StageProfile profile(2);
  const auto add = [&](int stage, OpKind kind, int fastest_units, double scale_j) {
    for (int i = 0; i < 4; ++i) {
      const int units = fastest_units + i;
      const double effective_j = scale_j * std::exp(-0.5 * i) + 1;
      profile.add(
          stage, kind,
          {1410 - 15 * i, (units + 0.25) * kMillisecondS, effective_j + kBlockingPowerW * units * kMillisecondS});
    }
  };
  add(0, OpKind::forward, 5, 4);
  add(0, OpKind::backward, 9, 7);
  add(1, OpKind::forward, 6, 3);
  add(1, OpKind::backward, 8, 9);
  return {schedule::one_f_one_b_schedule(2, 2), std::move(profile), kBlockingPowerW};
}

/// Least fitted energy by iteration time in units, over all assignments of whole units to the eight ops.
std::map<TimePs, double> brute_force(const planner::SampleProblem& sample) {
  const schedule::PipelineDag& dag = sample.dag();
  std::vector<PerseusCurve> curves;
  for (const schedule::ComputeOp& op : dag.ops) {
    curves.push_back(perseus_curve(sample.profile().measurements(op.stage, op.kind), kMillisecondS, kBlockingPowerW));
  }
  const simulator::TimingGraph graph(dag);
  std::map<TimePs, double> least_j;
  std::vector<TimePs> units(dag.ops.size());
  std::vector<TimePs> start(dag.ops.size());
  const auto assignments = static_cast<int>(std::pow(4, dag.ops.size()));
  for (int assignment = 0; assignment < assignments; ++assignment) {
    double energy_j = 0;
    for (std::size_t op = 0; op < units.size(); ++op) {
      const int slower = (assignment >> (2 * op)) & 3;
      units[op] = curves[op].fastest_units() + slower;
      energy_j += curves[op].effective_energy_j[static_cast<std::size_t>(slower)];
    }
    const TimePs makespan = graph.start_times(units, start);
    const auto [place, added] = least_j.try_emplace(makespan, energy_j);
    if (!added) place->second = std::min(place->second, energy_j);
  }
  double least_so_far_j = std::numeric_limits<double>::infinity();
  for (auto& [makespan, energy_j] : least_j) energy_j = least_so_far_j = std::min(least_so_far_j, energy_j);
  return least_j;
}

TEST(PerseusModel, ItsFrontierIsTheBestOfAllAssignments) {
  const planner::SampleProblem sample = tiny_problem();
  const std::map<TimePs, double> best = brute_force(sample);
  const PerseusModel model(sample.problem(), kMillisecondS);
  const auto rows = model.frontier();
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(best.rbegin()->first - best.begin()->first));
  TimePs units = best.rbegin()->first;
  for (const PerseusModel::Row& row : rows) {
    --units;
    ASSERT_TRUE(best.contains(units));
    const double time_s = static_cast<double>(units) * kMillisecondS;
    EXPECT_NEAR(row.time_s, time_s, 1e-12);
    EXPECT_NEAR(row.energy_j, best.at(units) + 2 * kBlockingPowerW * time_s, 1e-8);
  }
  EXPECT_EQ(units, best.begin()->first);
}

TEST(PerseusModel, SolvesForADeadlineWhatItsFrontierSays) {
  const planner::SampleProblem sample = planner::four_stages(6);
  const PerseusModel model(sample.problem(), kMillisecondS);
  const auto rows = model.frontier();
  const auto cheapest = std::ranges::min_element(rows, {}, &PerseusModel::Row::energy_j);
  ASSERT_NE(cheapest, rows.begin()) << "the sample has to have a slow end that costs more";
  for (std::size_t i = 0; i < rows.size(); i += 7) {
    const auto solution = model.solve(rows[i].time_s + 0.4 * kMillisecondS);
    const PerseusModel::Row& expected = std::max(rows.begin() + static_cast<std::ptrdiff_t>(i), cheapest)[0];
    EXPECT_NEAR(solution.energy_j, expected.energy_j, 1e-8);
    EXPECT_LE(solution.time_s, rows[i].time_s + 1e-12);
  }
}

TEST(PerseusModel, VisitsThePlansOfItsFrontier) {
  const planner::SampleProblem sample = planner::four_stages(6);
  const PerseusModel model(sample.problem(), kMillisecondS);
  const auto frontier = model.frontier();
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < frontier.size(); row += row % 3 + 1) rows.push_back(row);
  rows.push_back(frontier.size() - 1);
  std::size_t visited = 0;
  model.visit_plans(rows, [&](const PerseusModel::RowPlan& plan) {
    ASSERT_EQ(plan.row, rows[visited++]);
    EXPECT_DOUBLE_EQ(plan.figures.time_s, frontier[plan.row].time_s);
    EXPECT_NEAR(plan.figures.energy_j, frontier[plan.row].energy_j, 1e-8);
    EXPECT_NEAR(plan.effective_energy_j + 4 * kBlockingPowerW * plan.figures.time_s, plan.figures.energy_j, 1e-8);
    if (plan.row > 0) {
      const double saved_blocking_j = 4 * kBlockingPowerW * kMillisecondS;
      EXPECT_NEAR(plan.cost_change_j, plan.figures.energy_j - frontier[plan.row - 1].energy_j + saved_blocking_j, 1e-8);
    }
    // The clocks keep the time of the row, but for what the model's rounding leaves out: up to a unit an op.
    const simulator::Timeline replayed = replay_clocks(sample.problem(), plan.clocks_mhz);
    EXPECT_LE(replayed.time_s, plan.figures.time_s + 2 * (6 + 3) * kMillisecondS);
  });
  EXPECT_EQ(visited, rows.size());
  const std::vector<std::size_t> beyond{frontier.size()};
  EXPECT_THROW(model.visit_plans(beyond, [](const PerseusModel::RowPlan&) {}), InputError);
}

TEST(PerseusModel, ItsSolutionAddsUp) {
  const planner::SampleProblem sample = planner::four_stages(8);
  const PerseusModel model(sample.problem(), kMillisecondS);
  const auto solution = model.solve(1.05 * model.fastest_s());
  const schedule::PipelineDag& dag = sample.dag();
  double energy_j = 4 * 80 * solution.time_s;
  std::vector<double> times;
  std::map<std::pair<int, OpKind>, PerseusCurve> curves;
  for (int stage = 0; stage < 4; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      curves[{stage, kind}] = perseus_curve(sample.profile().measurements(stage, kind), kMillisecondS, 80);
    }
  }
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    const PerseusCurve& curve = curves.at({dag.ops[op].stage, dag.ops[op].kind});
    ASSERT_GE(solution.op_units[op], curve.fastest_units());
    ASSERT_LE(solution.op_units[op], curve.slowest_units());
    energy_j += curve.effective_energy_j[static_cast<std::size_t>(solution.op_units[op] - curve.fastest_units())];
    times.push_back(solution.op_units[op] * kMillisecondS);
  }
  std::vector<double> start(times.size());
  EXPECT_NEAR(simulator::TimingGraph(dag).start_times(times, start), solution.time_s, 1e-9);
  EXPECT_NEAR(energy_j, solution.energy_j, 1e-6);
}

TEST(PerseusModel, StartsItsFitsFromTheInitialGuess) {
  const planner::SampleProblem sample = tiny_problem();
  PerseusOptions options{.unit_s = kMillisecondS, .noise = {}, .initial_guess = {}};
  for (int stage = 0; stage < 2; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      options.initial_guess[{stage, kind}] = {100, -0.4, 1};
    }
  }
  const PerseusModel searched(sample.problem(), kMillisecondS);
  const PerseusModel guessed(sample.problem(), options);
  ASSERT_EQ(guessed.frontier().size(), searched.frontier().size());
  for (std::size_t row = 0; row < searched.frontier().size(); ++row) {
    EXPECT_NEAR(guessed.frontier()[row].energy_j, searched.frontier()[row].energy_j, 1e-4);
  }
  options.initial_guess.erase({1, OpKind::backward});
  EXPECT_THROW(PerseusModel(sample.problem(), options), InputError);
}

TEST(PerseusModel, RefusesWhatItCannotDo) {
  const planner::SampleProblem sample = planner::four_stages(4);
  const PerseusModel model(sample.problem(), kMillisecondS);
  EXPECT_THROW((void)model.solve(model.fastest_s() - kMillisecondS), InputError);
  EXPECT_THROW((void)model.solve(-1), InputError);
  EXPECT_THROW((void)model.solve(std::nan("")), InputError);
  EXPECT_NO_THROW((void)model.solve(std::numeric_limits<double>::infinity()));
  EXPECT_THROW(PerseusModel(sample.problem(), 0), InputError);
  EXPECT_THROW(PerseusModel(sample.problem(), -kMillisecondS), InputError);
  EXPECT_THROW(PerseusModel(sample.problem(), std::nan("")), InputError);
  EXPECT_THROW(PerseusModel(sample.problem(), 1.0), InputError);    // longer than the ops
  EXPECT_THROW(PerseusModel(sample.problem(), 1e-12), InputError);  // far too many units
}

TEST(PerseusPolicy, PlansTheFastestWithoutADeadline) {
  const planner::SampleProblem sample = planner::four_stages(8);
  const planner::PolicyPlan plan = PerseusPolicy(kMillisecondS).plan(sample.problem(), std::nullopt);
  const PerseusModel model(sample.problem(), kMillisecondS);
  EXPECT_DOUBLE_EQ(plan.own_time_s.value(), model.fastest_s());
  EXPECT_NEAR(plan.own_energy_j.value(), model.frontier().back().energy_j, 1e-8);
  const simulator::Timeline fastest = replay_clocks(sample.problem(), max_clocks_mhz(sample.problem()));
  const simulator::Timeline replayed = replay_clocks(sample.problem(), plan.clocks_mhz);
  EXPECT_LT(replayed.energy_j_total, 0.98 * fastest.energy_j_total);
  EXPECT_LT(replayed.time_s, 1.02 * fastest.time_s);
}

TEST(PerseusPolicy, UsesNoMoreEnergyWhenGivenMoreTime) {
  const planner::SampleProblem sample = planner::four_stages(8);
  const PerseusPolicy policy(kMillisecondS);
  const double fastest_s = policy.plan(sample.problem(), std::nullopt).own_time_s.value();
  double energy_j = std::numeric_limits<double>::infinity();
  for (const double factor : {1.0, 1.02, 1.05, 1.1, 1.2, 2.0}) {
    const planner::PolicyPlan plan = policy.plan(sample.problem(), factor * fastest_s);
    EXPECT_LE(plan.own_energy_j.value(), energy_j + 1e-9);
    EXPECT_LE(plan.own_time_s.value(), factor * fastest_s + 1e-9);
    energy_j = plan.own_energy_j.value();
  }
}

TEST(PerseusPolicy, SaysHowFastItCanBe) {
  const planner::SampleProblem sample = planner::four_stages(4);
  EXPECT_THAT(error_of([&] { (void)PerseusPolicy(kMillisecondS).plan(sample.problem(), 0.1); }),
              HasSubstr("its fastest takes"));
}

TEST(PerseusPolicy, SaysWhereItHasNoFit) {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    profile.add(stage, OpKind::forward, {1410, 0.050, 20});
    profile.add(stage, OpKind::backward, {1410, 0.100, 40});
    profile.add(stage, OpKind::backward, {1000, 0.120, 35});
  }
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(2, 3), std::move(profile), kBlockingPowerW);
  const planner::PolicyPlan plan = PerseusPolicy(kMillisecondS).plan(sample.problem(), std::nullopt);
  EXPECT_THAT(plan.note, HasSubstr("no fit for 4"));
  EXPECT_EQ(plan.clocks_mhz.size(), sample.dag().ops.size());
}

TEST(IntrinsicSaving, CountsAgainstBlockingForTheRestOfTheTime) {
  profile::StageProfile profile(1);
  profile.add(0, OpKind::forward, {1410, 1.0, 300});
  profile.add(0, OpKind::backward, {1410, 2.0, 600});
  const planner::SampleProblem sample(schedule::one_f_one_b_schedule(1, 2), std::move(profile), 100);
  // Two microbatches take 6 s and 1800 J, and another 2 s of waiting 200 J.
  EXPECT_NEAR(perseus_intrinsic_saving_pct(sample.problem(), 8, 1500), 25, 1e-9);
}

}  // namespace
}  // namespace lowgear::policies
