#include "estimating/curve/curve_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/probability.h"

namespace lowgear::curve {
namespace {

using testing::HasSubstr;

constexpr int kMultiprocessors = 132;

/// A GPU whose power is known at every load, and which lowers its clock to its limit by itself.
struct SyntheticGpu {
  double max_mhz = 1980;
  double static_w = 110;
  double per_k_w = 0.4;
  double tree_share = 0.3;
  double limit_w = 700;
  double floor_mhz = 0;  ///< the voltage does not fall below this clock
  double fp8_pj = 0.7;
  double bf16_pj = 1.3;
  double byte_pj = 90;
  double cache_fixed_pj = 25;
  double cache_clocked_pj = 15;
  double awake_memory_w = 40;
  double loss_per_kw = 0.2;
  double noise = 0;
  std::uint64_t seed = 1;

  [[nodiscard]] double v2(double clock_mhz) const {
    const double v = 0.45 + 0.55 * std::pow(std::max(clock_mhz, floor_mhz) / max_mhz, 1.3);
    return v * v;
  }

  [[nodiscard]] double energy_pj(const CurveLoad& load) const {
    double pj = load.type == ProductType::fp8 ? fp8_pj : bf16_pj;
    if (load.data == ProductData::bits) pj *= 1.2;
    if (load.data == ProductData::zeros) pj *= 0.5;
    return load.adds ? pj * 1.5 : pj;
  }

  [[nodiscard]] CurveSample at_clock(const CurveLoad& load, double clock_mhz, double temperature_c) const {
    constexpr double kSeconds = 2;
    const double ops_per_cycle = load.type == ProductType::fp8 ? 8000 : 4000;
    CurveSample sample{.load = load, .time_s = kSeconds, .clock_mhz = clock_mhz, .temperature_c = temperature_c};
    sample.operations = load.product_sms * ops_per_cycle * clock_mhz * 1e6 * kSeconds;
    const double read_per_s = 1.6e6 * load.reads * load.product_sms * clock_mhz;
    (load.cached ? sample.cache_bytes : sample.bytes) =
        std::min(4.0e12, load.stream_sms * 6e10 + read_per_s) * kSeconds;
    constexpr double kCacheBytesPerOperation = 0.005;
    if (load.adds) sample.cache_bytes += kCacheBytesPerOperation * sample.operations;
    const double v2 = this->v2(clock_mhz);
    const double bytes_per_s = sample.bytes / kSeconds;
    const double cache_per_s = sample.cache_bytes / kSeconds;
    const double work_w =
        v2 * 1e-12 *
        (energy_pj(load) * sample.operations / kSeconds + byte_pj / 2 * bytes_per_s + cache_clocked_pj * cache_per_s);
    const double memory_w = byte_pj / 2 * 1e-12 * bytes_per_s + cache_fixed_pj * 1e-12 * cache_per_s +
                            awake_memory_w * bytes_per_s / (bytes_per_s + 0.5e12);
    const double still_w =
        static_w * (1 - tree_share * (1 - v2 * clock_mhz / max_mhz)) + per_k_w * (temperature_c - 40);
    sample.energy_j = (still_w + memory_w + work_w + loss_per_kw * work_w * work_w / 1e3) * kSeconds;
    return sample;
  }

  [[nodiscard]] CurveSample at_natural_clock(const CurveLoad& load, double temperature_c) const {
    double low_mhz = 200;
    double high_mhz = max_mhz;
    if (at_clock(load, high_mhz, temperature_c).power_w() <= limit_w) return at_clock(load, high_mhz, temperature_c);
    for (int i = 0; i < 40; ++i) {
      const double middle_mhz = (low_mhz + high_mhz) / 2;
      (at_clock(load, middle_mhz, temperature_c).power_w() <= limit_w ? low_mhz : high_mhz) = middle_mhz;
    }
    return at_clock(load, low_mhz, temperature_c);
  }

  /// The samples of a planned curve, with noise of every power.
  [[nodiscard]] std::vector<CurveSample> samples(int rounds = 2) const {
    std::vector<CurveSample> all;
    const ProductType types[] = {ProductType::fp8, ProductType::bf16};
    double temperature_c = 40;
    for (const CurveLoad& load : plan_curve(kMultiprocessors, types, rounds)) {
      CurveSample sample = at_natural_clock(load, temperature_c);
      temperature_c += 0.3 * (36 + sample.power_w() / 25 - temperature_c);
      sample.begin_s = 3.0 * static_cast<double>(all.size());
      // The sum of four even numbers is nearly normal.
      double deviation = -2;
      for (std::uint64_t i = 0; i < 4; ++i) {
        deviation += static_cast<double>(random_bits(random_bits(seed) + 4 * all.size() + i) >> 11U) * 0x1p-53;
      }
      sample.energy_j *= 1 + noise * deviation * std::sqrt(3.0);
      all.push_back(sample);
    }
    return all;
  }
};

const LoadEnergy& energy_of(const CurveFit& fit, ProductType type, ProductData data) {
  return *std::ranges::find(fit.loads, CurveLoad{.type = type, .data = data}, &LoadEnergy::load);
}

TEST(CurveFit, FindsTheCurveOfAGpuWithoutNoise) {
  const SyntheticGpu gpu;
  const CurveFit fit = fit_curve(gpu.samples());
  EXPECT_EQ(fit.max_clock_mhz, 1980);
  EXPECT_EQ(fit.left_out(), 0U);
  EXPECT_LT(fit.residual, 0.002);
  EXPECT_NEAR(fit.static_power.at_reference_w.value, 110, 1);
  EXPECT_NEAR(fit.static_power.per_k_w.value, 0.4, 0.05);
  EXPECT_NEAR(fit.byte_pj.value, 90 + 40 / 4.5, 4) << "of 4 TB/s, with the power of memory that is awake";
  EXPECT_NEAR(fit.cache_pj.value, 40, 2);
  EXPECT_NEAR(fit.cache_clock_share.value, 15.0 / 40, 0.1);
  EXPECT_NEAR(fit.loss_per_kw.value, 0.2, 0.05);
  EXPECT_NEAR(energy_of(fit, ProductType::fp8, ProductData::numbers).pj.value, 0.7, 0.01);
  EXPECT_NEAR(energy_of(fit, ProductType::fp8, ProductData::bits).pj.value, 0.84, 0.02);
  EXPECT_NEAR(energy_of(fit, ProductType::bf16, ProductData::numbers).pj.value, 1.3, 0.02);
  EXPECT_NEAR(energy_of(fit, ProductType::fp8, ProductData::bits).ops_per_cycle_sm, 8000, 1);
  EXPECT_LT(fit.voltage.measured_from_mhz(), 1100);
  for (const power::VoltagePoint& point : fit.voltage.points()) {
    if (!fit.voltage.is_measured(point.clock_mhz)) continue;
    EXPECT_NEAR(point.relative_v2, gpu.v2(point.clock_mhz), 0.01) << point.clock_mhz;
  }
}

TEST(CurveFit, StatesErrorsThatHoldTheTruthOfNoisyGpus) {
  int held = 0;
  int points = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const auto varied = [seed](double low, double high, std::uint64_t what) {
      return low + (high - low) * static_cast<double>(random_bits(100 * seed + what) >> 11U) * 0x1p-53;
    };
    const SyntheticGpu gpu{.static_w = varied(50, 150, 1),
                           .per_k_w = varied(0, 0.8, 2),
                           .tree_share = varied(0.15, 0.45, 3),
                           .fp8_pj = varied(0.6, 0.9, 4),
                           .bf16_pj = varied(1.1, 1.6, 5),
                           .byte_pj = varied(50, 120, 6),
                           .noise = 0.004,
                           .seed = seed};
    const CurveFit fit = fit_curve(gpu.samples());
    double below = 0;
    for (const power::VoltagePoint& point : fit.voltage.points()) {
      EXPECT_GE(point.relative_v2, below);
      below = point.relative_v2;
      if (!fit.voltage.is_measured(point.clock_mhz) || point.clock_mhz == fit.max_clock_mhz) continue;
      EXPECT_LT(point.error, 0.05);
      ++points;
      held += std::fabs(point.relative_v2 - gpu.v2(point.clock_mhz)) <= 2 * point.error ? 1 : 0;
    }
  }
  EXPECT_GT(points, 300);
  EXPECT_GE(held, points * 85 / 100) << "of " << points;
}

TEST(CurveFit, KnowsLowClocksWithinAFewPercentOfV2) {
  // Energies of an H200, whose power limit holds products alone down to some 1650 MHz.
  const SyntheticGpu gpu{.fp8_pj = 0.45, .bf16_pj = 0.82, .byte_pj = 120, .noise = 0.005};
  const CurveFit fit = fit_curve(gpu.samples());
  EXPECT_LT(fit.voltage.measured_from_mhz(), 1260);
  for (const power::VoltagePoint& point : fit.voltage.points()) {
    if (!fit.voltage.is_measured(point.clock_mhz)) continue;
    EXPECT_LE(point.error, 0.05 * point.relative_v2) << point.clock_mhz;
    EXPECT_NEAR(point.relative_v2, gpu.v2(point.clock_mhz), 0.05 * point.relative_v2) << point.clock_mhz;
  }
}

TEST(CurveFit, ExtrapolatesWithErrorsThatGrow) {
  const SyntheticGpu gpu{.noise = 0.002};
  const CurveFit fit = fit_curve(gpu.samples(), {.lowest_clock_mhz = 345});
  const auto points = fit.voltage.points();
  EXPECT_EQ(points.front().clock_mhz, 345);
  for (std::size_t i = 1; i < points.size() && !fit.voltage.is_measured(points[i].clock_mhz); ++i) {
    EXPECT_LT(points[i].error, points[i - 1].error);
  }
  EXPECT_NEAR(points.front().relative_v2, gpu.v2(345), 2 * points.front().error);
  const SyntheticGpu floored{.floor_mhz = fit.voltage.measured_from_mhz(), .noise = 0.002};
  EXPECT_NEAR(points.front().relative_v2, floored.v2(345), 2.1 * points.front().error);
}

TEST(CurveFit, NamesTheSamplesThatItLeavesOut) {
  const SyntheticGpu gpu{.noise = 0.002};
  std::vector<CurveSample> samples = gpu.samples();
  const CurveFit whole = fit_curve(samples);
  const auto busy = std::ranges::find_if(samples, [](const CurveSample& s) { return s.load.product_sms == 16; });
  busy->energy_j *= 1.1;
  samples.back().thermal_s = 0.5;
  CurveSample asleep = gpu.at_clock({}, 345, 40);
  asleep.begin_s = samples.back().begin_s + 3;
  samples.push_back(asleep);
  const CurveFit fit = fit_curve(samples);
  EXPECT_EQ(fit.left_out(), 3U);
  EXPECT_THAT(fit.samples[static_cast<std::size_t>(busy - samples.begin())].left_out, HasSubstr("outlier: +"));
  EXPECT_EQ(fit.samples[samples.size() - 2].left_out, "heat held the clock down");
  EXPECT_EQ(fit.samples.back().left_out, "idle below the highest clock");
  EXPECT_NEAR(fit.voltage.relative_v2(1400), whole.voltage.relative_v2(1400), 0.005);
}

TEST(CurveFit, MakesAFileOfTheGpu) {
  const CurveFit fit = fit_curve(SyntheticGpu().samples());
  const power::GpuFile file =
      gpu_file(fit, {.gpu = "NVIDIA H200", .limit_w = 700, .multiprocessors = kMultiprocessors});
  EXPECT_EQ(file.gpu, "NVIDIA H200");
  EXPECT_EQ(file.max_clock_mhz, 1980);
  ASSERT_EQ(file.operations.size(), 2U);
  EXPECT_EQ(file.operations[0].type, "bf16");
  EXPECT_NEAR(file.operations[0].at_max_clock_pj.value, 1.3, 0.02) << "of finite numbers";
  EXPECT_EQ(file.operations[1].type, "fp8");
}

TEST(CurveFit, RefusesSamplesThatShowNoCurve) {
  const SyntheticGpu gpu;
  const std::vector<CurveSample> few(7, gpu.at_clock({}, 1980, 40));
  EXPECT_THAT(error_of([&] { (void)fit_curve(few); }), HasSubstr("7 samples are too few"));
  const SyntheticGpu unlimited{.limit_w = 1e4};
  EXPECT_THAT(error_of([&] { (void)fit_curve(unlimited.samples()); }),
              HasSubstr("no sample ran below the highest clock"));
}

/// Products of one type in green contexts of an H200, with its idle power.
std::vector<CurveSample> measured(const std::filesystem::path& path, const std::string& kind) {
  const CsvTable table(read_file(path), path.string());
  const double seconds = 2;
  std::vector<CurveSample> samples(
      2, {.time_s = seconds, .energy_j = 117.5 * seconds, .clock_mhz = 1980, .temperature_c = 40});
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, table.column("kind")) != kind) continue;
    samples.push_back({.load = {.product_sms = static_cast<int>(table.integer(row, table.column("sms"))),
                                .type = kind == "fp8" ? ProductType::fp8 : ProductType::bf16},
                       .time_s = seconds,
                       .energy_j = table.number(row, table.column("power_w")) * seconds,
                       .clock_mhz = table.number(row, table.column("sm_mhz_mean")),
                       .temperature_c = 40,
                       .operations = table.number(row, table.column("tflops")) * 1e12 * seconds});
  }
  return samples;
}

TEST(CurveFit, KnowsAnH200sVoltageDownTo1216MHz) {
  const std::string path = LOWGEAR_SOURCE_DIR "/data/h200-sxm/curve/curve.csv";
  const CurveFit fit = fit_curve(parse_curve_samples(read_file(path), path), {.lowest_clock_mhz = 345});
  EXPECT_LT(fit.voltage.measured_from_mhz(), 1260);
  EXPECT_LT(fit.residual, 0.01);
  for (const power::VoltagePoint& point : fit.voltage.points()) {
    if (!fit.voltage.is_measured(point.clock_mhz)) continue;
    EXPECT_LE(point.error, 0.05 * point.relative_v2) << point.clock_mhz;
  }
  // V^2 of whole fp8 products of another H200 (the table's), which was read without a fit.
  const std::map<double, double> table = {{1863, 0.863}, {1689, 0.760}, {1583, 0.694}, {1468, 0.639}, {1359, 0.571}};
  for (const auto& [clock_mhz, v2] : table) EXPECT_NEAR(fit.voltage.relative_v2(clock_mhz), v2, 0.05) << clock_mhz;
}

TEST(CurveFit, ReadsThePublishedTableOutOfAnH200sProducts) {
  const auto path =
      std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/h200-natural-clocks/gemm_bf16_fp8_green_contexts.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "NOT CHECKED against an H200's products, absent: " << path;
  // The table takes all power of the idle GPU for constant, and no power for lost.
  const CurveFit fit = fit_curve(measured(path, "fp8"), {.clock_tree_share = {0, 0}, .loss_per_kw = {0, 0}});
  const std::map<double, double> table = {{1863, 0.863}, {1689, 0.760}, {1583, 0.694},
                                          {1468, 0.639}, {1404, 0.595}, {1359, 0.571}};
  for (const auto& [clock_mhz, v2] : table) EXPECT_NEAR(fit.voltage.relative_v2(clock_mhz), v2, 0.01) << clock_mhz;
  // Held out: bf16, whose energy of an operation at the highest clock is that on 64 multiprocessors.
  const auto joules = [](const CurveSample& sample) { return (sample.power_w() - 117.5) / sample.operations; };
  const std::vector<CurveSample> bf16 = measured(path, "bf16");
  const auto base = std::ranges::find_if(bf16, [](const CurveSample& s) { return s.load.product_sms == 64; });
  const double at_max = joules(*base) / fit.voltage.relative_v2(base->clock_mhz);
  for (auto sample = base + 1; sample != bf16.end(); ++sample) {
    EXPECT_NEAR(joules(*sample) / at_max / fit.voltage.relative_v2(sample->clock_mhz), 1, 0.08) << sample->clock_mhz;
  }
}

/// cuBLAS products of one shape on some multiprocessors of an H200.
struct HeldOut {
  const char* file;
  const char* kind;  ///< empty: the file has one
  double element_bytes;
  double rows;
};

/// Relative errors of the dynamic energies of these products by a GPU's file, given that on 64 multiprocessors. Blocks
/// of 128 x 256 read the cache and share one operand in pairs; each element of the matrices moves once.
std::vector<double> errors_of(const HeldOut& products, const std::string& path, const power::GpuFile& gpu) {
  constexpr double kPico = 1e-12;
  constexpr double kColumns = 8192;
  const double depth = products.rows;
  const double operations = 2 * products.rows * kColumns * depth;
  const double cache_bytes = products.rows * kColumns / (128 * 256) * (128 + 256 / 2) * depth * products.element_bytes;
  const double bytes = (products.rows + kColumns) * depth * products.element_bytes + 2 * products.rows * kColumns;
  const double memory_pj = gpu.byte_pj.value * bytes / operations;
  const double cache_pj = gpu.cache_pj.value * cache_bytes / operations;
  const double clocked_j = (memory_pj * gpu.byte_clock_share.value + cache_pj * gpu.cache_clock_share.value) * kPico;
  const double fixed_j = (memory_pj + cache_pj) * kPico - clocked_j;
  const double loss_per_w = gpu.loss_per_kw.value / 1000;
  const CsvTable table(read_file(path), path);
  double own_j = 0;  // of an operation, its operands' movement excluded
  std::vector<double> errors;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (*products.kind != 0 && table.text(row, table.column("kind")) != products.kind) continue;
    const auto sms = table.integer(row, table.column("sms"));
    if (sms < 64) continue;
    const bool has_temperature =
        table.has_column("temperature_c") && !table.text(row, table.column("temperature_c")).empty();
    const double die_c = has_temperature ? table.number(row, table.column("temperature_c")) : 60;
    const double clock_mhz = table.number(row, table.column("sm_mhz_mean"));
    const double v2 = gpu.voltage.relative_v2(clock_mhz);
    const double awake_w = gpu.static_power.at_reference_w.value +
                           gpu.static_power.per_k_w.value * (die_c - gpu.static_power.reference_c) -
                           gpu.static_power.clock_tree_w.value * (1 - clock_mhz * v2 / gpu.max_clock_mhz);
    const double per_s = table.number(row, table.column("tflops")) * 1e12;
    const double dynamic_w = table.number(row, table.column("power_w")) - awake_w;
    if (sms == 64) {
      const double work_w = (std::sqrt(1 + 4 * loss_per_w * (dynamic_w - fixed_j * per_s)) - 1) / (2 * loss_per_w);
      own_j = work_w / v2 / per_s - clocked_j;
      continue;
    }
    const double work_w = (own_j + clocked_j) * per_s * v2;
    errors.push_back((fixed_j * per_s + work_w + loss_per_w * work_w * work_w) / dynamic_w - 1);
  }
  return errors;
}

TEST(CurveOfAnH200, PredictsTheEnergyOfProductsThatItWasNotFittedOn) {
  const auto folder = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/h200-natural-clocks";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "NOT CHECKED against an H200's products, absent: " << folder;
  const std::string file = LOWGEAR_SOURCE_DIR "/data/h200-sxm/curve/gpu.json";
  const power::GpuFile gpu = power::parse_gpu_file(read_file(file), file);
  std::vector<double> errors;
  for (const HeldOut& products : {HeldOut{"gemm_bf16_fp8_green_contexts.csv", "fp8", 1, 8192},
                                  HeldOut{"gemm_bf16_fp8_green_contexts.csv", "bf16", 2, 8192},
                                  HeldOut{"gemm_green_contexts.csv", "", 2, 4096}}) {
    for (const double error : errors_of(products, (folder / products.file).string(), gpu)) errors.push_back(error);
  }
  ASSERT_EQ(errors.size(), 19U);
  double sum = 0;
  for (const double error : errors) {
    EXPECT_LT(std::abs(error), 0.075);
    sum += std::abs(error);
  }
  EXPECT_LT(sum / static_cast<double>(errors.size()), 0.03);
}

}  // namespace
}  // namespace lowgear::curve
