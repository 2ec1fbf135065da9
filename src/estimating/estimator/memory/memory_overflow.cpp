#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {
namespace {

/// Below this share of the total, a change is no help.
constexpr double kWorthSaying = 0.01;

struct Change {
  std::string flags;
  TrainingJob job;
};

/// Half the replicas make room for twice the ranks of `ways`, on the same GPUs.
void add_more_ranks(const TrainingJob& job, std::string_view option, int ParallelLayout::*ways,
                    std::vector<Change>& changes) {
  if (job.parallel.dp % 2 != 0) return;
  TrainingJob changed = job;
  changed.parallel.dp /= 2;
  changed.parallel.*ways *= 2;
  changes.push_back({fmt::format("{} {} --dp {}", option, changed.parallel.*ways, changed.parallel.dp), changed});
}

std::vector<Change> changes_of(const TrainingJob& job) {
  std::vector<Change> changes;
  const auto add = [&](std::string flags, auto&& change) {
    changes.push_back({std::move(flags), job});
    change(changes.back().job);
  };
  for (int stage = job.zero + 1; stage <= 3; ++stage) {
    add(fmt::format("--zero {}", stage), [stage](TrainingJob& changed) { changed.zero = stage; });
  }
  const int replicas = job.parallel.dp * job.parallel.cp;
  if (job.shard_size > 0) {
    add(fmt::format("--shard-size {}", replicas), [replicas](TrainingJob& changed) { changed.shard_size = replicas; });
  }
  for (const Offload offload : {Offload::activations, Offload::optimizer, Offload::states}) {
    if (job.offload != Offload::none) break;
    add(fmt::format("--offload {}", name(offload)), [offload](TrainingJob& changed) { changed.offload = offload; });
  }
  if (job.recompute == Recompute::none) {
    add("--recompute selective", [](TrainingJob& changed) { changed.recompute = Recompute::selective; });
  }
  if (job.recompute == Recompute::none || job.recompute == Recompute::selective) {
    add("--recompute operators", [](TrainingJob& changed) { changed.recompute = Recompute::operators; });
  }
  if (job.recompute != Recompute::full) {
    add("--recompute full", [](TrainingJob& changed) { changed.recompute = Recompute::full; });
  }
  if (job.parallel.tp > 1 && !job.parallel.sequence_parallel) {
    add("--sequence-parallel", [](TrainingJob& changed) { changed.parallel.sequence_parallel = true; });
  }
  if (job.batch.micro > 1) {
    add(fmt::format("--microbatch {}", job.batch.micro / 2), [](TrainingJob& changed) { changed.batch.micro /= 2; });
  }
  if (job.attention == AttentionKind::unfused) {
    add("--attention fused", [](TrainingJob& changed) { changed.attention = AttentionKind::fused; });
  }
  if (job.dtype == DataType::fp8 && !(job.stack.weights && job.stack.gradients)) {
    const std::string base =
        job.stack.name == software_stacks().front().name ? "" : fmt::format("name: {}, ", job.stack.name);
    add(fmt::format("a job file with stack: {{{}weights: fp8, gradients: bf16}}", base), [](TrainingJob& changed) {
      changed.stack.weights = DataType::fp8;
      changed.stack.gradients = DataType::bf16;
    });
  }
  add_more_ranks(job, "--tp", &ParallelLayout::tp, changes);
  add_more_ranks(job, "--pp", &ParallelLayout::pp, changes);
  add_more_ranks(job, "--cp", &ParallelLayout::cp, changes);
  return changes;
}

std::pair<std::string_view, double> largest_part(const RankMemory& memory) {
  using Part = std::pair<std::string_view, double>;
  const auto parts = std::to_array<Part>({{"weights", memory.weights},
                                          {"gradients", memory.gradients},
                                          {"optimizer", memory.optimizer},
                                          {"activations", memory.activations},
                                          {"buffers", memory.buffers},
                                          {"fragmentation", memory.fragmentation}});
  return *std::ranges::max_element(parts, {}, [](const auto& part) { return part.second; });
}

std::vector<MemoryRemedy> remedies_of(const TrainingJob& job, double total, const IterationTime& time_of) {
  std::vector<MemoryRemedy> remedies;
  for (Change& change : changes_of(job)) {
    if (find_fault(change.job)) continue;
    const MemoryEstimate estimate = estimate_memory(change.job);
    if (estimate.peak() > (1 - kWorthSaying) * total) continue;
    const bool fits = estimate.within_capacity();
    remedies.push_back({std::move(change.flags), estimate.peak(), fits, fits && time_of ? time_of(change.job) : 0});
  }
  std::ranges::stable_sort(remedies, {}, [](const MemoryRemedy& remedy) {
    return std::tuple(remedy.time_s == 0, remedy.time_s, remedy.total);
  });
  return remedies;
}

}  // namespace

std::optional<MemoryOverflow> explain_overflow(const TrainingJob& job, const MemoryEstimate& estimate,
                                               const IterationTime& time_of) {
  if (estimate.within_capacity()) return std::nullopt;
  MemoryOverflow overflow;
  overflow.rank = estimate.fullest_rank();
  const RankMemory& memory = estimate.ranks[overflow.rank];
  overflow.missing = memory.total() - estimate.capacity;
  std::tie(overflow.largest, overflow.largest_bytes) = largest_part(memory);
  overflow.remedies = remedies_of(job, memory.total(), time_of);
  return overflow;
}

}  // namespace lowgear::estimator
