#include "estimating/estimator/search/search_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/core/error_of.h"
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
  EXPECT_EQ(three.evaluate_s, 0) << "it was given no clock";
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
