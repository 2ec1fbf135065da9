#include "planning/planner/random_pipelines.h"

#include <cmath>

#include "planning/planner/random_instances.h"
#include "planning/schedule/generators.h"

namespace lowgear::planner {
namespace {

constexpr int kMaxMhz = 1410;
constexpr int kStepMhz = 30;

enum class Measured { smooth, noisy, round, one_clock, same_time };

double real_in(std::mt19937_64& random, double low, double high) {
  constexpr std::int64_t kParts = 1'000'000;
  return low + (high - low) * static_cast<double>(random_in(random, 0, kParts)) / kParts;
}

double rounded_to(double value, double unit) { return std::ceil(value / unit) * unit; }

void add_measurements(profile::StageProfile& profile, int stage, OpKind kind, int clocks, std::mt19937_64& random) {
  const auto measured = static_cast<Measured>(random_in(random, 0, 4));
  const double work_s = real_in(random, 0.005, 0.05);
  const double memory_bound = real_in(random, 0, 0.6);
  const double idle_w = real_in(random, 60, 120);
  const double exponent = real_in(random, 2, 3.2);
  const int count = measured == Measured::one_clock ? 1 : clocks;
  for (int step = 0; step < count; ++step) {
    const int clock_mhz = kMaxMhz - kStepMhz * step;
    const double speed = static_cast<double>(clock_mhz) / kMaxMhz;
    double time_s = work_s * (measured == Measured::same_time ? 1 : memory_bound + (1 - memory_bound) / speed);
    double energy_j = time_s * (idle_w + 220 * std::pow(speed, exponent));
    if (measured == Measured::noisy) {
      time_s *= real_in(random, 0.97, 1.03);
      energy_j *= real_in(random, 0.97, 1.03);
    }
    if (measured == Measured::round) {
      time_s = rounded_to(time_s, 0.001);
      energy_j = rounded_to(energy_j, 0.25);
    }
    profile.add(stage, kind, {clock_mhz, time_s, energy_j});
  }
}

schedule::Schedule random_schedule(std::mt19937_64& random, const RandomPipelineLimits& limits) {
  const auto ranks = static_cast<int>(random_in(random, 1, limits.max_ranks));
  const auto microbatches = static_cast<int>(random_in(random, 1, limits.max_microbatches));
  switch (random_in(random, 0, limits.split_backward ? 4 : 2)) {
    case 0:
      return schedule::gpipe_schedule(ranks, microbatches);
    case 1:
      return schedule::one_f_one_b_schedule(ranks, microbatches);
    case 2:  // fewer microbatches than ranks, or whole rounds of them
      return schedule::interleaved_schedule(ranks, microbatches < ranks ? microbatches : microbatches / ranks * ranks,
                                            2);
    case 3:
      return schedule::zb_h1_schedule(ranks, microbatches);
    default:
      return microbatches < 3 ? schedule::merak_early_recompute_schedule(ranks, microbatches)
                              : schedule::merak_full_critical_path_schedule(ranks, microbatches);
  }
}

}  // namespace

SamplePipeline random_pipeline(std::mt19937_64& random, const RandomPipelineLimits& limits) {
  SamplePipeline pipeline;
  pipeline.schedule = random_schedule(random, limits);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.profile = profile::StageProfile(pipeline.schedule.stages);
  const auto clocks = static_cast<int>(random_in(random, 1, limits.max_clocks));
  for (int stage = 0; stage < pipeline.schedule.stages; ++stage) {
    for (const OpKind kind : kScheduledKinds) {
      add_measurements(pipeline.profile, stage, kind, clocks, random);
    }
  }
  const double most_w = random_in(random, 0, 4) == 0 ? 0 : 90;  // some GPUs wait for nothing
  for (int rank = 0; rank < pipeline.dag.ranks; ++rank) {
    pipeline.blocking_power_w.push_back(real_in(random, 0, most_w));
  }
  return pipeline;
}

}  // namespace lowgear::planner
