#include "estimating/estimator/iteration/job_energy.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace lowgear::estimator {

namespace {

/// Clocks that the quick plan looks at, as shares of the sustained clock.
constexpr std::array kQuickShares{1.0, 0.94, 0.88, 0.82, 0.76, 0.70, 0.64, 0.58};

double gpus_per_rank(const TrainingJob& job) { return job.parallel.tp * job.parallel.cp * job.parallel.dp; }

/// What a pipeline rank does for one microbatch: forward and backward of all its virtual stages.
class RankWork {
 public:
  void add(const GpuModel& gpu, const WorkCost& work) {
    works_.emplace_back(gpu, work);
    core_s_ += work.core_s;
    time_s_ += work.time_s();
  }

  [[nodiscard]] double time_s() const { return time_s_; }

  /// Least energy beyond blocking power that it can use within `deadline_s`, all at one share of its sustained clocks.
  [[nodiscard]] TimedEnergy slowed(double blocking_w, double deadline_s) const {
    const double other_s = time_s_ - core_s_;
    const double in_time = core_s_ > 0 ? std::min(1.0, core_s_ / std::max(deadline_s - other_s, core_s_)) : 1;
    TimedEnergy best = at_share(in_time);
    for (const double share : kQuickShares) {
      if (share <= in_time) break;
      const TimedEnergy taken = at_share(share);
      if (taken.energy_j - blocking_w * taken.time_s < best.energy_j - blocking_w * best.time_s) best = taken;
    }
    return best;
  }

 private:
  [[nodiscard]] TimedEnergy at_share(double share) const {
    TimedEnergy sum;
    for (const WorkEnergy& work : works_) {
      const TimedEnergy taken = work.at_clock(share * work.sustained_clock_mhz());
      sum.time_s += taken.time_s;
      sum.energy_j += taken.energy_j;
    }
    return sum;
  }

  std::vector<WorkEnergy> works_;
  double core_s_ = 0;
  double time_s_ = 0;
};

}  // namespace

double JobEnergy::total_j() const {
  double one_gpu_each_j = static_cast<double>(ranks.size()) * rest.total_j();
  for (const EnergySplit& rank : ranks) one_gpu_each_j += rank.total_j();
  return gpus_per_rank * one_gpu_each_j;
}

SustainedClocks sustained_clocks(const GpuModel& gpu, const IterationEstimate& estimate) {
  const auto max_mhz = static_cast<double>(gpu.clocks.max_mhz);
  SustainedClocks clocks{max_mhz, 0};
  for (const StageEstimate& stage : estimate.stages) {
    for (const WorkCost* const work : {&stage.forward, &stage.backward}) {
      const double clock_mhz = WorkEnergy(gpu, *work).sustained_clock_mhz();
      clocks = {std::min(clocks.lowest_mhz, clock_mhz), std::max(clocks.highest_mhz, clock_mhz)};
    }
  }
  return clocks;
}

EnergySplit rest_energy(const GpuModel& gpu, const IterationEstimate& estimate) {
  const WorkCost gradients{.link_s = estimate.gradients_s, .link_bytes = gpu.link_bytes_per_s * estimate.gradients_s};
  const WorkCost update{.memory_s = estimate.optimizer_s - estimate.update_wait_s, .wait_s = estimate.update_wait_s};
  EnergySplit energy = WorkEnergy(gpu, gradients).split_at(gpu.clocks.max_mhz);
  energy += WorkEnergy(gpu, update).split_at(gpu.clocks.max_mhz);
  return energy;
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
    energy.ranks[rank].waiting_j += job.gpu.power.blocking_w * std::max(0.0, estimate.pipeline_s - busy_s[rank]);
  }
  return energy;
}

double quick_planned_energy_j(const TrainingJob& job, const IterationEstimate& estimate) {
  std::vector<RankWork> ranks(static_cast<std::size_t>(job.parallel.pp));
  for (std::size_t stage = 0; stage < estimate.stages.size(); ++stage) {
    ranks[stage % ranks.size()].add(job.gpu, estimate.stages[stage].forward);
    ranks[stage % ranks.size()].add(job.gpu, estimate.stages[stage].backward);
  }
  const double slowest_s = std::ranges::max_element(ranks, {}, &RankWork::time_s)->time_s();
  const auto microbatches = static_cast<double>(job.microbatches());
  double one_gpu_each_j = job.parallel.pp * rest_energy(job.gpu, estimate).total_j();
  for (const RankWork& rank : ranks) {
    const TimedEnergy taken = rank.slowed(job.gpu.power.blocking_w, slowest_s);
    const double waiting_s = std::max(0.0, estimate.pipeline_s - microbatches * taken.time_s);
    one_gpu_each_j += microbatches * taken.energy_j + job.gpu.power.blocking_w * waiting_s;
  }
  return gpus_per_rank(job) * one_gpu_each_j;
}

namespace {

void add(std::vector<TimePart>& parts, std::string_view name, double time_s) {
  const auto found = std::ranges::find(parts, name, &TimePart::name);
  if (found == parts.end()) {
    parts.push_back({name, time_s});
  } else {
    found->time_s += time_s;
  }
}

double busy_s(const TrainingJob& job, const IterationEstimate& estimate, std::size_t rank) {
  double sum_s = 0;
  for (std::size_t stage = rank; stage < estimate.stages.size(); stage += static_cast<std::size_t>(job.parallel.pp)) {
    sum_s += estimate.stages[stage].forward.time_s() + estimate.stages[stage].backward.time_s();
  }
  return sum_s * static_cast<double>(job.microbatches());
}

}  // namespace

std::vector<TimePart> time_breakdown(const TrainingJob& job, const IterationEstimate& estimate, int rank) {
  const auto first = static_cast<std::size_t>(rank);
  const auto microbatches = static_cast<double>(job.microbatches());
  std::vector<TimePart> parts;
  for (std::size_t stage = first; stage < estimate.stages.size(); stage += static_cast<std::size_t>(job.parallel.pp)) {
    for (const auto* items : {&estimate.stages[stage].forward_items, &estimate.stages[stage].backward_items}) {
      for (const CostItem& item : *items) add(parts, item.name, microbatches * item.cost.time_s());
    }
  }
  add(parts, kWaitingPart, std::max(0.0, estimate.pipeline_s - busy_s(job, estimate, first)));
  add(parts, kGradientsPart, estimate.gradients_s);
  add(parts, kOptimizerPart, estimate.optimizer_s);
  return parts;
}

int busiest_rank(const TrainingJob& job, const IterationEstimate& estimate) {
  int busiest = 0;
  for (int rank = 1; rank < job.parallel.pp; ++rank) {
    if (busy_s(job, estimate, static_cast<std::size_t>(rank)) >
        busy_s(job, estimate, static_cast<std::size_t>(busiest))) {
      busiest = rank;
    }
  }
  return busiest;
}

}  // namespace lowgear::estimator
