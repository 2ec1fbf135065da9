#include "estimating/estimator/search/search_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "estimating/estimator/gpu/gpu_model.h"
#include "planning/api/profile_fitting.h"

namespace lowgear::estimator {
namespace {

/// Layouts that a thread takes at a time.
constexpr std::size_t kSliceLayouts = 64;
/// Layouts that are planned at most, in multiples of those asked for.
constexpr std::size_t kMostPlanned = 3;
/// Layouts planned before their rivals are counted again: the same on any number of threads.
constexpr std::size_t kRivalsTogether = 4;

SearchOutcome evaluate_all(const SearchRequest& request, const SearchTools& tools,
                           std::span<const SearchLayout> layouts, Progress& progress) {
  const auto threads = static_cast<std::size_t>(request.threads);
  std::vector<std::unique_ptr<const JobCosts>> costs(threads);  // not shared: samples are fitted when first asked for
  std::vector<SearchOutcome> outcomes(threads);
  tools.run((layouts.size() + kSliceLayouts - 1) / kSliceLayouts, threads, "estimating layouts", progress,
            [&](const ParallelTask& task) {
              std::unique_ptr<const JobCosts>& mine = costs[task.thread];
              if (!mine) mine = std::make_unique<const JobCosts>(request.job, request.samples);
              const std::size_t begin = task.index * kSliceLayouts;
              const auto slice = layouts.subspan(begin, std::min(kSliceLayouts, layouts.size() - begin));
              outcomes[task.thread].append(evaluate(request.job, slice, mine->sources()));
            });
  SearchOutcome all;
  for (SearchOutcome& outcome : outcomes) all.append(std::move(outcome));
  return all;
}

std::vector<PlannedLayout> plan_all(const SearchRequest& request, const SearchTools& tools,
                                    std::span<const SearchResult> results, const CostSources& sources,
                                    Progress& progress) {
  std::vector<TrainingJob> jobs(results.size(), request.job);
  std::vector<IterationEstimate> estimates;
  std::vector<SearchLayout> layouts;
  for (std::size_t i = 0; i < results.size(); ++i) {
    layouts.push_back(results[i].layout);
    apply(layouts[i], jobs[i]);
    estimates.push_back(estimate_iteration(jobs[i], sources));
  }
  std::vector<PlannedLayout> planned(results.size());
  tools.run(
      results.size(), planning_threads(request, tools, layouts), "planning the best", progress,
      [&](const ParallelTask& task) {
        const std::size_t i = task.index;
        PlannedJob planner(jobs[i], estimates[i], kEstimatePlannerOptions, &task.progress);
        planned[i] = {results[i], planner.full_clocks(), planner.plan_in_time(), planner.plan(planner.slowest_s())};
      });
  return planned;
}

/// The result with its planner's figures.
SearchResult planned_result(const SearchRequest& request, const PlannedLayout& layout) {
  SearchResult result = layout.result;
  result.planned_energy_j = layout.no_later.energy_j;
  if (request.objective == SearchObjective::cost) result.time_s = layout.no_later.time_s;
  return result;
}

/// Sorts layouts by their plans, best first.
void rank_plans(const SearchRequest& request, std::vector<PlannedLayout>& planned) {
  std::vector<SearchResult> order;
  for (const PlannedLayout& layout : planned) order.push_back(planned_result(request, layout));
  rank(order, request.objective, request.prices);
  const auto layout_of_plan = [](const PlannedLayout& layout) { return layout.result.layout; };
  std::vector<PlannedLayout> ranked;
  for (const SearchResult& result : order) {
    ranked.push_back(*std::ranges::find(planned, result.layout, layout_of_plan));
  }
  planned = std::move(ranked);
}

/// The number of the next results, ranked by quick estimates, whose plans may beat this one.
std::size_t count_rivals(const SearchRequest& request, std::span<const SearchResult> next, const PlannedLayout& last) {
  const double to_beat = value_of(planned_result(request, last), request.objective, request.prices);
  const auto may_beat = [&](SearchResult result) {
    result.planned_energy_j /= 1 + kQuickPlanError;
    return value_of(result, request.objective, request.prices) < to_beat;
  };
  return static_cast<std::size_t>(std::ranges::find_if_not(next, may_beat) - next.begin());
}

/// Plans the first results and their rivals, and puts those planned in the order of their plans.
void plan_best(const SearchRequest& request, const SearchTools& tools, const CostSources& sources,
               SearchReportData& found, Progress& progress) {
  const std::span<const SearchResult> results = found.results;
  const auto top = std::min(results.size(), static_cast<std::size_t>(request.top));
  const std::size_t most = std::min(results.size(), kMostPlanned * top);
  std::vector<PlannedLayout> planned;
  for (std::size_t count = top; count > 0;) {
    const auto next = results.subspan(planned.size(), count);
    std::ranges::move(plan_all(request, tools, next, sources, progress), std::back_inserter(planned));
    rank_plans(request, planned);
    found.open_rivals = count_rivals(request, results.subspan(planned.size()), planned[top - 1]);
    count = std::min({found.open_rivals, most - planned.size(), kRivalsTogether});
  }
  found.planned = planned.size();
  std::ranges::transform(planned, found.results.begin(), &PlannedLayout::result);
  planned.resize(top);
  found.best = std::move(planned);
}

/// The next layouts often are the winner with one detail changed: what is reported is how it beats another kind.
std::size_t rival_of_first(const std::vector<SearchResult>& results) {
  const ParallelLayout& winner = results.front().layout.parallel;
  const auto rival = std::ranges::find_if(results, [&winner](const SearchResult& result) {
    return result.layout.parallel.tp != winner.tp || result.layout.parallel.pp != winner.pp;
  });
  return rival == results.end() ? 0 : static_cast<std::size_t>(rival - results.begin());
}

/// `pp 3 and tp 2`: what layouts must have; empty: anything.
std::string fixed_settings_text(const FixedLayout& fixed) {
  const auto counts =
      std::to_array<std::pair<std::string_view, std::optional<int>>>({{"tp", fixed.tp},
                                                                      {"pp", fixed.pp},
                                                                      {"dp", fixed.dp},
                                                                      {"cp", fixed.cp},
                                                                      {"ep", fixed.ep},
                                                                      {"virtual stages", fixed.virtual_stages},
                                                                      {"microbatch", fixed.micro_batch}});
  std::vector<std::string> texts;
  for (const auto& [name, count] : counts) {
    if (count) texts.push_back(fmt::format("{} {}", name, *count));
  }
  return fmt::format("{}", fmt::join(texts, " and "));
}

[[noreturn]] void throw_no_layout(const SearchRequest& request, const SearchSpace& space) {
  std::string what = fmt::format("there is no way to divide {} among {} GPUs with a global batch of {}",
                                 request.job.model.name, request.limits.gpus, request.job.batch.global);
  if (space.fault) {
    what += fmt::format(": {}: {}", space.fault->member, space.fault->what);
    throw InputError(space.fault->fix.empty() ? what : fmt::format("{}; {}", what, space.fault->fix));
  }
  const std::string fixed = fixed_settings_text(request.limits.fixed);
  throw InputError(fmt::format("{}; {}give another number of GPUs or another global batch", what,
                               fixed.empty() ? "" : fmt::format("leave {} open, or ", fixed)));
}

[[noreturn]] void throw_nothing_fits(const SearchRequest& request, const SearchReportData& found) {
  throw InputError(fmt::format("{} does not fit {} {}: all {} layouts need more memory than a GPU has; use more GPUs",
                               request.job.model.name, request.limits.gpus, describe(request.job.gpu),
                               found.too_large));
}

}  // namespace

std::size_t planning_threads(const SearchRequest& request, const SearchTools& tools,
                             std::span<const SearchLayout> layouts) {
  const std::optional<std::uint64_t> available = tools.available_bytes ? tools.available_bytes() : std::nullopt;
  double most = 0;
  TrainingJob job = request.job;
  for (const SearchLayout& layout : layouts) {
    apply(layout, job);
    const auto microbatches = static_cast<int>(job.microbatches());
    api::require_planning_memory(job.parallel.pp, microbatches, job.parallel.virtual_stages, available);
    most = std::max(most, api::planning_memory_bytes(job.parallel.pp, microbatches, job.parallel.virtual_stages));
  }
  const auto threads = static_cast<double>(request.threads);
  return static_cast<std::size_t>(available ? std::clamp(static_cast<double>(*available) / most, 1.0, threads)
                                            : threads);
}

SearchReportData run_search(const SearchRequest& request, const SearchTools& tools, Progress& progress) {
  const JobCosts costs(request.job, request.samples);
  const CostSources sources = costs.sources();
  const SearchSpace space = enumerate_layouts(request.job, request.limits);
  if (space.layouts.empty()) throw_no_layout(request, space);
  SearchReportData found;
  found.layouts = static_cast<std::int64_t>(space.layouts.size());
  found.invalid = space.invalid;
  const double begin_s = tools.now_s ? tools.now_s() : 0;
  SearchOutcome outcome = evaluate_all(request, tools, space.layouts, progress);
  found.results = std::move(outcome.results);
  found.too_large = outcome.too_large;
  if (found.results.empty()) throw_nothing_fits(request, found);
  rank(found.results, request.objective, request.prices);
  plan_best(request, tools, sources, found, progress);
  found.pareto = pareto_front(found.results);
  found.rival = rival_of_first(found.results);
  if (found.rival > 0) {
    found.why = compare_times(request.job, found.results[0].layout, found.results[found.rival].layout, sources);
  }
  if (tools.now_s) found.search_s = tools.now_s() - begin_s;
  return found;
}

}  // namespace lowgear::estimator
