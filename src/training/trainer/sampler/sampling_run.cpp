#include "training/trainer/sampler/sampling_run.h"

#include <algorithm>

namespace lowgear::trainer {
namespace {

/// Repeats of one pass may take so long together.
constexpr double kPassTimeS = 0.03;
constexpr int kFewestRepeats = 5;

}  // namespace

sampling::PassSample SamplingRun::time_pass(const TimedWork& work, const std::function<double(double)>& agree) const {
  TimedWork trial = work;
  trial.meanwhile = {};
  (void)device.time_s(trial, 1);  // libraries choose their kernels
  const double trial_s = agree(device.time_s(trial, 1).front());
  const double affordable = std::min(kPassTimeS / std::max(trial_s, 1e-9), 1e6);
  const int fewest = std::min(kFewestRepeats, options.repeats);
  sampling::PassSample sample;
  sample.repeats = std::clamp(static_cast<int>(affordable), fewest, options.repeats);
  TimedWork watched = work;
  watched.meanwhile = [&] {
    if (gpu != nullptr) sample.clock_mhz = gpu->clock_mhz();
  };
  const sampling::Spread spread = sampling::spread_of(device.time_s(watched, sample.repeats));
  sample.duration_us = spread.median * 1e6;
  sample.spread_us = spread.quartiles * 1e6;
  return sample;
}

}  // namespace lowgear::trainer
