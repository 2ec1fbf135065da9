#include "estimating/estimator/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "estimating/estimator/iteration/job_energy.h"

namespace lowgear::estimator {
namespace {

constexpr std::string_view kPlainSchedule = "1f1b";
constexpr std::string_view kVirtualSchedule = "interleaved";
constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kSecondsPerHour = 3600;

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> found;
  for (std::int64_t divisor = 1; divisor <= std::min(number, most); ++divisor) {
    if (number % divisor == 0) found.push_back(divisor);
  }
  return found;
}

/// What to try of a count that divides `number`.
std::vector<std::int64_t> choices(std::int64_t number, std::int64_t most, std::optional<int> fixed) {
  if (!fixed) return divisors(number, most);
  return number % *fixed == 0 ? std::vector<std::int64_t>{*fixed} : std::vector<std::int64_t>{};
}

/// Walks through all combinations, one member of the layout after the other.
class Enumeration {
 public:
  Enumeration(TrainingJob job, const SearchLimits& limits) : job_(std::move(job)), limits_(limits) {}

  SearchSpace run() {
    layout_.shard_size = job_.shard_size;
    const int most_tp = limits_.tensor_across_nodes ? limits_.gpus : job_.cluster.gpus_per_node;
    const FixedLayout& fixed = limits_.fixed;
    for (const auto tp : choices(limits_.gpus, most_tp, fixed.tp)) {
      for (const auto cp : choices(limits_.gpus / tp, limits_.max_context_parallel, fixed.cp)) {
        for (const auto pp : choices(limits_.gpus / (tp * cp), job_.model.layers, fixed.pp)) {
          layout_.parallel = {.dp = static_cast<int>(limits_.gpus / (tp * cp * pp)),
                              .tp = static_cast<int>(tp),
                              .pp = static_cast<int>(pp),
                              .virtual_stages = 1,
                              .ep = 1,
                              .cp = static_cast<int>(cp),
                              .sequence_parallel = false};
          choose_micro_batch();
        }
      }
    }
    return std::move(space_);
  }

 private:
  void choose_micro_batch() {
    const int dp = layout_.parallel.dp;
    if (limits_.fixed.dp && dp != *limits_.fixed.dp) return;
    if (job_.batch.global % dp != 0) {
      ++space_.invalid;
      return;
    }
    for (const auto micro : choices(job_.batch.global / dp, limits_.max_micro_batch, limits_.fixed.micro_batch)) {
      layout_.micro_batch = micro;
      choose_virtual_stages();
    }
  }

  void choose_virtual_stages() {
    const std::int64_t layers = job_.model.layers;
    const int pp = layout_.parallel.pp;
    const std::int64_t microbatches = job_.batch.global / (layout_.micro_batch * layout_.parallel.dp);
    const std::optional<int> fixed = limits_.fixed.virtual_stages;
    for (int chunks = fixed.value_or(1); chunks <= fixed.value_or(limits_.max_virtual_stages); ++chunks) {
      const std::int64_t stages = std::int64_t{pp} * chunks;
      // Layers that pp ranks cannot have equally many of (126 of Llama 3.1 405B) are not evener without virtual stages.
      const bool even = layers % stages == 0 || (layers % pp != 0 && stages <= layers) || fixed;
      if (chunks > 1 && !(pp > 1 && even && microbatches % pp == 0)) continue;
      layout_.parallel.virtual_stages = chunks;
      choose_expert_parallel();
    }
  }

  void choose_expert_parallel() {
    const std::int64_t most = job_.model.experts ? job_.model.experts->experts : 1;
    for (const auto ep : choices(std::int64_t{layout_.parallel.dp} * layout_.parallel.cp, most, limits_.fixed.ep)) {
      layout_.parallel.ep = static_cast<int>(ep);
      for (const bool sequence_parallel : {false, true}) {
        if (sequence_parallel && layout_.parallel.tp == 1) continue;
        layout_.parallel.sequence_parallel = sequence_parallel;
        keep_if_valid();
      }
    }
  }

  /// Recomputation and ZeRO change no divisibility, but ZeRO may not go together with the rest.
  void keep_if_valid() {
    const int most_zero = layout_.parallel.dp * layout_.parallel.cp > 1 ? 3 : 0;
    for (int zero = 0; zero <= most_zero; ++zero) {
      if (limits_.fixed.zero && zero != std::min(most_zero, *limits_.fixed.zero)) continue;
      if (zero == 0 && most_zero > 0 && layout_.shard_size > 0 && !limits_.fixed.zero) continue;  // it shards nothing
      layout_.zero = zero;
      layout_.recompute = Recompute::none;
      apply(layout_, job_);
      if (std::optional<JobFault> fault = find_fault(job_)) {
        ++space_.invalid;
        if (!space_.fault) space_.fault = std::move(fault);
        continue;
      }
      choose_recompute();
    }
  }

  void choose_recompute() {
    const std::optional<Recompute> fixed = limits_.fixed.recompute;
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      // Selective recomputation of fused attention is none.
      const bool differs = recompute != Recompute::selective || job_.attention != AttentionKind::fused;
      if (fixed ? recompute != *fixed : !differs) continue;
      layout_.recompute = recompute;
      space_.layouts.push_back(layout_);
    }
  }

  TrainingJob job_;
  SearchLimits limits_;
  SearchLayout layout_;
  SearchSpace space_;
};

auto order_of(const SearchLayout& layout) {
  const ParallelLayout& parallel = layout.parallel;
  return std::tuple(parallel.tp, parallel.pp, parallel.cp, parallel.virtual_stages, parallel.ep,
                    parallel.sequence_parallel, layout.micro_batch, layout.recompute, layout.zero);
}

}  // namespace

std::string describe(const SearchLayout& layout) {
  const ParallelLayout& parallel = layout.parallel;
  std::string text = fmt::format("dp {}, tp {}", parallel.dp, parallel.tp);
  if (parallel.sequence_parallel) text += " with sequence parallelism";
  text += fmt::format(", pp {}", parallel.pp);
  if (parallel.virtual_stages > 1) text += fmt::format(" x {} virtual stages", parallel.virtual_stages);
  if (parallel.ep > 1) text += fmt::format(", ep {}", parallel.ep);
  if (parallel.cp > 1) text += fmt::format(", cp {}", parallel.cp);
  text += fmt::format(", microbatch {}", layout.micro_batch);
  if (layout.recompute != Recompute::none) text += fmt::format(", {}", recomputation_text(layout.recompute));
  if (layout.zero > 0) text += fmt::format(", {}", sharding_text(layout.zero, layout.shard_size));
  return text;
}

std::string options_of(const SearchLayout& layout) {
  const ParallelLayout& parallel = layout.parallel;
  // All of them: a job file may have others.
  return fmt::format(
      "--dp {} --tp {} --pp {} --virtual-stages {} --ep {} --cp {} {} --microbatch {} --recompute {} --zero {}{}",
      parallel.dp, parallel.tp, parallel.pp, parallel.virtual_stages, parallel.ep, parallel.cp,
      parallel.sequence_parallel ? "--sequence-parallel" : "--no-sequence-parallel", layout.micro_batch,
      name(layout.recompute), layout.zero,
      layout.shard_size > 0 ? fmt::format(" --shard-size {}", layout.shard_size) : "");
}

SearchLayout layout_of(const TrainingJob& job) {
  return {.parallel = job.parallel,
          .micro_batch = job.batch.micro,
          .recompute = job.recompute,
          .zero = job.zero,
          .shard_size = job.shard_size};
}

void apply(const SearchLayout& layout, TrainingJob& job) {
  job.parallel = layout.parallel;
  job.batch.micro = layout.micro_batch;
  job.recompute = layout.recompute;
  job.zero = layout.zero;
  job.shard_size = layout.shard_size;
  if (layout.parallel.virtual_stages > 1) {
    job.schedule = kVirtualSchedule;
  } else if (job.schedule == kVirtualSchedule) {
    job.schedule = kPlainSchedule;
  }
}

SearchSpace enumerate_layouts(const TrainingJob& job, const SearchLimits& limits) {
  if (limits.gpus < 1 || limits.gpus > kMaxJobGpus) {
    throw InputError(fmt::format("a search is for 1 to {} GPUs, not {}", kMaxJobGpus, limits.gpus));
  }
  return Enumeration(job, limits).run();
}

std::vector<std::string> search_notes(const TrainingJob& job) {
  std::vector<std::string> notes = notes_on_setup(job);
  if (const std::string limits = limits_text(job.stack); !limits.empty()) {
    notes.push_back(limits + ": other layouts are estimated as if it ran them with the same kernels");
  }
  return notes;
}

void SearchOutcome::append(SearchOutcome&& other) {
  results.insert(results.end(), std::make_move_iterator(other.results.begin()),
                 std::make_move_iterator(other.results.end()));
  too_large += other.too_large;
}

SearchOutcome evaluate(const TrainingJob& job, std::span<const SearchLayout> layouts, const CostSources& sources) {
  TrainingJob candidate = job;
  SearchOutcome outcome;
  for (const SearchLayout& layout : layouts) {
    apply(layout, candidate);
    const MemoryEstimate memory = estimate_memory(candidate);
    if (!memory.within_capacity()) {
      ++outcome.too_large;
      continue;
    }
    const IterationEstimate estimate = estimate_iteration(candidate, sources);
    outcome.results.push_back({.layout = layout,
                               .time_s = estimate.time_s,
                               .error_s = estimate.error_s,
                               .energy_j = estimate_energy(candidate, estimate).total_j(),
                               .planned_energy_j = quick_planned_energy_j(candidate, estimate),
                               .memory_bytes = memory.peak(),
                               .model_flops_per_gpu_s = estimate.model_flops_per_gpu_s,
                               .near_limit = memory.fit() == MemoryFit::near_limit});
  }
  return outcome;
}

std::string_view name(SearchObjective objective) {
  switch (objective) {
    case SearchObjective::time:
      return "time";
    case SearchObjective::energy:
      return "energy";
    case SearchObjective::cost:
      return "cost";
  }
  return "";
}

double Prices::cost_usd(double time_s, double energy_j, int gpus) const {
  return usd_per_gpu_hour * gpus * time_s / kSecondsPerHour + usd_per_kwh * energy_j / kJoulesPerKwh;
}

double Prices::co2_g(double energy_j) const { return co2_g_per_kwh * energy_j / kJoulesPerKwh; }

double value_of(const SearchResult& result, SearchObjective objective, const Prices& prices) {
  switch (objective) {
    case SearchObjective::time:
      return result.time_s;
    case SearchObjective::energy:
      return result.planned_energy_j;
    case SearchObjective::cost:
      return prices.cost_usd(result.time_s, result.planned_energy_j, result.layout.parallel.gpus());
  }
  return result.time_s;
}

void rank(std::vector<SearchResult>& results, SearchObjective objective, const Prices& prices) {
  const auto key = [&](const SearchResult& result) {
    return std::tuple(value_of(result, objective, prices), result.time_s, result.planned_energy_j, result.memory_bytes,
                      order_of(result.layout));
  };
  std::ranges::sort(results, {}, key);
}

std::vector<std::size_t> pareto_front(std::span<const SearchResult> results) {
  std::vector<std::size_t> by_time(results.size());
  for (std::size_t i = 0; i < by_time.size(); ++i) by_time[i] = i;
  std::ranges::sort(by_time, {}, [&](std::size_t i) {
    return std::tuple(results[i].time_s, results[i].planned_energy_j, order_of(results[i].layout));
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : by_time) {
    if (front.empty() || results[i].planned_energy_j < results[front.back()].planned_energy_j) front.push_back(i);
  }
  return front;
}

std::vector<TimeDifference> compare_times(const TrainingJob& job, const SearchLayout& winner,
                                          const SearchLayout& runner_up, const CostSources& sources) {
  const auto parts_of = [&](const SearchLayout& layout) {
    TrainingJob candidate = job;
    apply(layout, candidate);
    const IterationEstimate estimate = estimate_iteration(candidate, sources);
    return time_breakdown(candidate, estimate, busiest_rank(candidate, estimate));
  };
  std::vector<TimeDifference> differences;
  for (const TimePart& part : parts_of(winner)) differences.push_back({part.name, part.time_s, 0});
  for (const TimePart& part : parts_of(runner_up)) {
    const auto found = std::ranges::find(differences, part.name, &TimeDifference::part);
    if (found == differences.end()) {
      differences.push_back({part.name, 0, part.time_s});
    } else {
      found->rival_s = part.time_s;
    }
  }
  std::ranges::stable_sort(differences, std::ranges::greater{}, [](const TimeDifference& difference) {
    return std::abs(difference.rival_s - difference.winner_s);
  });
  return differences;
}

}  // namespace lowgear::estimator
