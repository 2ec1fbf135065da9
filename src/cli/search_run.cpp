#include "cli/search_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "cli/cost_sources.h"
#include "cli/memory.h"
#include "cli/stopwatch.h"
#include "core/error.h"

namespace lowgear {
namespace {

/// Layouts that a thread takes at a time.
constexpr std::size_t kSliceLayouts = 64;
constexpr std::chrono::milliseconds kProgressPeriod{50};

/// Threads that take slices of the layouts until none is left, somebody failed, or they are stopped.
class SliceThreads {
 public:
  SliceThreads(const SearchRequest& request, std::span<const SearchLayout> layouts)
      : request_(request), layouts_(layouts) {
    for (int i = 0; i < request.threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  /// Waits for all. Throws what a thread threw.
  SearchOutcome finish(Progress& progress) {
    while (running_ > 0) {
      const auto done = std::min(next_.load(), layouts_.size());
      progress.update("estimating layouts", static_cast<double>(done) / static_cast<double>(layouts_.size()));
      std::this_thread::sleep_for(kProgressPeriod);
    }
    threads_.clear();
    if (failure_) std::rethrow_exception(failure_);
    return std::move(outcome_);
  }

 private:
  void work(const std::stop_token& stop) {
    SearchOutcome mine;
    try {
      const JobCosts costs(request_.job, request_.samples);  // not shared: samples are fitted when first asked for
      for (std::size_t begin = next_.fetch_add(kSliceLayouts); begin < layouts_.size() && !stop.stop_requested();
           begin = next_.fetch_add(kSliceLayouts)) {
        const auto slice = layouts_.subspan(begin, std::min(kSliceLayouts, layouts_.size() - begin));
        mine.append(evaluate(request_.job, slice, costs.sources()));
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      failure_ = std::current_exception();
      next_ = layouts_.size();
    }
    const std::scoped_lock lock(mutex_);
    outcome_.append(std::move(mine));
    --running_;
  }

  const SearchRequest& request_;
  std::span<const SearchLayout> layouts_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<int> running_ = request_.threads;
  std::mutex mutex_;
  SearchOutcome outcome_;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  ///< last: they use the rest
};

PlannedLayout planned(const SearchRequest& request, const SearchResult& result, const CostSources& sources,
                      Progress& progress) {
  TrainingJob job = request.job;
  apply(result.layout, job);
  require_planning_memory(job.parallel.pp, static_cast<int>(job.microbatches()), job.parallel.virtual_stages,
                          available_memory_bytes());
  PlannedJob planner(job, estimate_iteration(job, sources), kEstimatePlannerOptions, &progress);
  return {result, planner.full_clocks(), planner.plan_in_time(), planner.plan(planner.slowest_s())};
}

/// The next layouts often are the winner with one detail changed: what is told is how it beats another kind.
std::size_t rival_of_first(const std::vector<SearchResult>& results) {
  const ParallelLayout& winner = results.front().layout.parallel;
  const auto rival = std::ranges::find_if(results, [&winner](const SearchResult& result) {
    return result.layout.parallel.tp != winner.tp || result.layout.parallel.pp != winner.pp;
  });
  return rival == results.end() ? 0 : static_cast<std::size_t>(rival - results.begin());
}

[[noreturn]] void throw_no_layout(const SearchRequest& request, const SearchSpace& space) {
  std::string what = fmt::format("there is no way to divide {} among {} GPUs with a global batch of {}",
                                 request.job.model.name, request.limits.gpus, request.job.batch.global);
  if (space.fault) what += fmt::format(": {}: {}", space.fault->member, space.fault->what);
  throw InputError(what);
}

[[noreturn]] void throw_nothing_fits(const SearchRequest& request, const SearchReportData& found) {
  throw InputError(fmt::format("{} does not fit {} {}: all {} layouts need more memory than there is; take more GPUs",
                               request.job.model.name, request.limits.gpus, request.job.gpu.name, found.too_large));
}

}  // namespace

SearchReportData run_search(const SearchRequest& request, Progress& progress) {
  const JobCosts costs(request.job, request.samples);
  const CostSources sources = costs.sources();
  const SearchSpace space = enumerate_layouts(request.job, request.limits);
  if (space.layouts.empty()) throw_no_layout(request, space);
  SearchReportData found;
  found.layouts = static_cast<std::int64_t>(space.layouts.size());
  found.invalid = space.invalid;
  const Stopwatch stopwatch;
  SearchOutcome outcome = SliceThreads(request, space.layouts).finish(progress);
  found.evaluate_s = stopwatch.elapsed_s();
  found.results = std::move(outcome.results);
  found.too_large = outcome.too_large;
  if (found.results.empty()) throw_nothing_fits(request, found);
  rank(found.results, request.objective, request.prices);
  found.pareto = pareto_front(found.results);
  const auto best = std::min(found.results.size(), static_cast<std::size_t>(request.top));
  for (std::size_t i = 0; i < best; ++i) {
    progress.update("planning the best", static_cast<double>(i) / static_cast<double>(best));
    found.best.push_back(planned(request, found.results[i], sources, progress));
  }
  found.rival = rival_of_first(found.results);
  if (found.rival > 0) {
    found.why = compare_times(request.job, found.results[0].layout, found.results[found.rival].layout, sources);
  }
  return found;
}

}  // namespace lowgear
