#include "estimating/estimator/gpu/gpu_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "estimating/estimator/gpu/test_name_of_gpu.h"
#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/iteration/roofline_estimate.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/estimator/power/power_model.h"
#include "planning/profile/profile_file.h"

namespace lowgear::estimator {

namespace {

/// Clocks are found to within a millionth of their range.
constexpr double kTolerance = 1e-5;
constexpr int kLimits = 31;

TrainingJob job_on(const std::string& gpu) {
  TrainingJob job;
  job.model = named_model("llama-2-7b");
  job.gpu = named_gpu(gpu);
  job.cluster = default_cluster(job.gpu);
  job.parallel = {.dp = 2, .tp = 2, .pp = 2};
  job.batch = {.global = 16, .micro = 1, .sequence_length = 4096};
  job.dtype = DataType::fp16;
  return job;
}

IterationEstimate estimate_under(TrainingJob& job, double limit_w) {
  set_power_limit(job.gpu, limit_w);
  return estimate(job);
}

double mean_power_w(const TrainingJob& job, const IterationEstimate& iteration) {
  return estimate_energy(job, iteration).total_j() / iteration.time_s / job.parallel.gpus();
}

double pass_power_w(const GpuModel& gpu, const WorkCost& pass) {
  return WorkEnergy(gpu, pass).at_clock(gpu.clocks.max_mhz).power_w();
}

/// What a job takes under a limit.
struct Limited {
  double limit_w = 0;
  double time_s = 0;
  double power_w = 0;       ///< mean of the iteration, of a GPU
  double pass_power_w = 0;  ///< of a backward
};

/// From the lowest limit to the highest.
std::vector<Limited> under_all_limits(TrainingJob job) {
  const ValueRange range = allowed_power_limit_w(job.gpu);
  std::vector<Limited> all;
  for (int i = 0; i < kLimits; ++i) {
    const double limit_w = range.lowest + (range.highest - range.lowest) * i / (kLimits - 1);
    const IterationEstimate iteration = estimate_under(job, limit_w);
    all.push_back(
        {limit_w, iteration.time_s, mean_power_w(job, iteration), pass_power_w(job.gpu, iteration.stages[1].backward)});
  }
  return all;
}

class PowerLimit : public testing::TestWithParam<std::string> {};

TEST_P(PowerLimit, LowerIsNeverFasterAndNeverDrawsMore) {
  const std::vector<Limited> all = under_all_limits(job_on(GetParam()));
  const auto slower = std::ranges::adjacent_find(
      all, [](const Limited& lower, const Limited& higher) { return higher.time_s > lower.time_s * (1 + 1e-12); });
  EXPECT_EQ(slower, all.end());
  for (const auto power : {&Limited::power_w, &Limited::pass_power_w}) {
    const auto hungrier = std::ranges::adjacent_find(all, [power](const Limited& lower, const Limited& higher) {
      return lower.*power > higher.*power * (1 + kTolerance);
    });
    EXPECT_EQ(hungrier, all.end());
  }
  EXPECT_TRUE(std::ranges::all_of(
      all, [](const Limited& limited) { return limited.pass_power_w <= limited.limit_w * (1 + kTolerance); }));
}

TEST_P(PowerLimit, OfTheDataSheetChangesNothing) {
  TrainingJob job = job_on(GetParam());
  const IterationEstimate usual = estimate(job);
  const profile::StageProfile usual_profile = emitted_profile(job.gpu, usual);
  const double usual_j = estimate_energy(job, usual).total_j();
  const IterationEstimate same = estimate_under(job, named_gpu(GetParam()).power.limit_w);
  EXPECT_EQ(same.time_s, usual.time_s);
  EXPECT_EQ(same.error_s, usual.error_s);
  EXPECT_EQ(same.notes, usual.notes);
  EXPECT_EQ(estimate_energy(job, same).total_j(), usual_j);
  EXPECT_EQ(profile::write_profile_file({.profile = emitted_profile(job.gpu, same)}),
            profile::write_profile_file({.profile = usual_profile}));
  EXPECT_EQ(describe(job.gpu), GetParam());
}

TEST_P(PowerLimit, BoundsWorkOfMultiprocessors) {
  GpuModel gpu = named_gpu(GetParam());
  const WorkCost work{.core_s = 1, .error_s = 0.1};
  const double limit_w = 0.7 * gpu.power.limit_w;
  set_power_limit(gpu, limit_w);
  const WorkCost limited = under_power_limit(gpu, work);
  EXPECT_GT(limited.core_s, 1.01);
  EXPECT_NEAR(limited.error_s, 0.1 * limited.core_s, 1e-12);
  EXPECT_NEAR(pass_power_w(gpu, limited), limit_w, 1e-3 * limit_w);
}

INSTANTIATE_TEST_SUITE_P(AllGpus, PowerLimit, testing::ValuesIn(gpu_names()), test_name_of_gpu);

/// Power is 50 W awake, and 400 W of compute in proportion to clock x V^2, which is clock / 4 up to 500 MHz.
TEST(UnderPowerLimit, TakesTimeInProportionToTheClocksOfBothLimits) {
  GpuModel gpu;
  gpu.clocks = {100, 1000, 10};
  gpu.power = {.static_w = 50,
               .compute_w = 400,
               .limit_w = 75,
               .kernel_limit_w = 90,
               .voltage = power::VoltageCurve(std::vector<power::VoltagePoint>{{500, 0.25}, {1000, 1}}, 500)};
  const WorkCost limited = under_power_limit(gpu, {.core_s = 1});
  // 50 W + 100 W x f / 1000 MHz: 400 MHz at 90 W, 250 MHz at 75 W.
  EXPECT_NEAR(limited.core_s, 400.0 / 250, 1e-4);
  gpu.power.limit_w = 100;
  EXPECT_NEAR(under_power_limit(gpu, {.core_s = 1}).core_s, 400.0 / 500, 1e-4) << "a higher limit is faster";
}

TEST(UnderPowerLimit, LeavesWhatMemoryAndLinksLimitAsItIs) {
  GpuModel gpu = named_gpu("h100-sxm");
  set_power_limit(gpu, 400);
  const WorkCost limited = under_power_limit(gpu, {.core_s = 2, .memory_s = 1, .link_s = 0.5});
  EXPECT_GT(limited.core_s, 2);
  EXPECT_EQ(limited.memory_s, 1);
  EXPECT_EQ(limited.link_s, 0.5);
  EXPECT_EQ(under_power_limit(gpu, {}).time_s(), 0);
}

TEST(EstimateIteration, PartsAddUpUnderAPowerLimit) {
  TrainingJob job = job_on("h100-sxm");
  const IterationEstimate usual = estimate(job);
  const IterationEstimate limited = estimate_under(job, 500);
  for (std::size_t i = 0; i < limited.stages.size(); ++i) {
    const StageEstimate& stage = limited.stages[i];
    EXPECT_NEAR(time_s_of(stage.forward_items), stage.forward.time_s(), 1e-9);
    EXPECT_GT(stage.backward.time_s(), usual.stages[i].backward.time_s());
    EXPECT_GT(stage.weight_gradient.time_s(), usual.stages[i].weight_gradient.time_s());
    EXPECT_LT(stage.weight_gradient.time_s(), stage.backward.time_s());
  }
  ASSERT_EQ(limited.notes.size(), usual.notes.size() + 1);
  EXPECT_NE(limited.notes[0].find("500 W, not the data sheet's 700 W"), std::string::npos) << limited.notes[0];
}

TEST(EstimateIteration, SaysWhichPowerLimitsItCannotHold) {
  TrainingJob job = job_on("h100-sxm");
  job.gpu.power.kernel_limit_w = job.gpu.power.limit_w;
  job.gpu.power.limit_w = 150;  // below what memory alone draws
  const std::vector<std::string> notes = estimate(job).notes;
  ASSERT_GE(notes.size(), 2U);
  EXPECT_NE(notes[1].find("some passes draw more than 150 W at the lowest clock"), std::string::npos) << notes[1];
}

TEST(MemoryBandwidth, ChangesTimesAndLeavesTheEnergyOfAByte) {
  TrainingJob job = job_on("h100-sxm");
  const double usual_s = estimate(job).time_s;
  set_memory_bandwidth(job.gpu, job.gpu.memory_bytes_per_s);
  EXPECT_EQ(estimate(job).time_s, usual_s);
  const double joules_a_byte = job.gpu.power.memory_w / job.gpu.memory_bytes_per_s;
  set_memory_bandwidth(job.gpu, 2400e9);
  EXPECT_GT(estimate(job).time_s, usual_s);
  EXPECT_DOUBLE_EQ(job.gpu.power.memory_w / job.gpu.memory_bytes_per_s, joules_a_byte);
}

TEST(Describe, SaysWhatIsNotAsUsual) {
  GpuModel gpu = named_gpu("h100");
  EXPECT_EQ(describe(gpu), "h100-sxm");
  set_power_limit(gpu, 500);
  EXPECT_EQ(describe(gpu), "h100-sxm (500 W)");
  gpu.memory_bytes = 96.0 * (1U << 30);
  set_memory_bandwidth(gpu, 2400e9);
  EXPECT_EQ(describe(gpu), "h100-sxm (500 W, 96 GB, 2400 GB/s)");
}

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// One stage of 50 and 100 ms at 300 W, in the units that the factors make of them.
profile::StageProfile profile_in(double time_factor, double energy_factor) {
  profile::StageProfile profile(1);
  for (const auto& [kind, time_s] : {std::pair{OpKind::forward, 0.05}, std::pair{OpKind::backward, 0.1}}) {
    profile.add(0, kind, {1400, time_s * time_factor, 300 * time_s * energy_factor});
  }
  return profile;
}

/// The doubts, or the refusal.
std::string doubts_of(const profile::StageProfile& profile, const profile::ProfileContext& context) {
  try {
    return fmt::format("{}", fmt::join(profile_doubts(profile, context), "\n"));
  } catch (const InputError& error) {
    return fmt::format("refused: {}", error.what());
  }
}

std::string doubt(double time_factor, double energy_factor, const std::vector<double>& blocking_power_w) {
  return doubts_of(profile_in(time_factor, energy_factor), {.source = "p.csv", .blocking_power_w = blocking_power_w});
}

TEST(Plausibility, SaysNothingOfSecondsJoulesAndWatts) {
  EXPECT_EQ(doubt(1, 1, {}), "");
  EXPECT_EQ(doubt(1, 1, {75, 80}), "");
  EXPECT_THAT(doubt(1, 1, {0}), HasSubstr("time that a GPU waits is planned to cost nothing"));
}

TEST(Plausibility, NamesTheLikelyUnitOfAProfile) {
  EXPECT_THAT(doubt(1e3, 1, {75}),
              AllOf(StartsWith("refused: p.csv: check the units"), HasSubstr("times look like milliseconds")));
  EXPECT_THAT(doubt(1e6, 1, {75}), HasSubstr("times look like microseconds"));
  EXPECT_THAT(doubt(1, 1e3, {75}), AllOf(StartsWith("refused: p.csv: "), HasSubstr("energies look like millijoules")));
  EXPECT_THAT(doubt(1e3, 1e3, {75}), HasSubstr("milliseconds and millijoules"));
  EXPECT_THAT(doubt(1e6, 1e3, {75}), AllOf(StartsWith("refused: "), HasSubstr("microseconds and millijoules")));
}

TEST(Plausibility, KnowsThePowerLimitOfAGpuByBothItsNames) {
  const auto limit_w = [](const char* name) {
    return power_limit_of(name).value_or(profile::NamedPowerLimit{}).limit_w;
  };
  EXPECT_EQ(limit_w("NVIDIA H100 80GB HBM3"), 700);
  EXPECT_EQ(limit_w("NVIDIA H100 PCIe"), 350);
  EXPECT_EQ(limit_w("NVIDIA H200"), 700);
  EXPECT_EQ(limit_w("NVIDIA A100-SXM4-80GB"), 400);
  EXPECT_EQ(limit_w("NVIDIA A100 80GB PCIe"), 300);
  EXPECT_EQ(limit_w("NVIDIA A40"), 300);
  EXPECT_EQ(limit_w("h100-sxm"), 700);
  EXPECT_EQ(limit_w("H100 SXM"), 700);
  EXPECT_EQ(limit_w("h100"), 700);
  for (const char* unknown : {"", "NVIDIA A400", "NVIDIA H200 NVL", "NVIDIA H100 NVL", "NVIDIA A100-PCIE-40GB"}) {
    EXPECT_EQ(power_limit_of(unknown), std::nullopt) << unknown;
  }
}

TEST(Plausibility, HoldsPowersAgainstTheLimitOfTheGpu) {
  const auto on_a40 = [](double energy_factor) {
    return doubts_of(profile_in(1, energy_factor), {.gpu = power_limit_of("NVIDIA A40")});
  };
  EXPECT_EQ(on_a40(1), "") << "300 W of 300 W";
  EXPECT_EQ(on_a40(1.1), "") << "a limit is overshot for a moment";
  EXPECT_THAT(on_a40(1.5), StartsWith("check the units of the profile: its ops draw 450 W"));
  EXPECT_THAT(on_a40(8), AllOf(StartsWith("refused: "), HasSubstr("its ops draw 2400 W"),
                               HasSubstr("the power limit of NVIDIA A40 (300 W)"),
                               HasSubstr("those of several GPUs together: give the joules of one")));
  EXPECT_THAT(on_a40(1e3), AllOf(HasSubstr("the power limit of NVIDIA A40"), HasSubstr("look like millijoules")));
}

TEST(Plausibility, RefusesOpsAboveTheLimitOfTheNamedGpuUnlessUnitsAreAccepted) {
  const auto on_a100 = [](double energy_factor, profile::ImpossibleUnits units) {
    return doubts_of(profile_in(1, energy_factor), {.gpu = power_limit_of("a100"), .units = units});
  };
  using enum profile::ImpossibleUnits;
  for (const double gpus : {2, 4, 8}) {
    EXPECT_THAT(on_a100(gpus, refuse_unless_accepted),
                AllOf(StartsWith("refused: "), HasSubstr("the power limit of a100 (400 W)"),
                      HasSubstr("those of several GPUs together"), HasSubstr("--accept-units")))
        << gpus;
    EXPECT_THAT(on_a100(gpus, accept), StartsWith("check the units of the profile: its ops draw")) << gpus;
  }
  EXPECT_EQ(on_a100(1.3, refuse_unless_accepted), "") << "390 W";
}

TEST(Plausibility, LooksAtAllOpsBeforeOneRow) {
  EXPECT_EQ(doubt(1, 2.6, {}), "") << "some GPUs draw 780 W";
  EXPECT_THAT(doubt(1, 4, {}), AllOf(StartsWith("check the energies of the profile: its ops draw 1200 W (median)"),
                                     HasSubstr("several GPUs together"), HasSubstr("--gpu")));
  profile::StageProfile of_eight = profile_in(1, 8);
  of_eight.add(0, OpKind::recomputation, {1400, 0.05, 0.05 * 3796});
  EXPECT_THAT(doubts_of(of_eight, {.units = profile::ImpossibleUnits::refuse_unless_accepted}),
              AllOf(StartsWith("refused: check the energies of the profile: its ops draw 2400 W (median) and up to "
                               "3796 W, more than any GPU draws"),
                    HasSubstr("several GPUs together"), HasSubstr("--accept-units")));
  EXPECT_THAT(doubts_of(of_eight, {.units = profile::ImpossibleUnits::accept}), StartsWith("check the energies"));
}

TEST(Plausibility, NamesTheLikelyUnitOfBlockingPower) {
  EXPECT_THAT(doubt(1, 1, {75, 75000}), HasSubstr("milliwatts"));
  EXPECT_THAT(doubt(1, 1, {0.075}), HasSubstr("kilowatts"));
  EXPECT_THAT(doubt(1, 1, {400}), HasSubstr("draws less than one that computes"));
}

}  // namespace

}  // namespace lowgear::estimator
