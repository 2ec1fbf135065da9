#include "rivals/policies/envpipe/envpipe_sweep.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/core/error.h"

namespace lowgear::policies {
namespace {

constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

TEST(EnvPipeMean, LeavesOutWhatIsAStandardDeviationOffTheMean) {
  EXPECT_DOUBLE_EQ(envpipe_mean(std::vector<double>{1, 2, 9}), 4) << "of three all count";
  // Mean 10/3, standard deviation 4.7: only the last one is further off.
  EXPECT_DOUBLE_EQ(envpipe_mean(std::vector<double>{1, 1, 1, 2, 1, 14}), 1.2);
  EXPECT_DOUBLE_EQ(envpipe_mean(std::vector<double>{5, 5, 5, 5}), 5) << "EnvPipe's own code divides by zero here";
}

TEST(EnvPipeProfiledClocks, AreAtLeastAStepApartFromTheHighestOneDown) {
  EXPECT_EQ(envpipe_profiled_clocks_mhz(std::vector<int>{1410, 1395, 1350, 1320, 1305, 1230, 1140}, 90),
            (std::vector<int>{1410, 1320, 1230, 1140}));
}

/// Two ranks, of which the first uses least energy at 1260 MHz and the other at 1170.
EnvPipeSample sample(int rank, int clock_mhz) {
  const double off = clock_mhz - (rank == 0 ? 1260 : 1170);
  return {.energy_j = 100 + off * off, .forward_time_s = 1e3 / clock_mhz, .backward_time_s = 2e3 / clock_mhz};
}

EnvPipeFindings sweep(EnvPipeOptions::Type type) {
  EnvPipeSweep sweep({1350, 1260, 1170}, 2, type);
  EXPECT_EQ(sweep.steps_left(), 18);
  std::vector<int> last_rank;
  while (!sweep.is_finished()) {
    const std::vector<int> clocks = sweep.rank_clocks_mhz();
    last_rank.push_back(clocks[1]);
    EXPECT_EQ(sweep.observe(std::vector<EnvPipeSample>{sample(0, clocks[0]), sample(1, clocks[1])}), "");
  }
  EXPECT_EQ(last_rank.size(), 18U);
  EXPECT_EQ(last_rank.back(), type == EnvPipeOptions::Type::uniform ? 1170 : 1350);
  EXPECT_EQ(sweep.steps_left(), 0);
  return sweep.findings();
}

TEST(EnvPipeSweep, FindsTheClockOfLeastEnergyOfEachRank) {
  const EnvPipeFindings uniform = sweep(EnvPipeOptions::Type::uniform);
  EXPECT_EQ(uniform.optimal_mhz, (std::vector<int>{1260, 1170}));
  EXPECT_DOUBLE_EQ(uniform.stages[0].forward_time_s, 1e3 / 1260);
  EXPECT_DOUBLE_EQ(uniform.stages[0].backward_time_s, 2e3 / 1350) << "at the highest clock";
  EXPECT_EQ(sweep(EnvPipeOptions::Type::envelope).optimal_mhz, (std::vector<int>{1260, 1350}));
}

TEST(EnvPipeSweep, RepeatsAStepThatIsIncomplete) {
  EnvPipeSweep sweep({1350, 1260}, 2, EnvPipeOptions::Type::envelope);
  const EnvPipeSample whole{.energy_j = 1, .forward_time_s = 1, .backward_time_s = 1};
  EnvPipeSample without_energy = whole;
  without_energy.energy_j = kNotMeasured;
  EnvPipeSample without_times = whole;
  without_times.backward_time_s = kNotMeasured;
  EXPECT_EQ(sweep.observe(std::vector<EnvPipeSample>{whole, without_energy}), "no energy was measured of rank 1");
  EXPECT_EQ(sweep.observe(std::vector<EnvPipeSample>{without_times, whole}),
            "no times of units were measured of rank 0");
  EXPECT_EQ(sweep.steps_left(), 12);
}

TEST(EnvPipeOrder, FillsTheWaitForTheFirstGradientAsFarAsMemoryAdmits) {
  EnvPipeFindings found{.optimal_mhz = {1080, 1080, 1080, 1350}, .stages = {}};
  found.stages.assign(4, {.forward_time_s = 1.3, .backward_time_s = 2, .extra_activations = {}});
  // floor(2 * 3 / 1.3), floor(2 * 2 / 1.3), floor(2 / 1.3), 0.
  EXPECT_EQ(envpipe_order(8, found, {8}).early_forwards, (std::vector<int>{4, 3, 1, 0}));
  EXPECT_EQ(envpipe_order(8, found, {8}).note, "");
  const EnvPipeOrder narrow = envpipe_order(8, found, {2});
  EXPECT_EQ(narrow.early_forwards, (std::vector<int>{2, 2, 1, 0}));
  EXPECT_EQ(narrow.note, "memory admits 2 2 1 0 early forwards by stage, its rule asks for 4 3 1 0");
  EXPECT_EQ(envpipe_order(8, found, {}).early_forwards, (std::vector<int>{0, 0, 0, 0}));
  EXPECT_THROW((void)envpipe_order(8, found, {1, 1}), InputError);
}

}  // namespace
}  // namespace lowgear::policies
