#include "estimator/job_energy.h"

#include <algorithm>
#include <array>
#include <limits>

namespace lowgear {
namespace {

/// Clocks that the quick plan looks at, as shares of the sustained clock.
constexpr std::array kQuickClocks{1.0, 0.97, 0.94, 0.91, 0.88, 0.85, 0.82, 0.79, 0.76, 0.73, 0.70, 0.65, 0.60};

/// What a pipeline rank does for one microbatch, all its virtual stages.
std::vector<WorkCost> work_of_ranks(const TrainingJob& job, const IterationEstimate& estimate) {
  std::vector<WorkCost> work(static_cast<std::size_t>(job.parallel.pp));
  for (std::size_t stage = 0; stage < estimate.stages.size(); ++stage) {
    work[stage % work.size()] += estimate.stages[stage].forward + estimate.stages[stage].backward;
  }
  return work;
}

double gpus_per_rank(const TrainingJob& job) { return job.parallel.tp * job.parallel.cp * job.parallel.dp; }

/// Least energy beyond blocking power of one microbatch on a rank that may take `deadline_s` for it.
TimedEnergy slowed(const GpuModel& gpu, const WorkCost& work, double deadline_s) {
  const WorkEnergy energy(gpu, work);
  TimedEnergy best = energy.at_clock(energy.sustained_clock_mhz());
  double least_j = best.energy_j - gpu.power.blocking_w * best.time_s;
  for (const double share : kQuickClocks) {
    const TimedEnergy slower = energy.at_clock(share * energy.sustained_clock_mhz());
    const double effective_j = slower.energy_j - gpu.power.blocking_w * slower.time_s;
    if (slower.time_s > deadline_s || effective_j >= least_j) continue;
    best = slower;
    least_j = effective_j;
  }
  return best;
}

}  // namespace

double JobEnergy::total_j() const {
  double one_gpu_each_j = static_cast<double>(ranks.size()) * rest.total_j();
  for (const EnergySplit& rank : ranks) one_gpu_each_j += rank.total_j();
  return gpus_per_rank * one_gpu_each_j;
}

EnergySplit rest_energy(const GpuModel& gpu, const IterationEstimate& estimate) {
  const GpuPowerModel& power = gpu.power;
  return {.static_j = power.static_w * (estimate.gradients_s + estimate.optimizer_s),
          .compute_j = 0,
          .memory_j = power.memory_w * gpu.efficiency.memory_peak * estimate.optimizer_s,
          .link_j = (power.blocking_w - power.static_w + power.link_w) * estimate.gradients_s,
          .waiting_j = 0};
}

JobEnergy estimate_energy(const TrainingJob& job, const IterationEstimate& estimate) {
  const auto microbatches = static_cast<double>(job.microbatches());
  JobEnergy energy;
  energy.gpus_per_rank = static_cast<int>(gpus_per_rank(job));
  energy.rest = rest_energy(job.gpu, estimate);
  energy.ranks.resize(static_cast<std::size_t>(job.parallel.pp));
  std::vector<double> busy_s(energy.ranks.size(), 0.0);
  for (std::size_t stage = 0; stage < estimate.stages.size(); ++stage) {
    const std::size_t rank = stage % energy.ranks.size();
    for (const WorkCost* work : {&estimate.stages[stage].forward, &estimate.stages[stage].backward}) {
      energy.ranks[rank] += microbatches * WorkEnergy(job.gpu, *work).split_at(job.gpu.clocks.max_mhz);
      busy_s[rank] += microbatches * work->time_s();
    }
  }
  for (std::size_t rank = 0; rank < energy.ranks.size(); ++rank) {
    energy.ranks[rank].waiting_j = job.gpu.power.blocking_w * std::max(0.0, estimate.pipeline_s - busy_s[rank]);
  }
  return energy;
}

double quick_planned_energy_j(const TrainingJob& job, const IterationEstimate& estimate) {
  const std::vector<WorkCost> work = work_of_ranks(job, estimate);
  const double slowest_s = std::ranges::max(work, {}, &WorkCost::time_s).time_s();
  const auto microbatches = static_cast<double>(job.microbatches());
  double one_gpu_each_j = job.parallel.pp * rest_energy(job.gpu, estimate).total_j();
  for (const WorkCost& rank : work) {
    const TimedEnergy taken = slowed(job.gpu, rank, slowest_s);
    const double waiting_s = std::max(0.0, estimate.pipeline_s - microbatches * taken.time_s);
    one_gpu_each_j += microbatches * taken.energy_j + job.gpu.power.blocking_w * waiting_s;
  }
  return gpus_per_rank(job) * one_gpu_each_j;
}

}  // namespace lowgear
