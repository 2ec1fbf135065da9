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

/// How far a search goes. Bounds do not hold for what is fixed.
struct SearchLimits {
  int gpus = 1;
  FixedLayout fixed = {};
  bool tensor_across_nodes = false;  ///< tp may be more than a node has GPUs
  int max_virtual_stages = 8;
  int max_context_parallel = 8;
  std::int64_t max_micro_batch = 16;
};

/// One way to divide a job: what a search varies. All else is the job's.
struct SearchLayout {
  ParallelLayout parallel;
  std::int64_t micro_batch = 1;
  Recompute recompute = Recompute::none;
  int zero = 0;

  friend bool operator==(const SearchLayout&, const SearchLayout&) = default;
};

/// `dp 2, tp 8, pp 4 x 2 virtual, microbatch 1, full recomputation, ZeRO 1`.
[[nodiscard]] std::string describe(const SearchLayout& layout);

/// The options of `lowgear estimate` that ask for the layout: `--dp 2 --tp 8 --pp 4 ...`.
[[nodiscard]] std::string options_of(const SearchLayout& layout);

/// The layout that a job has.
[[nodiscard]] SearchLayout layout_of(const TrainingJob& job);

/// The job with a layout. A schedule for virtual stages is put in where there are any and taken out where not.
void apply(const SearchLayout& layout, TrainingJob& job);

/// The layouts that are worth estimating, and what was left out before.
struct SearchSpace {
  std::vector<SearchLayout> layouts;
  std::int64_t invalid = 0;       ///< combinations that the job's rules forbid (find_fault)
  std::optional<JobFault> fault;  ///< of the first of them
};

/// All combinations of tp, cp, pp and dp whose product is the number of GPUs, of ep, sequence parallelism, virtual
/// stages (with microbatches in whole rounds; that divide the layers, where pp does), microbatch sizes that divide a
/// replica's batch, recomputation and ZeRO, as far as they differ: no ZeRO without replicas, no sequence parallelism
/// without tp, no selective recomputation of fused attention. `job` gives model, GPU, cluster, global batch and
/// sequence. Throws InputError unless GPUs are positive and at most kMaxJobGpus.
[[nodiscard]] SearchSpace enumerate_layouts(const TrainingJob& job, const SearchLimits& limits);

/// A layout that fits, estimated. One iteration of the whole job.
struct SearchResult {
  SearchLayout layout;
  double time_s = 0;
  double error_s = 0;           ///< half the width of a 90 % interval of the time
  double energy_j = 0;          ///< at full clocks
  double planned_energy_j = 0;  ///< with clocks that cost no time, by quick_planned_energy_j
  double memory_bytes = 0;      ///< of the fullest GPU
  double model_flops_per_gpu_s = 0;
};

/// What became of some layouts.
struct SearchOutcome {
  std::vector<SearchResult> results;
  std::int64_t too_large = 0;  ///< do not fit into memory; not estimated further

  void append(SearchOutcome&& other);
};

/// Memory first, then time and energy of those that fit. Layouts of a search can be evaluated in slices, on several
/// threads where the sources allow it. Throws what the sources throw.
[[nodiscard]] SearchOutcome evaluate(const TrainingJob& job, std::span<const SearchLayout> layouts,
                                     const CostSources& sources);

enum class SearchObjective : unsigned char { time, energy, cost };
[[nodiscard]] std::string_view name(SearchObjective objective);

/// What the user pays.
struct Prices {
  double usd_per_gpu_hour = 0;
  double usd_per_kwh = 0;
  double co2_g_per_kwh = 0;

  [[nodiscard]] double cost_usd(double time_s, double energy_j, int gpus) const;
  [[nodiscard]] double co2_g(double energy_j) const;
};

/// Seconds, joules (planned) or dollars of an iteration: less is better.
[[nodiscard]] double value_of(const SearchResult& result, SearchObjective objective, const Prices& prices);

/// Best first. Ties go to what comes first in (time, energy, memory), then to fewer tp, pp, cp, ... ranks: the order is
/// the same however the results were gathered.
void rank(std::vector<SearchResult>& results, SearchObjective objective, const Prices& prices);

/// Indices of the results that no other beats in both time and planned energy, fastest first.
[[nodiscard]] std::vector<std::size_t> pareto_front(std::span<const SearchResult> results);

/// Where two layouts differ in time.
struct TimeDifference {
  std::string_view part;  ///< TimePart::name
  double winner_s = 0;
  double runner_up_s = 0;
};
/// By part of the iteration on the busiest pipeline rank of each, the largest difference first.
[[nodiscard]] std::vector<TimeDifference> compare_times(const TrainingJob& job, const SearchLayout& winner,
                                                        const SearchLayout& runner_up, const CostSources& sources);

}  // namespace lowgear::estimator
