#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/estimator/iteration/iteration_estimate.h"
#include "estimating/estimator/job/training_job.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {

/// Settings shared by all layouts, such as limits of a framework. The search varies empty members.
struct FixedLayout {
  std::optional<int> dp;
  std::optional<int> tp;
  std::optional<int> pp;
  std::optional<int> virtual_stages;
  std::optional<int> ep;
  std::optional<int> cp;
  std::optional<int> micro_batch;
  std::optional<Recompute> recompute;
  std::optional<int> zero;  ///< of layouts with replicas
};

/// Bounds of a search. They do not apply to fixed settings.
struct SearchLimits {
  int gpus = 1;
  FixedLayout fixed = {};
  bool tensor_across_nodes = false;  ///< tp may exceed the GPUs of a node
  int max_virtual_stages = 8;
  int max_context_parallel = 8;
  std::int64_t max_micro_batch = 16;
};

/// One way to divide a job: the settings that a search varies. All others are the job's.
struct SearchLayout {
  ParallelLayout parallel;
  std::int64_t micro_batch = 1;
  Recompute recompute = Recompute::none;
  int zero = 0;
  int shard_size = 0;  ///< the job's, which a search keeps

  friend bool operator==(const SearchLayout&, const SearchLayout&) = default;
};

/// `dp 2, tp 8, pp 4 x 2 virtual, microbatch 1, full recomputation, ZeRO 1`.
[[nodiscard]] std::string describe(const SearchLayout& layout);

/// The options of `lowgear estimate` for the layout: `--dp 2 --tp 8 --pp 4 ...`.
[[nodiscard]] std::string options_of(const SearchLayout& layout);

/// The layout of a job.
[[nodiscard]] SearchLayout layout_of(const TrainingJob& job);

/// The job with a layout. With virtual stages its schedule becomes an interleaved one, without them an ordinary one.
void apply(const SearchLayout& layout, TrainingJob& job);

/// The valid layouts of a search.
struct SearchSpace {
  std::vector<SearchLayout> layouts;
  std::int64_t invalid = 0;       ///< number of combinations with a fault (find_fault)
  std::optional<JobFault> fault;  ///< of the first such combination
};

/// All combinations of tp, cp, pp and dp whose product is the number of GPUs, of ep, sequence parallelism, virtual
/// stages (with microbatches in whole rounds; divisors of the layers, if pp is one), microbatch sizes that divide a
/// replica's batch, recomputation and ZeRO. Combinations that compute the same are listed once: no ZeRO without
/// replicas, no sequence parallelism without tp, no selective recomputation of fused attention. `job` gives model, GPU,
/// cluster, global batch and sequence. Throws InputError unless GPUs are positive and at most kMaxJobGpus.
[[nodiscard]] SearchSpace enumerate_layouts(const TrainingJob& job, const SearchLimits& limits);

/// The estimate of a layout that fits (MemoryEstimate::within_capacity). One iteration of the whole job.
struct SearchResult {
  SearchLayout layout;
  double time_s = 0;
  double error_s = 0;           ///< half the width of a 90 % interval of the time
  double energy_j = 0;          ///< at full clocks
  double planned_energy_j = 0;  ///< with clocks that cost no time, by quick_planned_energy_j
  double memory_bytes = 0;      ///< of the fullest GPU
  double model_flops_per_gpu_s = 0;
  bool near_limit = false;  ///< of memory: MemoryFit::near_limit
};

/// Notes for the user about the job of a search, whatever the layout.
[[nodiscard]] std::vector<std::string> search_notes(const TrainingJob& job);

/// The results for some layouts.
struct SearchOutcome {
  std::vector<SearchResult> results;
  std::int64_t too_large = 0;  ///< number of layouts that do not fit into memory

  void append(SearchOutcome&& other);
};

/// Estimates memory, then time and energy of the layouts that fit. Layouts of a search can be evaluated in slices, on
/// several threads if the sources allow it. Throws what the sources throw.
[[nodiscard]] SearchOutcome evaluate(const TrainingJob& job, std::span<const SearchLayout> layouts,
                                     const CostSources& sources);

enum class SearchObjective : unsigned char { time, energy, cost };
[[nodiscard]] std::string_view name(SearchObjective objective);

/// Prices of GPU time and energy.
struct Prices {
  double usd_per_gpu_hour = 0;
  double usd_per_kwh = 0;
  double co2_g_per_kwh = 0;

  [[nodiscard]] double cost_usd(double time_s, double energy_j, int gpus) const;
  [[nodiscard]] double co2_g(double energy_j) const;
};

/// Seconds, joules (planned) or dollars of an iteration: less is better.
[[nodiscard]] double value_of(const SearchResult& result, SearchObjective objective, const Prices& prices);

/// Sorts results, best first. Ties are decided by (time, energy, memory), then by fewer tp, pp, cp, ... ranks, so that
/// the order does not depend on that of evaluation.
void rank(std::vector<SearchResult>& results, SearchObjective objective, const Prices& prices);

/// Indices of the results that no other one beats in both time and planned energy, fastest first.
[[nodiscard]] std::vector<std::size_t> pareto_front(std::span<const SearchResult> results);

/// A difference in time between two layouts.
struct TimeDifference {
  std::string_view part;  ///< TimePart::name
  double winner_s = 0;
  double rival_s = 0;
};
/// Compares parts of the iteration on the busiest pipeline rank of each layout; the largest difference is first.
[[nodiscard]] std::vector<TimeDifference> compare_times(const TrainingJob& job, const SearchLayout& winner,
                                                        const SearchLayout& runner_up, const CostSources& sources);

}  // namespace lowgear::estimator
