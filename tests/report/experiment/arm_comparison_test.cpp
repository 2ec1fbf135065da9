#include "report/experiment/arm_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::experiment {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Ten steps of 100 tokens with this energy and time per token, and losses from 5 on.
RunRecord run_of(double energy_per_token_j, double time_per_token_s = 0.01, double loss_step = 0.1) {
  RunRecord run;
  run.source = "run";
  run.basis = Basis::simulated;
  for (int i = 0; i < 10; ++i) {
    run.steps.push_back({.number = i,
                         .work = 100,
                         .time_s = 100 * time_per_token_s,
                         .energy_j = 100 * energy_per_token_j,
                         .loss = 5 - loss_step * i});
  }
  return run;
}

ArmRun in_block(RunRecord record, int block, long long seed) { return {std::move(record), block, seed}; }

const ArmQuantity& quantity_of(const ArmComparison& comparison, std::size_t arm, Quantity quantity) {
  const auto found = std::ranges::find(comparison.arms[arm].quantities, quantity, &ArmQuantity::quantity);
  if (found == comparison.arms[arm].quantities.end()) throw std::out_of_range("the quantity is missing");
  return *found;
}

bool has(const ArmComparison& comparison, Quantity quantity) {
  return std::ranges::any_of(comparison.arms.front().quantities,
                             [&](const ArmQuantity& entry) { return entry.quantity == quantity; });
}

std::string refusal(std::vector<Arm> arms, const ComparisonOptions& options = {}) {
  return lowgear::error_of([&] { (void)compare_arms(std::move(arms), options); });
}

TEST(CompareArms, PairsByBlockSoThatDriftCancels) {
  // From block to block energy drifts by far more than the arms differ.
  std::vector<Arm> arms{{"full", {}}, {"planned", {}}};
  for (int block = 0; block < 3; ++block) {
    const double drift = 1 + 0.5 * block;
    const double noise = 0.001 * (block - 1);
    arms[0].runs.push_back(in_block(run_of(drift), block, block));
    arms[0].runs.push_back(in_block(run_of(drift), block, block));
    arms[1].runs.push_back(in_block(run_of(drift * (0.9 + noise)), block, block));
    arms[1].runs.push_back(in_block(run_of(drift * (0.9 + noise)), block, block));
  }
  const ArmComparison comparison = compare_arms(arms, {});
  EXPECT_EQ(comparison.baseline, "full");
  const ArmQuantity& energy = quantity_of(comparison, 1, Quantity::energy_per_work);
  EXPECT_TRUE(energy.paired);
  EXPECT_EQ(energy.difference_pct->count, 3) << "blocks, not runs";
  EXPECT_NEAR(energy.difference_pct->mean, -10, 0.01);
  EXPECT_LT(energy.difference_pct->range->high, -9.7);
  EXPECT_EQ(energy.verdict, Verdict::less);
  EXPECT_EQ(energy.value->count, 3);
  EXPECT_FALSE(quantity_of(comparison, 0, Quantity::energy_per_work).difference_pct) << "the baseline itself";
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::time_per_work).verdict, Verdict::no_difference);

  for (Arm& arm : arms) {
    for (ArmRun& run : arm.runs) run.block.reset();
  }
  const ArmComparison unpaired = compare_arms(arms, {});
  EXPECT_FALSE(quantity_of(unpaired, 1, Quantity::energy_per_work).paired);
  EXPECT_EQ(quantity_of(unpaired, 1, Quantity::energy_per_work).verdict, Verdict::no_difference);
}

TEST(CompareArms, RunsOfOneSeedAreNoIndependentLosses) {
  std::vector<Arm> arms{{"full", {}}, {"other", {}}};
  for (int block = 0; block < 6; ++block) {
    const int seed = block % 2;
    arms[0].runs.push_back(in_block(run_of(1, 0.01, 0.1 + 0.01 * seed), block, seed));
    arms[1].runs.push_back(in_block(run_of(1, 0.01, 0.1 + 0.011 * seed), block, seed));
  }
  const ArmComparison comparison = compare_arms(arms, {});
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::energy_per_work).difference_pct->count, 6);
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::loss_at_work).difference_pct->count, 2);
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::loss_at_work).verdict, Verdict::no_difference);
}

TEST(CompareArms, ComparesTheWorkThatAllRunsHaveDone) {
  RunRecord longer = run_of(1);
  for (RunStep step : run_of(2).steps) {
    step.number += 10;
    longer.steps.push_back(step);
  }
  const ArmComparison comparison = compare_arms({{"short", {{run_of(1), {}, {}}}}, {"long", {{longer, {}, {}}}}}, {});
  EXPECT_EQ(comparison.common_work, 1000);
  EXPECT_EQ(comparison.common_energy_j, 1000);
  EXPECT_DOUBLE_EQ(quantity_of(comparison, 1, Quantity::energy).value->mean, 1000);
  EXPECT_DOUBLE_EQ(quantity_of(comparison, 1, Quantity::energy_per_work).value->mean, 1);
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::energy).verdict, Verdict::too_few_runs);
}

/// `numbers` are those of steps that the run lacks.
RunRecord without(RunRecord run, const std::set<std::int64_t>& numbers) {
  std::erase_if(run.steps, [&](const RunStep& step) { return numbers.contains(step.number); });
  return run;
}

TEST(CompareArms, ARunDoesNotDifferFromItselfWithoutSomeSteps) {
  RunRecord run = run_of(1);
  for (RunStep& step : run.steps) {
    const double slower = step.number == 0 ? 5 : 1 + 0.01 * static_cast<double>(step.number * step.number);
    step.time_s *= slower;
    *step.energy_j *= slower * slower;
    step.loss.reset();
  }
  const std::vector<std::set<std::int64_t>> cases{{0}, {0, 1}, {1}, {5}, {9}, {8, 9}, {0, 5, 9}, {0, 2, 3, 6, 7, 8}};
  for (const std::set<std::int64_t>& lacking : cases) {
    const RunRecord other = without(run, lacking);
    // The third run lacks another step, and ends earlier.
    for (const RunRecord& third : {run, without(run, {4, 7, 8, 9})}) {
      const ArmComparison comparison =
          compare_arms({{"whole", {{run, {}, {}}}}, {"other", {{other, {}, {}}}}, {"third", {{third, {}, {}}}}}, {});
      ASSERT_EQ(comparison.arms[1].quantities.size(), 4U);
      for (std::size_t arm : {1U, 2U}) {
        for (const ArmQuantity& quantity : comparison.arms[arm].quantities) {
          EXPECT_EQ(quantity.difference_pct->mean, 0)
              << heading(quantity.quantity, comparison.unit) << ", without " << ::testing::PrintToString(lacking);
        }
      }
    }
  }
}

TEST(CompareArms, SaysHowManyStepsSomeRunLacks) {
  const RunRecord run = run_of(1);
  const auto compare = [&](const RunRecord& a, const RunRecord& b) {
    return compare_arms({{"a", {{a, {}, {}}}}, {"b", {{b, {}, {}}}}}, {});
  };
  const ArmComparison comparison = compare(without(run, {0, 9}), without(run, {5, 9}));
  EXPECT_EQ(comparison.common_work, 700);
  EXPECT_THAT(comparison.warnings, ElementsAre("left out of all runs: 2 iterations that some run lacks"));
  EXPECT_THAT(compare(run, without(run, {8, 9})).warnings, IsEmpty()) << "runs may end anywhere";
  EXPECT_THAT(
      refusal({{"a", {{without(run, {0, 1, 2, 3}), {}, {}}}}, {"b", {{without(run, {4, 5, 6, 7, 8, 9}), {}, {}}}}}),
      HasSubstr("run: has no iteration that all other runs have; report it by itself"));
}

TEST(CompareArms, MoneyAndEmissionsNeedAFactor) {
  const std::vector<Arm> arms{{"a", {{run_of(3600), {}, {}}}}};
  EXPECT_FALSE(has(compare_arms(arms, {}), Quantity::cost));
  EXPECT_FALSE(has(compare_arms(arms, {}), Quantity::emissions));
  ComparisonOptions options;
  options.price_per_kwh = 0.2;
  options.co2_g_per_kwh = 0;
  const ArmComparison comparison = compare_arms(arms, options);
  EXPECT_NEAR(quantity_of(comparison, 0, Quantity::cost).value->mean, 0.2, 1e-12) << "1000 tokens of 3600 J are 1 kWh";
  EXPECT_EQ(quantity_of(comparison, 0, Quantity::emissions).value->mean, 0) << "a factor of zero was given";
}

TEST(CompareArms, AnArmThatDoesNotReachTheLossSaysSo) {
  ComparisonOptions options;
  options.loss = 4.5;
  const ArmComparison comparison = compare_arms({{"fast", {{run_of(1), {}, {}}, {run_of(1.1), {}, {}}}},
                                                 {"slow", {{run_of(1, 0.01, 0.01), {}, {}}, {run_of(1), {}, {}}}}},
                                                options);
  const ArmQuantity& slow = quantity_of(comparison, 1, Quantity::energy_to_loss);
  EXPECT_EQ(slow.without, 1);
  EXPECT_EQ(slow.value->count, 1);
  EXPECT_EQ(slow.verdict, Verdict::too_few_runs);
  EXPECT_FALSE(has(compare_arms({{"fast", {{run_of(1), {}, {}}}}}, {}), Quantity::energy_to_loss));
}

TEST(CompareArms, ALossIsHeldAgainstTheMargin) {
  ComparisonOptions options;
  options.loss_margin_pct = 0.5;
  const auto arms = [](double other) {
    std::vector<Arm> result{{"base", {}}, {"other", {}}};
    for (int seed = 0; seed < 3; ++seed) {
      RunRecord run = run_of(1);
      result[0].runs.push_back(in_block(run, seed, seed));
      for (RunStep& step : run.steps) *step.loss *= other + 1e-4 * seed;
      result[1].runs.push_back(in_block(run, seed, seed));
    }
    return result;
  };
  EXPECT_EQ(quantity_of(compare_arms(arms(1.002), options), 1, Quantity::loss_at_work).within_margin, true);
  EXPECT_EQ(quantity_of(compare_arms(arms(1.02), options), 1, Quantity::loss_at_work).within_margin, false);
  EXPECT_FALSE(quantity_of(compare_arms(arms(1.02), {}), 1, Quantity::loss_at_work).within_margin);
  EXPECT_FALSE(quantity_of(compare_arms(arms(1.02), options), 1, Quantity::energy).within_margin);
}

TEST(CompareArms, HeldOutLossesAreComparedWhereEveryRunHasOne) {
  std::vector<Arm> arms{{"base", {}}, {"other", {}}};
  for (int seed = 0; seed < 3; ++seed) {
    RunRecord run = run_of(1);
    run.steps.back().held_out_loss = 2 + seed;
    arms[0].runs.push_back({run, {}, {}});
    run.steps.back().held_out_loss = (2 + seed) * (1.002 + 1e-4 * seed);
    arms[1].runs.push_back({run, {}, {}});
  }
  ComparisonOptions options;
  options.loss_margin_pct = 0.5;
  options.pairing = Pairing::by_order;
  const ArmComparison comparison = compare_arms(arms, options);
  const ArmQuantity& other = quantity_of(comparison, 1, Quantity::held_out_loss_at_work);
  EXPECT_NEAR(other.difference_pct->mean, 0.21, 1e-6);
  EXPECT_EQ(other.verdict, Verdict::more);
  EXPECT_EQ(other.within_margin, true);
  arms[1].runs[2].record.steps.back().held_out_loss.reset();
  EXPECT_FALSE(has(compare_arms(arms, options), Quantity::held_out_loss_at_work));
}

TEST(CompareArms, LeavesOutInvalidRunsAndTheirBlocks) {
  std::vector<Arm> arms{{"a", {}}, {"b", {}}};
  for (Arm& arm : arms) {
    for (int turn = 0; turn < 6; ++turn) arm.runs.push_back(in_block(run_of(1 + 0.01 * turn), turn / 2, 1));
  }
  arms[1].runs[3].record.invalid = "the machine stood still";
  const ArmComparison comparison = compare_arms(arms, {});
  EXPECT_THAT(comparison.warnings, ElementsAre(HasSubstr("left out as invalid")));
  EXPECT_EQ(comparison.arms[1].runs, 5);
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::energy).value->count, 2) << "its block is no longer balanced";
  EXPECT_EQ(quantity_of(comparison, 1, Quantity::energy).difference_pct->count, 2);
  for (ArmRun& run : arms[1].runs) run.record.invalid = "the machine stood still";
  EXPECT_THAT(refusal(arms), HasSubstr("\"b\" has no valid run"));
}

TEST(CompareArms, RefusesWorkThatEndsWhileARunIsMarkedInvalid) {
  RunRecord recovered = run_of(1);
  for (int i = 0; i < 4; ++i) recovered.steps[static_cast<std::size_t>(i)].invalid = true;
  const auto against = [&](std::size_t steps) {
    RunRecord shorter = run_of(1);
    shorter.steps.resize(steps);
    return std::vector<Arm>{{"a", {{recovered, {}, {}}}}, {"b", {{shorter, {}, {}}}}};
  };
  EXPECT_THAT(refusal(against(4)), HasSubstr("step 3, the last one that is compared, is marked invalid"));
  EXPECT_EQ(refusal(against(5)), "no error");
}

TEST(CompareArms, WarnsOfRunsOnTheSameGpusAtTheSameTime) {
  RunRecord a = run_of(1);
  RunRecord b = run_of(1);
  a.source = "a";
  b.source = "b";
  const std::vector<GpuUse> early{{0, 10, 20}, {1, 20, 30}};
  const std::vector<GpuUse> amid{{0, 15, 25}, {1, 25, 40}};
  const std::vector<GpuUse> late{{0, 30, 35}, {1, 35, 40}};
  a.gpus = {{"GPU-0", "boot", early}, {"GPU-0", "boot", early}, {"GPU-1", "boot", early}};
  b.gpus = {{"GPU-0", "boot", amid}, {"GPU-1", "boot", amid}};
  const auto warnings = [&] { return compare_arms({{"a", {{a, {}, {}}}}, {"b", {{b, {}, {}}}}}, {}).warnings; };
  EXPECT_THAT(warnings(), ElementsAre("recordings a and b used the same GPUs at the same time: the energy of both "
                                      "counts in iterations that are compared"));
  b.gpus = {{"GPU-0", "boot", late}, {"GPU-1", "another boot", amid}, {"GPU-2", "boot", amid}};
  EXPECT_THAT(warnings(), IsEmpty());
  const GpuUse uncompared{99, 40, 50};
  a.gpus[0].uses.push_back(uncompared);
  b.gpus = {{"GPU-0", "boot", {{0, 30, 35}, {1, 35, 40}, uncompared}}};
  EXPECT_THAT(warnings(), IsEmpty()) << "no iteration that is compared";
  b.gpus[0].uses[1].end_s = 45;
  EXPECT_THAT(warnings(), testing::SizeIs(1)) << "those that are not compared take energy, too";
}

TEST(CompareArms, NeverMixesKindsOfEnergy) {
  RunRecord real = run_of(1);
  real.basis = Basis::measured;
  RunRecord none = run_of(1);
  none.basis.reset();
  RunRecord recorded = run_of(1);
  recorded.unit = WorkUnit::iteration;
  const Arm simulated{"a", {{run_of(1), {}, {}}}};
  EXPECT_THAT(refusal({simulated, {"b", {{real, {}, {}}}}}), HasSubstr("has measured energy, while run has simulated"));
  EXPECT_THAT(refusal({simulated, {"b", {{none, {}, {}}}}}), HasSubstr("has no energy"));
  EXPECT_THAT(refusal({simulated, {"b", {{recorded, {}, {}}}}}), HasSubstr("--tokens-per-iteration"));
}

TEST(CompareArms, RefusesArmsThatAreNotThere) {
  const Arm arm{"a", {{run_of(1), {}, {}}}};
  ComparisonOptions options;
  options.baseline = "b";
  EXPECT_THAT(refusal({arm}, options), HasSubstr("there is no arm \"b\"; the arms are a"));
  EXPECT_THAT(refusal({arm, arm}), HasSubstr("two arms are named \"a\""));
  EXPECT_THAT(refusal({}), HasSubstr("no run"));
  EXPECT_THAT(refusal({arm, {"empty", {}}}), HasSubstr("no valid run"));
}

TEST(CompareArms, WithoutEnergiesItComparesTimesAndLosses) {
  RunRecord run = run_of(1);
  run.basis.reset();
  for (RunStep& step : run.steps) step.energy_j.reset();
  const ArmComparison comparison = compare_arms({{"a", {{run, {}, {}}}}}, {});
  EXPECT_FALSE(comparison.basis);
  EXPECT_FALSE(has(comparison, Quantity::energy));
  EXPECT_FALSE(has(comparison, Quantity::loss_at_energy));
  EXPECT_TRUE(has(comparison, Quantity::time));
  EXPECT_TRUE(has(comparison, Quantity::loss_at_work));
}

TEST(CompareArms, CurvesEndAtTheCommonWork) {
  const ArmComparison comparison = compare_arms({{"a", {{run_of(1), {}, {}}}}}, {});
  const std::vector<LearningPoint>& curve = comparison.arms[0].curve;
  ASSERT_EQ(curve.size(), 10U);
  EXPECT_EQ(curve.back().work, 1000);
  EXPECT_DOUBLE_EQ(curve.back().energy_j, 1000);
  EXPECT_NEAR(curve.back().loss, 4.1, 1e-12);
  RunRecord without = run_of(1);
  for (RunStep& step : without.steps) step.loss.reset();
  EXPECT_THAT(compare_arms({{"a", {{without, {}, {}}}}}, {}).arms[0].curve, IsEmpty());
}

TEST(CompareArms, CurvesOfEqualLossesAreEqual) {
  RunRecord longer = run_of(1);
  for (int i = 0; i < 9; ++i) longer.steps.push_back(longer.steps.back());
  const auto points_of = [](const ComparedArm& arm) {
    std::vector<std::pair<double, double>> points;
    for (const LearningPoint& point : arm.curve) points.emplace_back(point.work, point.loss);
    return points;
  };
  const ArmComparison comparison = compare_arms({{"a", {{run_of(1), {}, {}}}}, {"b", {{longer, {}, {}}}}}, {});
  EXPECT_EQ(points_of(comparison.arms[0]), points_of(comparison.arms[1]));
  EXPECT_EQ(comparison.arms[1].curve.front().work, 100) << "the end of a step";

  for (int i = 0; i < 131; ++i) longer.steps.push_back(longer.steps.back());
  const std::vector<LearningPoint> thinned = compare_arms({{"b", {{longer, {}, {}}}}}, {}).arms[0].curve;
  EXPECT_EQ(thinned.size(), 100U);
  EXPECT_EQ(thinned.back().work, 15'000);
  for (const LearningPoint& point : thinned) EXPECT_EQ(std::fmod(point.work, 100), 0) << point.work;
}

TEST(CompareArms, MembersNameTheirUnit) {
  EXPECT_EQ(member_name(Quantity::energy_per_work, WorkUnit::token), "energy_per_token_j");
  EXPECT_EQ(member_name(Quantity::loss_at_work, WorkUnit::iteration), "loss_at_equal_iterations");
  EXPECT_EQ(heading(Quantity::energy_per_work, WorkUnit::iteration), "J/iteration");
}

}  // namespace
}  // namespace lowgear::experiment
