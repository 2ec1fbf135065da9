#include "estimating/estimator/search/search_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "base/core/error_of.h"
#include "estimating/estimator/iteration/roofline_estimate.h"
#include "estimating/estimator/job/model_catalogue.h"

namespace lowgear::estimator {
namespace {

using ::testing::HasSubstr;

class NoProgress final : public Progress {
 public:
  void update(std::string_view, double) override {}
};

/// One task after the other, as if there were three threads.
void run_in_turn(std::size_t count, std::size_t threads, std::string_view, Progress& progress,
                 const std::function<void(const ParallelTask&)>& work) {
  for (std::size_t i = 0; i < count; ++i) work({i, i % threads, progress});
}

SearchRequest small_request() {
  SearchRequest request;
  request.job.model = named_model("llama-2-7b");
  request.job.gpu = named_gpu("a100");
  request.job.cluster = default_cluster(request.job.gpu);
  request.job.batch = {16, 1, 4096};
  request.limits.gpus = 8;
  request.limits.max_virtual_stages = 1;
  request.limits.max_micro_batch = 1;
  request.top = 2;
  request.threads = 3;
  return request;
}

SearchReportData search(const SearchRequest& request, const SearchTools& tools) {
  NoProgress progress;
  return run_search(request, tools, progress);
}

TEST(SearchRun, FindsTheSameOnAnyNumberOfThreads) {
  SearchRequest request = small_request();
  const SearchReportData three = search(request, {.run = run_in_turn, .now_s = {}, .available_bytes = {}});
  request.threads = 1;
  const SearchReportData one = search(request, {.run = run_in_turn, .now_s = {}, .available_bytes = {}});
  ASSERT_EQ(three.results.size(), one.results.size());
  for (std::size_t i = 0; i < one.results.size(); ++i) EXPECT_EQ(three.results[i].layout, one.results[i].layout);
  ASSERT_EQ(three.best.size(), 2U);
  EXPECT_EQ(three.best[0].result.layout, three.results[0].layout);
  EXPECT_LE(three.best[0].no_later.energy_j, three.best[0].full_clocks.energy_j);
  EXPECT_EQ(three.search_s, 0) << "it was given no clock";
}

/// The energies of the plans without slowdown of all layouts that fit, least first.
std::vector<double> all_planned_j(const SearchRequest& request, const SearchReportData& found) {
  std::vector<double> energies_j;
  for (const SearchResult& result : found.results) {
    TrainingJob job = request.job;
    apply(result.layout, job);
    PlannedJob planner(job, estimate(job));
    energies_j.push_back(planner.plan_in_time().energy_j);
  }
  std::ranges::sort(energies_j);
  return energies_j;
}

TEST(SearchRun, RanksByPlansWhereTheQuickEstimateErrs) {
  SearchRequest request = small_request();
  request.job.model = named_model("llama-3-8b");
  request.job.gpu = named_gpu("h100-sxm");
  request.job.cluster = default_cluster(request.job.gpu);
  request.job.batch = {64, 1, 8192};
  request.limits.gpus = 16;
  request.limits.max_virtual_stages = 8;
  request.limits.fixed.tp = 1;
  request.limits.fixed.pp = 4;
  request.limits.fixed.cp = 1;
  request.limits.fixed.recompute = Recompute::none;
  request.limits.fixed.zero = 1;
  request.objective = SearchObjective::energy;
  bool some_open = false;
  for (const int top : {1, 2}) {
    request.top = top;
    const SearchReportData found = search(request, {.run = run_in_turn, .now_s = {}, .available_bytes = {}});
    const std::vector<double> planned_j = all_planned_j(request, found);
    ASSERT_EQ(found.best.size(), static_cast<std::size_t>(top));
    for (std::size_t i = 0; i < found.best.size(); ++i) {
      EXPECT_DOUBLE_EQ(found.best[i].no_later.energy_j, planned_j[i]) << "number " << i + 1 << " of " << top;
      EXPECT_EQ(found.best[i].result.layout, found.results[i].layout);
    }
    const SearchResult& leanest = *std::ranges::min_element(found.results, {}, &SearchResult::planned_energy_j);
    EXPECT_NE(leanest.layout, found.best.front().result.layout) << "else the quick estimate would suffice";
    EXPECT_LE(found.planned, 3U * static_cast<std::size_t>(top));
    const double to_beat_j = found.best.back().no_later.energy_j * (1 + kQuickPlanError);
    const auto rivals =
        std::ranges::count_if(std::span(found.results).subspan(found.planned),
                              [&](const SearchResult& other) { return other.planned_energy_j < to_beat_j; });
    EXPECT_EQ(found.open_rivals, static_cast<std::size_t>(rivals)) << "top " << top;
    some_open = some_open || rivals > 0;
  }
  EXPECT_TRUE(some_open) << "the first alone has more rivals than are planned for it";
}

TEST(SearchRun, PlansNoMoreThanAskedForWhereTheObjectiveIsExact) {
  const SearchReportData found = search(small_request(), {.run = run_in_turn, .now_s = {}, .available_bytes = {}});
  EXPECT_EQ(found.planned, 2U);
  EXPECT_EQ(found.open_rivals, 0U);
}

TEST(SearchRun, RefusesPlansThatMemoryDoesNotHold) {
  const auto little = [] { return std::optional<std::uint64_t>(1024); };
  EXPECT_THAT(
      error_of([&] { (void)search(small_request(), {.run = run_in_turn, .now_s = {}, .available_bytes = little}); }),
      HasSubstr("plan fewer stages or microbatches"));
}

TEST(SearchRun, SaysWhenNothingFits) {
  SearchRequest request = small_request();
  request.limits.gpus = 1;
  EXPECT_THAT(error_of([&] { (void)search(request, {.run = run_in_turn, .now_s = {}, .available_bytes = {}}); }),
              HasSubstr("use more GPUs"));
}

}  // namespace
}  // namespace lowgear::estimator
