#include "report/experiment/interval.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/core/probability.h"

namespace lowgear::experiment {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Square of the standard error of the mean; two values at least.
double squared_error(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return sum / (count - 1) / count;
}

Interval::Range around(double mean, double error, double degrees_of_freedom) {
  const double half = error * student_t_quantile((1 + kConfidence) / 2, degrees_of_freedom);
  return {mean - half, mean + half};
}

/// Empty where one is not positive.
std::optional<std::vector<double>> logarithms(std::span<const double> values) {
  if (values.empty() || std::ranges::any_of(values, [](double value) { return !(value > 0); })) return std::nullopt;
  std::vector<double> result;
  for (const double value : values) result.push_back(std::log(value));
  return result;
}

double pct_of_log(double difference) { return 100 * std::expm1(difference); }

Interval pct_of_logs(const Interval& logs) {
  Interval result{.mean = pct_of_log(logs.mean), .range = std::nullopt, .count = logs.count};
  if (logs.range) result.range = {pct_of_log(logs.range->low), pct_of_log(logs.range->high)};
  return result;
}

}  // namespace

std::optional<Interval> mean_interval(std::span<const double> values) {
  if (values.empty()) return std::nullopt;
  Interval result{.mean = mean_of(values), .range = std::nullopt, .count = static_cast<int>(values.size())};
  if (values.size() > 1) {
    result.range = around(result.mean, std::sqrt(squared_error(values)), static_cast<double>(values.size() - 1));
  }
  return result;
}

std::optional<Interval> paired_difference_pct(std::span<const double> values, std::span<const double> baseline) {
  auto logs = logarithms(values);
  const auto baseline_logs = logarithms(baseline);
  if (!logs || !baseline_logs || logs->size() != baseline_logs->size()) return std::nullopt;
  for (std::size_t i = 0; i < logs->size(); ++i) (*logs)[i] -= (*baseline_logs)[i];
  return pct_of_logs(*mean_interval(*logs));
}

std::optional<Interval> difference_pct(std::span<const double> values, std::span<const double> baseline) {
  const auto logs = logarithms(values);
  const auto baseline_logs = logarithms(baseline);
  if (!logs || !baseline_logs) return std::nullopt;
  Interval result{.mean = mean_of(*logs) - mean_of(*baseline_logs),
                  .range = std::nullopt,
                  .count = static_cast<int>(std::min(logs->size(), baseline_logs->size()))};
  if (result.count > 1) {
    const double a = squared_error(*logs);
    const double b = squared_error(*baseline_logs);
    const double freedom =
        (a + b) * (a + b) /
        (a * a / static_cast<double>(logs->size() - 1) + b * b / static_cast<double>(baseline_logs->size() - 1));
    // Without any spread there are no degrees of freedom, and nothing to spread over.
    result.range =
        a + b > 0 ? around(result.mean, std::sqrt(a + b), freedom) : Interval::Range{result.mean, result.mean};
  }
  return pct_of_logs(result);
}

}  // namespace lowgear::experiment
