#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/iteration/planned_job.h"
#include "estimating/estimator/search/search_run.h"

namespace lowgear::estimator {

/// Power that a job may draw on average, with what it draws outside its GPUs.
struct FacilityPower {
  double limit_w = 0;
  double gpu_overhead_w = 0;   ///< of each GPU's share: CPUs, network, cooling
  double node_overhead_w = 0;  ///< of each node

  [[nodiscard]] double overhead_w(const TrainingJob& job, int gpus) const;
};

/// Clocks of the ops of one iteration.
struct ClockSpread {
  int lowest_mhz = 0;
  int median_mhz = 0;
  int highest_mhz = 0;
};

/// A layout at clocks with which the facility's power suffices. One iteration of the whole job.
struct PoweredLayout {
  SearchLayout layout;
  JobFigures figures;         ///< of all GPUs
  ClockSpread clocks;         ///< without power limits, which may hold a GPU below its highest clock
  double power_w = 0;         ///< mean, overhead included
  SustainedClocks sustained;  ///< the highest that the power limit lets passes run

  [[nodiscard]] double energy_j() const { return power_w * figures.time_s; }
};

/// The best of one number of GPUs.
struct GpuCount {
  int gpus = 0;
  std::optional<PoweredLayout> full_clocks;  ///< *estimated*; empty where all layouts draw too much
  std::optional<PoweredLayout> one_clock;    ///< *planned*: the fastest layout at one clock for all computations
  std::optional<PoweredLayout> planned;      ///< *planned*, of the layouts whose clocks were planned op by op
  std::optional<double> least_time_s;        ///< no plan within the power is faster
};

/// Tokens a second of the best plan over those of the reference: a product of three factors.
struct TokenGain {
  double power = 1;   ///< more of the facility's power is drawn
  double layout = 1;  ///< less energy a token with that layout and number of GPUs, at full clocks
  double clocks = 1;  ///< less energy a token with planned clocks

  [[nodiscard]] double total() const { return power * layout * clocks; }
};

/// Most tokens a second within a facility's power. All figures are *estimated* or *planned* on estimated values.
struct PowerSearchData {
  std::vector<GpuCount> counts;            ///< numbers of GPUs that some layout has and fits, ascending
  std::optional<PoweredLayout> reference;  ///< the fastest layout at full clocks
  PoweredLayout best;                      ///< the fastest plan
  PoweredLayout best_at_full_clocks;       ///< its layout at full clocks, which may draw too much
  double least_time_s = 0;                 ///< no plan of any layout that was looked at is faster
  int least_gpus = 0;                      ///< numbers of GPUs that were looked at
  int most_gpus = 0;
  std::int64_t layouts = 0;    ///< number of valid layouts
  std::int64_t too_large = 0;  ///< number of them that do not fit into memory
  int planned = 0;             ///< number of layouts whose clocks were planned
  double search_s = 0;         ///< wall clock, all threads

  /// By how much the bound on tokens a second is above the best plan, as a share.
  [[nodiscard]] double gap() const { return std::max(0.0, best.figures.time_s / least_time_s - 1); }
  /// Empty without a reference.
  [[nodiscard]] std::optional<TokenGain> gain() const;
};

/// Looks at all layouts with numbers of GPUs from two thirds of those that run at their power limits to those that can
/// wait within the power, or to `request.limits.gpus`; also at fewer where the power does not limit the best of them.
/// Plans clocks of up to `request.top` layouts, those with the highest bound first, until no bound is more than 1 %
/// above the best plan. Throws InputError if the power does not suffice for one GPU or any layout that fits, and what
/// run_search throws.
[[nodiscard]] PowerSearchData run_power_search(const SearchRequest& request, const FacilityPower& facility,
                                               const SearchTools& tools, Progress& progress);

}  // namespace lowgear::estimator
