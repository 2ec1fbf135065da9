#include "rivals/evaluation/emulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "planning/profile/profile_file.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::evaluation {
namespace {

constexpr double kPowerW = 80;

/// Two stages, two clocks.
profile::StageProfile two_stages() {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const double time_s = (kind == OpKind::forward ? 0.1 : 0.2) * (1 + 0.2 * stage);
      profile.add(stage, kind, {1400, time_s, 300 * time_s});
      profile.add(stage, kind, {1000, 1.3 * time_s, 290 * time_s});
    }
  }
  return profile;
}

EmulationCase case_of(const profile::StageProfile& profile, int microbatches, double power_w, double unit_s = 1e-3) {
  return {.profile = &profile,
          .microbatches = microbatches,
          .device = {.device = {}, .gpu = {}, .blocking_power_w = power_w, .unit_s = unit_s}};
}

TEST(Emulation, SumsTheEnergiesOfAllGpus) {
  const profile::StageProfile profile = two_stages();
  const EmulationCase emulation = case_of(profile, 4, kPowerW);
  const std::array<double, 3> factors{1.0, 1.1, 1.5};
  const auto accounting = simulator::Accounting::corrected;
  const Emulation cluster = emulate(emulation, {16, 8}, factors, PlansOf::lowgear, accounting);
  EXPECT_EQ(cluster.gpus, 2 * 16 * 8);
  ASSERT_EQ(cluster.stragglers.size(), 3U);
  const auto plans = plans_of_lowgear(emulation, factors);
  const std::vector<double> power_w(2, kPowerW);
  const double max_j = simulator::max_clock_energy_j(profile, 4, cluster.fastest.time_s, power_w);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const EmulatedStraggler& straggler = cluster.stragglers[i];
    const double end_s = factors[i] * cluster.fastest.time_s;
    EXPECT_DOUBLE_EQ(straggler.time_s, end_s);
    const double waiting_j = 2 * kPowerW * (end_s - cluster.fastest.time_s);
    EXPECT_NEAR(straggler.baseline_j, 8 * (factors[i] * max_j + 15 * (max_j + waiting_j)), 1e-6);
    const simulator::PipelineFigures& plan = plans[i + 1];
    const double other_j = plan.energy_j + 2 * kPowerW * (end_s - plan.time_s);
    EXPECT_NEAR(straggler.energy_j, 8 * (factors[i] * cluster.fastest.energy_j + 15 * other_j), 1e-6);
  }
  EXPECT_NEAR(cluster.stragglers[0].saving_pct, cluster.intrinsic_pct, 1e-9) << "a straggler as fast as the others";
  EXPECT_NEAR(cluster.stragglers[0].extrinsic_pct, 0, 1e-9);
  EXPECT_GT(cluster.stragglers[2].extrinsic_pct, 0);
}

TEST(Emulation, PercentagesDoNotDependOnTensorParallelism) {
  const profile::StageProfile profile = two_stages();
  const std::array<double, 1> factors{1.2};
  const auto of = [&](int tensor_parallel) {
    return emulate(case_of(profile, 4, kPowerW), {16, tensor_parallel}, factors, PlansOf::perseus,
                   simulator::Accounting::published);
  };
  EXPECT_DOUBLE_EQ(of(1).stragglers[0].saving_pct, of(8).stragglers[0].saving_pct);
  EXPECT_DOUBLE_EQ(8 * of(1).stragglers[0].energy_j, of(8).stragglers[0].energy_j);
}

TEST(Emulation, RefusesWhatIsNoCluster) {
  const profile::StageProfile profile = two_stages();
  const std::array<double, 1> factors{1.2};
  const auto accounting = simulator::Accounting::corrected;
  EXPECT_THROW((void)emulate(case_of(profile, 4, kPowerW), {0, 8}, factors, PlansOf::lowgear, accounting), InputError);
  EXPECT_THROW((void)emulate(case_of(profile, 4, kPowerW), {1, 0}, factors, PlansOf::lowgear, accounting), InputError);
}

/// Figure 8: the largest extrinsic saving over all factors and where it is, as the artifact's own data give it.
struct Peak {
  std::string model;
  std::string device;
  int microbatches;
  double factor;
  double extrinsic_pct;
};

TEST(Emulation, HasTheExtrinsicSavingsOfPerseusFigure8) {
  const std::vector<Peak> peaks = {{"gpt3-175b", "a100_sxm", 12, 1.13, 12.3},
                                   {"gpt3-175b", "a100_sxm", 96, 1.15, 16.5},
                                   {"bloom", "a40", 12, 1.11, 13.5}};
  for (const Peak& peak : peaks) {
    const std::string file = "perseus/stage_profile/" + peak.model + "+" + peak.device + "_bf16.csv";
    const auto text = simulator::read_shared(file);
    if (!text) GTEST_SKIP() << simulator::kNoSharedData;
    const profile::StageProfile profile = profile::read_profile_file(*text, file).profile;
    const bool a40 = peak.device == "a40";
    std::vector<double> factors;
    for (int pct = 101; pct <= 150; ++pct) factors.push_back(pct / 100.0);
    const Emulation found =
        emulate(case_of(profile, peak.microbatches, a40 ? 70.38 : 83.64, a40 ? 1e-4 : 1e-3),
                {1536 / peak.microbatches, 8}, factors, PlansOf::perseus, simulator::Accounting::published);
    const auto most = std::ranges::max_element(found.stragglers, {}, &EmulatedStraggler::extrinsic_pct);
    EXPECT_NEAR(most->extrinsic_pct, peak.extrinsic_pct, 0.05) << file << " " << peak.microbatches;
    EXPECT_NEAR(most->factor, peak.factor, 0.0101) << file << " " << peak.microbatches;
  }
}

}  // namespace
}  // namespace lowgear::evaluation
