/// The first line names a file, the rest is its text: samples of an operator or a collective, or the published
/// estimator's choice of regressors. What is accepted is cleaned, and predictions from it are numbers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "estimating/estimator/costs/operator_regressor.h"
#include "estimating/estimator/costs/operator_samples.h"
#include "estimating/estimator/costs/sample_files.h"
#include "rivals/published_estimator/tuned_regressors.h"

namespace lowgear {
namespace {

/// Trees take long to grow, and nothing more is to be learnt from them.
constexpr std::size_t kMostRows = 30;

void check_predictions(const std::vector<estimator::TimedOperator>& rows, const estimator::GpuModel& gpu) {
  if (rows.empty() || rows.size() > kMostRows) return;
  const estimator::OperatorRegressor regressor(rows, gpu);
  const estimator::OperatorPrediction prediction = regressor.predict(rows.front().op);
  require(std::isfinite(prediction.time_s) && prediction.time_s > 0 && std::isfinite(prediction.error_s));
  require(prediction.error_s >= 0 && prediction.outside.empty());
}

void check_operator(const estimator::SampledFunction& function, std::string_view text, estimator::DataType dtype,
                    const estimator::GpuModel& gpu) {
  const estimator::OperatorSamples samples = parse_operator_samples(text, "fuzz.csv", function, dtype);
  const estimator::CleanSamples clean = clean_samples(samples, gpu);
  require(!samples.rows.empty() && clean.forward.size() <= samples.rows.size());
  for (const estimator::DiscardedSamples& discarded : clean.discarded) require(!to_string(discarded).empty());
  check_predictions(clean.forward, gpu);
  check_predictions(clean.backward, gpu);
}

void check_collective(estimator::CollectiveKind kind, std::string_view text, estimator::DataType dtype,
                      const estimator::GpuModel& gpu) {
  const estimator::CollectiveSamples samples = parse_collective_samples(text, "fuzz.csv", kind, dtype);
  const estimator::CleanCollectives clean = clean_samples(samples, gpu);
  std::size_t discarded = 0;
  for (const estimator::DiscardedSamples& out : clean.discarded) discarded += out.lines.size();
  require(clean.rows.size() + discarded == samples.rows.size());
  for (const estimator::CollectiveSample& row : clean.rows) require(message_bytes(kind, row, dtype) > 0);
}

void check(std::string_view name, std::string_view text) {
  static const estimator::GpuModel gpu = estimator::named_gpu("a100");
  const std::optional<estimator::SampleFileName> parts = estimator::parse_sample_file_name(name);
  if (!parts) {
    (void)published_estimator::TunedRegressors(text, "fuzz.csv");
  } else if (const estimator::SampledFunction* const function = estimator::find_sampled_function(parts->function)) {
    check_operator(*function, text, parts->dtype, gpu);
  } else if (const auto kind = estimator::sampled_collective(parts->function)) {
    check_collective(*kind, text, parts->dtype, gpu);
  }
}

}  // namespace
}  // namespace lowgear

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = input.find('\n');
  if (line == std::string_view::npos) return 0;
  try {
    lowgear::check(input.substr(0, line), input.substr(line + 1));
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
