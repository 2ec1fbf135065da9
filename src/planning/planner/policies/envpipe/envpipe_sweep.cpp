#include "planning/planner/policies/envpipe/envpipe_sweep.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace lowgear::planner {
namespace {

double mean_of(std::span<const double> samples) {
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double mean_of(std::span<const EnvPipeSample> samples, double EnvPipeSample::*member) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const EnvPipeSample& sample : samples) values.push_back(sample.*member);
  return envpipe_mean(values);
}

}  // namespace

double envpipe_mean(std::span<const double> samples) {
  constexpr std::size_t kTooFewToTrim = 3;
  const double mean = mean_of(samples);
  if (samples.size() <= kTooFewToTrim) return mean;
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(samples.size()));
  std::vector<double> near;
  for (const double sample : samples) {
    if (std::abs(sample - mean) < deviation) near.push_back(sample);
  }
  return near.empty() ? mean : mean_of(near);
}

EnvPipeSweep::EnvPipeSweep(std::vector<int> clocks_mhz, int ranks, EnvPipeOptions::Type type)
    : clocks_mhz_(std::move(clocks_mhz)), type_(type) {
  samples_.assign(static_cast<std::size_t>(ranks), std::vector<std::vector<EnvPipeSample>>(clocks_mhz_.size()));
}

std::vector<int> EnvPipeSweep::rank_clocks_mhz() const {
  std::vector<int> clocks(samples_.size(), clocks_mhz_[clock_]);
  if (type_ != EnvPipeOptions::Type::uniform) clocks.back() = clocks_mhz_.front();
  return clocks;
}

int EnvPipeSweep::steps_left() const {
  const int done = is_finished() ? 0 : static_cast<int>(samples_.front()[clock_].size());
  return kEnvPipeStepsPerClock * static_cast<int>(clocks_mhz_.size() - clock_) - done;
}

std::string EnvPipeSweep::observe(std::span<const EnvPipeSample> samples) {
  for (std::size_t rank = 0; rank < samples.size(); ++rank) {
    const EnvPipeSample& sample = samples[rank];
    if (!std::isfinite(sample.energy_j)) return fmt::format("no energy was measured of rank {}", rank);
    if (!std::isfinite(sample.forward_time_s + sample.backward_time_s)) {
      return fmt::format("no times of units were measured of rank {}", rank);
    }
  }
  for (std::size_t rank = 0; rank < samples.size(); ++rank) samples_[rank][clock_].push_back(samples[rank]);
  if (samples_.front()[clock_].size() == std::size_t{kEnvPipeStepsPerClock}) ++clock_;
  return "";
}

EnvPipeFindings EnvPipeSweep::findings() const {
  EnvPipeFindings found;
  for (std::size_t rank = 0; rank < samples_.size(); ++rank) {
    const bool fixed = type_ != EnvPipeOptions::Type::uniform && rank + 1 == samples_.size();
    std::size_t best = 0;
    double least_j = std::numeric_limits<double>::infinity();
    for (std::size_t clock = 0; clock < clocks_mhz_.size() && !fixed; ++clock) {
      const double energy_j = mean_of(samples_[rank][clock], &EnvPipeSample::energy_j);
      if (energy_j >= least_j) continue;
      least_j = energy_j;
      best = clock;
    }
    found.optimal_mhz.push_back(clocks_mhz_[best]);
    found.stages.push_back({.forward_time_s = mean_of(samples_[rank][best], &EnvPipeSample::forward_time_s),
                            .backward_time_s = mean_of(samples_[rank][0], &EnvPipeSample::backward_time_s),
                            .extra_activations = {}});
  }
  return found;
}

}  // namespace lowgear::planner
