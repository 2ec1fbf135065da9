#include "estimating/estimator/costs/operator_regressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/core/probability.h"

namespace lowgear::estimator {
namespace {

using ::testing::IsEmpty;

double noise(std::uint64_t i) { return static_cast<double>(random_bits(i) % 2001) / 1000 - 1; }  // -1 to 1

/// A GPU whose products take a launch and a rate that depends on the shape in a way that no sum of costs has.
double true_time_s(const Operator& op) {
  const double rate = op.dims[2] % 512 == 0 ? 200e12 : 150e12;
  return 5e-6 + flops(op) / rate;
}

std::vector<TimedOperator> products(double relative_noise) {
  std::vector<TimedOperator> samples;
  for (std::int64_t tokens = 1024; tokens <= 16384; tokens += 1024) {
    for (std::int64_t inputs = 1024; inputs <= 8192; inputs += 1024) {
      for (std::int64_t outputs = 1280; outputs <= 8192; outputs += 256) {
        const Operator op{OperatorKind::linear, Pass::forward, {tokens, inputs, outputs, 1}, DataType::bf16};
        const double factor = 1 + relative_noise * noise(samples.size());
        samples.push_back({op, true_time_s(op) * factor, static_cast<int>(samples.size()) + 2});
      }
    }
  }
  return samples;
}

Operator product(std::int64_t tokens, std::int64_t inputs, std::int64_t outputs) {
  return {OperatorKind::linear, Pass::forward, {tokens, inputs, outputs, 1}, DataType::bf16};
}

TEST(OperatorTrend, FindsTheCostsThatMadeTheTimes) {
  std::vector<TimedOperator> samples;
  for (std::int64_t tokens = 256; tokens <= 8192; tokens *= 2) {
    for (std::int64_t width = 512; width <= 16384; width *= 2) {
      const Operator op{OperatorKind::rms_norm, Pass::forward, {1, tokens, width, 1}, DataType::bf16};
      samples.push_back({op, 4e-6 + memory_bytes(op) / 1e12, 0});
    }
  }
  const OperatorTrend trend(samples);
  const Operator larger{OperatorKind::rms_norm, Pass::forward, {8, 32768, 65536, 1}, DataType::bf16};
  EXPECT_NEAR(trend.time_s(larger) / (4e-6 + memory_bytes(larger) / 1e12), 1, 1e-3);
}

TEST(OperatorTrend, IsNotBentByAFewBadSamples) {
  std::vector<TimedOperator> samples = products(0);
  for (std::size_t i = 0; i < samples.size(); i += 10) samples[i].time_s *= 50;
  const OperatorTrend trend(samples);
  EXPECT_NEAR(trend.time_s(product(8192, 8192, 8192)) / true_time_s(product(8192, 8192, 8192)), 1, 0.3);
}

TEST(LeastTime, IsThatOfTheDataSheet) {
  const GpuModel gpu = named_gpu("a100");
  const Operator large = product(8192, 8192, 8192);
  EXPECT_DOUBLE_EQ(least_time_s(large, gpu), flops(large) / 312e12);
  const Operator norm{OperatorKind::rms_norm, Pass::forward, {8, 8192, 8192, 1}, DataType::bf16};
  EXPECT_NEAR(least_time_s(norm, gpu), 2 * 2 * 8.0 * 8192 * 8192 / 2039e9, 1e-9);
  const Operator cached{OperatorKind::rms_norm, Pass::forward, {1, 1024, 1024, 1}, DataType::bf16};
  EXPECT_EQ(least_time_s(cached, gpu), 0);
}

TEST(OperatorRegressor, LearnsWhatTheTrendCannotSay) {
  const OperatorRegressor regressor(products(0), named_gpu("a100"));
  for (const Operator& op : {product(5120, 3072, 4096), product(5120, 3072, 4352), product(13312, 7168, 1536)}) {
    EXPECT_NEAR(regressor.predict(op).time_s / true_time_s(op), 1, 0.03);
    EXPECT_THAT(regressor.predict(op).outside, IsEmpty());
  }
}

TEST(OperatorRegressor, CarriesTheTrendOnBeyondTheSamplesAndSaysSo) {
  const OperatorRegressor regressor(products(0), named_gpu("a100"));
  const Operator beyond = product(131072, 4096, 4096);
  const OperatorPrediction prediction = regressor.predict(beyond);
  EXPECT_NEAR(prediction.time_s / true_time_s(beyond), 1, 0.1);
  EXPECT_EQ(prediction.outside, "tokens 131072 (sampled 1024 to 16384)");
  const OperatorPrediction inside = regressor.predict(product(8192, 4096, 4096));
  EXPECT_GT(prediction.error_s / prediction.time_s, inside.error_s / inside.time_s);
}

TEST(OperatorRegressor, IntervalsHoldNineInTen) {
  const OperatorRegressor regressor(products(0.1), named_gpu("a100"));
  int inside = 0;
  constexpr int kDraws = 1000;
  for (int i = 0; i < kDraws; ++i) {
    const auto draw = [i](int which) { return static_cast<std::int64_t>(random_bits(7'000'000 + 3 * i + which)); };
    const Operator op =
        product(1024 * (1 + (draw(0) >> 8 & 15)), 1024 * (1 + (draw(1) >> 8 & 7)), 1280 + 256 * (draw(2) >> 8 & 15));
    const OperatorPrediction prediction = regressor.predict(op);
    const double measured_s = true_time_s(op) * (1 + 0.1 * noise(9'000'000 + i));
    inside += std::abs(prediction.time_s - measured_s) <= prediction.error_s ? 1 : 0;
  }
  EXPECT_GT(inside, 0.84 * kDraws);
  EXPECT_LT(inside, 0.97 * kDraws);
}

TEST(OperatorRegressor, IsNeverFasterThanTheDataSheet) {
  std::vector<TimedOperator> samples = products(0);
  for (TimedOperator& sample : samples) sample.time_s /= 4;
  const GpuModel gpu = named_gpu("a100");
  const OperatorRegressor regressor(samples, gpu);
  const Operator op = product(8192, 8192, 8192);
  EXPECT_DOUBLE_EQ(regressor.predict(op).time_s, least_time_s(op, gpu));
}

TEST(OperatorRegressor, TakesTheTrendOfFewSamples) {
  std::vector<TimedOperator> samples;
  for (const std::int64_t tokens : {1024, 2048, 4096}) {
    const Operator op = product(tokens, 4096, 4096);
    samples.push_back({op, flops(op) / 200e12, 2});
  }
  const Operator between = product(3072, 4096, 4096);
  EXPECT_NEAR(OperatorRegressor(samples, named_gpu("a100")).predict(between).time_s, flops(between) / 200e12, 1e-6);
}

TEST(OperatorRegressor, SaysTheSameEachTime) {
  const Operator op = product(5000, 3000, 3000);
  const double once = OperatorRegressor(products(0.1), named_gpu("h100")).predict(op).time_s;
  EXPECT_EQ(OperatorRegressor(products(0.1), named_gpu("h100")).predict(op).time_s, once);
}

}  // namespace
}  // namespace lowgear::estimator
