#include "estimating/estimator/search/power_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "estimating/estimator/search/power_bound.h"

namespace lowgear::estimator {
namespace {

/// Fewer GPUs than this share of those that run at their limits are looked at only where the power does not limit the
/// best of the others: each would have to be faster by half.
constexpr double kLeastShare = 2.0 / 3;
/// Bounds this little above the best plan are not pursued.
constexpr double kSmallGap = 0.01;
/// Layouts planned before the best plan is looked at again: the same on any number of threads.
constexpr std::size_t kPlannedTogether = 4;
constexpr int kMostDeadlines = 12;

/// A layout that may be faster than the best plan known.
struct Candidate {
  SearchLayout layout;
  double least_time_s = 0;
};

struct CountResult {
  GpuCount count;
  std::vector<Candidate> candidates;
  std::int64_t layouts = 0;
  std::int64_t too_large = 0;
  std::optional<JobFault> fault;
};

/// Values that a setting may have: those up to `most` that divide `number`, or the fixed one.
std::vector<std::int64_t> settings(std::int64_t number, std::int64_t most, std::optional<int> fixed) {
  std::vector<std::int64_t> values;
  for (std::int64_t value = fixed.value_or(1); value <= (fixed ? *fixed : most); ++value) {
    if (number % value == 0) values.push_back(value);
  }
  return values;
}

/// Numbers of GPUs that tp x cp x pp x dp can have, and that are less than a node or fill nodes.
std::vector<int> gpu_counts(const TrainingJob& job, const SearchLimits& limits, std::int64_t least, std::int64_t most) {
  const int node = job.cluster.gpus_per_node;
  const FixedLayout& fixed = limits.fixed;
  std::set<std::int64_t> counts;
  for (const auto tp : settings(job.model.heads, limits.tensor_across_nodes ? most : node, fixed.tp)) {
    for (const auto cp : settings(job.batch.sequence_length, limits.max_context_parallel, fixed.cp)) {
      for (const auto dp : settings(job.batch.global, most, fixed.dp)) {
        for (std::int64_t pp = fixed.pp.value_or(1); pp <= fixed.pp.value_or(static_cast<int>(job.model.layers));
             ++pp) {
          const std::int64_t gpus = tp * cp * dp * pp;
          if (gpus > most) break;
          if (gpus >= least && (gpus <= node || gpus % node == 0)) counts.insert(gpus);
        }
      }
    }
  }
  return {counts.begin(), counts.end()};
}

bool faster(const JobFigures& figures, const std::optional<PoweredLayout>& best) {
  return !best || figures.time_s < best->figures.time_s;
}

class PowerSearch {
 public:
  PowerSearch(const SearchRequest& request, const FacilityPower& facility, const SearchTools& tools, Progress& progress)
      : request_(request),
        facility_(facility),
        tools_(tools),
        progress_(progress),
        costs_(static_cast<std::size_t>(request.threads)) {}

  PowerSearchData run() {
    const double begin_s = tools_.now_s ? tools_.now_s() : 0;
    choose_range();
    look_at_counts(found_.least_gpus, found_.most_gpus);
    if (found_.least_gpus > 1 && has_slack()) look_at_counts(1, std::exchange(found_.least_gpus, 1) - 1);
    if (found_.counts.empty()) throw_nothing_found();
    std::ranges::sort(found_.counts, {}, &GpuCount::gpus);
    std::ranges::stable_sort(candidates_, {}, &Candidate::least_time_s);
    plan_best();
    if (tools_.now_s) found_.search_s = tools_.now_s() - begin_s;
    return std::move(found_);
  }

 private:
  void choose_range() {
    const power::GpuPower& gpu = request_.job.gpu.power;
    const double overhead_w = facility_.gpu_overhead_w + facility_.node_overhead_w / request_.job.cluster.gpus_per_node;
    const auto supplied = [&](double gpu_w) {
      return std::min<double>(request_.limits.gpus, facility_.limit_w / (gpu_w + overhead_w));
    };
    found_.most_gpus = static_cast<int>(supplied(gpu.blocking_w));
    found_.least_gpus = std::max(1, static_cast<int>(std::ceil(kLeastShare * supplied(gpu.limit_w))));
    const double least_w = gpu.blocking_w + facility_.overhead_w(request_.job, 1);
    if (found_.most_gpus >= 1 && facility_.limit_w > least_w) return;
    throw InputError(
        fmt::format("{:.6g} W do not suffice for one {}, which takes {:.6g} W while it waits, overhead "
                    "included; give more power, with its unit: 20kW, or 20MW",
                    facility_.limit_w, describe(request_.job.gpu), least_w));
  }

  /// Not shared among threads: samples are fitted when first asked for.
  [[nodiscard]] CostSources sources(std::size_t thread) {
    if (!costs_[thread]) costs_[thread] = std::make_unique<const JobCosts>(request_.job, request_.samples);
    return costs_[thread]->sources();
  }

  [[nodiscard]] double power_of_gpus_w(int gpus) const {
    return facility_.limit_w - facility_.overhead_w(request_.job, gpus);
  }

  [[nodiscard]] PoweredLayout powered(const SearchLayout& layout, const IterationEstimate& estimate,
                                      const JobFigures& figures, ClockSpread clocks) const {
    return {layout, figures, clocks,
            figures.mean_power_w() + facility_.overhead_w(request_.job, layout.parallel.gpus()),
            sustained_clocks(request_.job.gpu, estimate)};
  }

  void look_at_counts(int least, int most) {
    std::vector<int> counts = gpu_counts(request_.job, request_.limits, least, most);
    const auto too_many = [this](int gpus) {
      return power_of_gpus_w(gpus) <= gpus * request_.job.gpu.power.blocking_w;
    };
    lacks_power_ |= std::erase_if(counts, too_many) > 0;
    std::vector<CountResult> results(counts.size());
    tools_.run(counts.size(), costs_.size(), "estimating layouts", progress_, [&](const ParallelTask& task) {
      results[task.index] = look_at(counts[task.index], sources(task.thread), task.progress);
    });
    for (CountResult& result : results) {
      found_.layouts += result.layouts;
      found_.too_large += result.too_large;
      if (!fault_) fault_ = std::move(result.fault);
      if (!result.count.least_time_s) continue;
      found_.counts.push_back(std::move(result.count));
      candidates_.insert(candidates_.end(), result.candidates.begin(), result.candidates.end());
    }
    choose_unplanned_best();
  }

  /// Whether something else limits the best, so that fewer GPUs may make as much.
  [[nodiscard]] bool has_slack() const {
    const std::optional<PoweredLayout>& full = found_.reference;
    return !full || full->power_w < kLeastShare * facility_.limit_w || !faster(best_->figures, full);
  }

  [[noreturn]] void throw_nothing_found() const {
    std::string what = fmt::format("no layout of {} on {} to {} {} stays within {:.6g} W", request_.job.model.name,
                                   found_.least_gpus, found_.most_gpus, describe(request_.job.gpu), facility_.limit_w);
    if (found_.too_large > 0) {
      what += fmt::format(": of {} layouts, {} need more memory than a GPU has", found_.layouts, found_.too_large);
    } else if (found_.layouts == 0 && !lacks_power_) {
      what += fmt::format(": none divides the job evenly with a global batch of {}", request_.job.batch.global);
      if (fault_) what += fmt::format(" ({}: {})", fault_->member, fault_->what);
      throw InputError(what + "; fix fewer settings");
    }
    throw InputError(what + "; give more power, or fix fewer settings");
  }

  /// All layouts of a number of GPUs: the fastest at full clocks and at one clock, and those whose bounds are better.
  [[nodiscard]] CountResult look_at(int gpus, const CostSources& sources, Progress& progress) const {
    SearchLimits limits = request_.limits;
    limits.gpus = gpus;
    const SearchSpace space = enumerate_layouts(request_.job, limits);
    CountResult result{.count = {.gpus = gpus, .full_clocks = {}, .one_clock = {}, .planned = {}, .least_time_s = {}},
                       .candidates = {},
                       .layouts = static_cast<std::int64_t>(space.layouts.size()),
                       .too_large = 0,
                       .fault = space.fault};
    TrainingJob job = request_.job;
    const double power_w = power_of_gpus_w(gpus);
    const int max_mhz = job.gpu.clocks.max_mhz;
    for (const SearchLayout& layout : space.layouts) {
      apply(layout, job);
      if (!estimate_memory(job).within_capacity()) {
        ++result.too_large;
        continue;
      }
      progress.update("estimating layouts", -1);
      const IterationEstimate estimate = estimate_iteration(job, sources);
      const CappedLayout capped(job, estimate);
      const JobFigures& full = capped.full_clocks();
      if (full.mean_power_w() <= power_w && faster(full, result.count.full_clocks)) {
        result.count.full_clocks = powered(layout, estimate, full, {max_mhz, max_mhz, max_mhz});
      }
      if (const auto least_s = capped.fastest_s(power_w)) result.candidates.push_back({layout, *least_s});
    }
    keep_promising(result, sources);
    return result;
  }

  /// Finds the best single clock, of layouts with the best bounds first, and drops candidates that cannot beat it.
  void keep_promising(CountResult& result, const CostSources& sources) const {
    std::optional<PoweredLayout>& best = result.count.one_clock;
    std::ranges::stable_sort(result.candidates, {}, &Candidate::least_time_s);
    if (result.candidates.empty()) return;
    result.count.least_time_s = result.candidates.front().least_time_s;
    best = result.count.full_clocks;
    TrainingJob job = request_.job;
    std::size_t kept = 0;
    for (; kept < result.candidates.size(); ++kept) {
      const Candidate& candidate = result.candidates[kept];
      if (best && candidate.least_time_s >= best->figures.time_s) break;
      apply(candidate.layout, job);
      const IterationEstimate estimate = estimate_iteration(job, sources);
      const auto point = CappedLayout(job, estimate).one_clock(power_of_gpus_w(result.count.gpus));
      if (!point || !faster(point->figures, best)) continue;
      best =
          powered(candidate.layout, estimate, point->figures, {point->clock_mhz, point->clock_mhz, point->clock_mhz});
    }
    result.candidates.erase(result.candidates.begin() + static_cast<std::ptrdiff_t>(kept), result.candidates.end());
  }

  /// A layout with its best plan within the power, and what its frontier proves.
  struct Planned {
    double least_time_s = 0;
    std::optional<PoweredLayout> plan;
  };

  [[nodiscard]] Planned plan(const SearchLayout& layout, const CostSources& sources, Progress& progress) const {
    TrainingJob job = request_.job;
    apply(layout, job);
    const double power_w = power_of_gpus_w(layout.parallel.gpus());
    const IterationEstimate estimate = estimate_iteration(job, sources);
    PlannedJob planner(job, estimate, kEstimatePlannerOptions, &progress);
    // Beyond T* energy does not fall, so that some time is always long enough.
    double time_s = *fastest_within(power_w, {planner.fastest_s(), planner.slowest_s(), 0},
                                    [&](double within_s) { return planner.least_energy_j(within_s); });
    Planned planned{time_s, {}};
    for (int i = 0; i < kMostDeadlines && time_s <= planner.slowest_s(); ++i) {
      const JobFigures figures = planner.plan(time_s);
      if (figures.mean_power_w() <= power_w) {
        std::vector<int> clocks_mhz = planner.clocks_mhz(time_s);
        std::ranges::sort(clocks_mhz);
        planned.plan = powered(layout, estimate, figures,
                               {clocks_mhz.front(), clocks_mhz[clocks_mhz.size() / 2], clocks_mhz.back()});
        break;
      }
      constexpr double kLeastStep = 1 + 1e-4;
      time_s = std::max(figures.energy_j / power_w, kLeastStep * time_s);
    }
    return planned;
  }

  void plan_best() {
    std::size_t next = 0;
    const auto most = std::min(candidates_.size(), static_cast<std::size_t>(request_.top));
    double proven_s = std::numeric_limits<double>::infinity();  // of planned layouts
    while (next < most && candidates_[next].least_time_s * (1 + kSmallGap) < best_s()) {
      const auto batch = std::span<const Candidate>(candidates_).subspan(next, std::min(kPlannedTogether, most - next));
      std::vector<Planned> planned(batch.size());
      std::vector<SearchLayout> layouts;
      for (const Candidate& candidate : batch) layouts.push_back(candidate.layout);
      tools_.run(batch.size(), planning_threads(request_, tools_, layouts), "planning the best", progress_,
                 [&](const ParallelTask& task) {
                   planned[task.index] = plan(layouts[task.index], sources(task.thread), task.progress);
                 });
      for (std::size_t i = 0; i < batch.size(); ++i) {
        proven_s = std::min(proven_s, std::max(planned[i].least_time_s, batch[i].least_time_s));
        take(planned[i]);
      }
      next += batch.size();
    }
    found_.planned = static_cast<int>(next);
    found_.least_time_s = std::min(best_s(), proven_s);
    if (next < candidates_.size()) found_.least_time_s = std::min(found_.least_time_s, candidates_[next].least_time_s);
    find_full_clocks(sources(0));
  }

  [[nodiscard]] double best_s() const {
    return best_ ? best_->figures.time_s : std::numeric_limits<double>::infinity();
  }

  void choose_unplanned_best() {
    for (const GpuCount& count : found_.counts) {
      if (count.full_clocks && faster(count.full_clocks->figures, found_.reference)) {
        found_.reference = count.full_clocks;
      }
      if (count.one_clock && faster(count.one_clock->figures, best_)) best_ = count.one_clock;
    }
  }

  void take(const Planned& planned) {
    if (!planned.plan) return;
    const int gpus = planned.plan->layout.parallel.gpus();
    GpuCount& count = *std::ranges::find(found_.counts, gpus, &GpuCount::gpus);
    if (faster(planned.plan->figures, count.planned)) count.planned = planned.plan;
    if (faster(planned.plan->figures, best_)) best_ = planned.plan;
  }

  void find_full_clocks(const CostSources& sources) {
    if (!best_) {
      throw InputError(fmt::format("no plan of {} stays within {:.6g} W; give more power, or a higher --top",
                                   request_.job.model.name, facility_.limit_w));
    }
    found_.best = *best_;
    TrainingJob job = request_.job;
    apply(found_.best.layout, job);
    const int max_mhz = job.gpu.clocks.max_mhz;
    const IterationEstimate estimate = estimate_iteration(job, sources);
    found_.best_at_full_clocks =
        powered(found_.best.layout, estimate, CappedLayout(job, estimate).full_clocks(), {max_mhz, max_mhz, max_mhz});
  }

  const SearchRequest& request_;
  const FacilityPower& facility_;
  const SearchTools& tools_;
  Progress& progress_;
  std::vector<std::unique_ptr<const JobCosts>> costs_;  ///< by thread
  PowerSearchData found_;
  std::vector<Candidate> candidates_;  ///< best bound first
  std::optional<PoweredLayout> best_;
  std::optional<JobFault> fault_;  ///< of the first invalid layout
  bool lacks_power_ = false;       ///< for some number of GPUs that layouts have
};

}  // namespace

double FacilityPower::overhead_w(const TrainingJob& job, int gpus) const {
  const int nodes = (gpus + job.cluster.gpus_per_node - 1) / job.cluster.gpus_per_node;
  return gpu_overhead_w * gpus + node_overhead_w * nodes;
}

std::optional<TokenGain> PowerSearchData::gain() const {
  if (!reference) return std::nullopt;
  return TokenGain{.power = best.power_w / reference->power_w,
                   .layout = reference->energy_j() / best_at_full_clocks.energy_j(),
                   .clocks = best_at_full_clocks.energy_j() / best.energy_j()};
}

PowerSearchData run_power_search(const SearchRequest& request, const FacilityPower& facility, const SearchTools& tools,
                                 Progress& progress) {
  return PowerSearch(request, facility, tools, progress).run();
}

}  // namespace lowgear::estimator
