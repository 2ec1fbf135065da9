#include "planning/adapt/precision_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/core/probability.h"

namespace lowgear::adapt {
namespace {

constexpr double kConfidence = 0.95;

/// Per cent that fp8 takes more than bf16.
struct Difference {
  double mean = 0;
  double low = 0;
  double high = 0;

  [[nodiscard]] std::string text() const { return fmt::format("{:+.2f} % ({:+.2f} to {:+.2f})", mean, low, high); }
};

double percent(double logarithm) { return 100 * std::expm1(logarithm); }

/// Of geometric means, by the logarithms of the pairs' ratios; at least two of them.
Difference difference_of(std::span<const PrecisionPair> pairs, double PrecisionBlock::*quantity) {
  std::vector<double> logarithms;
  for (const PrecisionPair& pair : pairs) logarithms.push_back(std::log(pair.fp8.*quantity / pair.bf16.*quantity));
  const auto count = static_cast<double>(logarithms.size());
  double mean = 0;
  for (const double value : logarithms) mean += value / count;
  double squares = 0;
  for (const double value : logarithms) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  const double half = student_t_quantile((1 + kConfidence) / 2, count - 1) * error;
  return {percent(mean), percent(mean - half), percent(mean + half)};
}

bool all(std::span<const PrecisionPair> pairs, double PrecisionBlock::*quantity) {
  return std::ranges::all_of(pairs, [quantity](const PrecisionPair& pair) {
    const auto usable = [](double value) { return std::isfinite(value) && value > 0; };
    return usable(pair.bf16.*quantity) && usable(pair.fp8.*quantity);
  });
}

}  // namespace

PrecisionChoice choose_precision(std::span<const PrecisionPair> pairs, double loss_margin_pct) {
  if (pairs.size() < 2) return {false, fmt::format("{} pairs of blocks are too few to compare", pairs.size())};
  if (!all(pairs, &PrecisionBlock::loss)) return {false, "a loss is not a number"};
  const bool has_energy = all(pairs, &PrecisionBlock::energy_j);
  if (!has_energy && !all(pairs, &PrecisionBlock::time_s)) return {false, "a time is not a number"};
  const Difference cost = difference_of(pairs, has_energy ? &PrecisionBlock::energy_j : &PrecisionBlock::time_s);
  const Difference loss = difference_of(pairs, &PrecisionBlock::loss);
  const std::string numbers =
      fmt::format("fp8 against bf16 in {} pairs of blocks: {} {}, loss {}", pairs.size(),
                  has_energy ? "J/token" : "time per token (no energy was measured)", cost.text(), loss.text());
  if (cost.high >= 0) return {false, numbers + "; no saving is shown"};
  if (loss.high > loss_margin_pct) {
    return {false, fmt::format("{}; the loss is not shown to stay within {:+} %", numbers, loss_margin_pct)};
  }
  return {true, numbers};
}

}  // namespace lowgear::adapt
