#include "estimating/estimator/search/power_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/core/error_of.h"
#include "estimating/estimator/iteration/roofline_estimate.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/estimator/memory/memory_estimate.h"

namespace lowgear::estimator {
namespace {

using ::testing::HasSubstr;

/// One task after the other, as if there were as many threads.
void run_one_by_one(std::size_t count, std::size_t threads, std::string_view, Progress& progress,
                    const std::function<void(const ParallelTask&)>& work) {
  for (std::size_t i = 0; i < count; ++i) work({i, i % threads, progress});
}

/// Few layouts: pipelines of one kind of microbatch on nodes of two GPUs.
SearchRequest tiny_request() {
  SearchRequest request;
  request.job.model = named_model("gpt2-xl");
  request.job.gpu = named_gpu("a100");
  request.job.cluster = default_cluster(request.job.gpu);
  request.job.cluster.gpus_per_node = 2;
  request.job.batch = {12, 1, 1024};
  request.limits = {.gpus = kMaxJobGpus,
                    .fixed = {.dp = {},
                              .tp = {},
                              .pp = {},
                              .virtual_stages = {},
                              .ep = {},
                              .cp = 1,
                              .micro_batch = 1,
                              .recompute = Recompute::none,
                              .zero = 1},
                    .max_virtual_stages = 1};
  request.top = 100;
  request.threads = 2;
  return request;
}

PowerSearchData search(const SearchRequest& request, const FacilityPower& facility) {
  class : public Progress {
    void update(std::string_view, double) override {}
  } progress;
  return run_power_search(request, facility, {.run = run_one_by_one, .now_s = {}, .available_bytes = {}}, progress);
}

/// The fastest plan of a layout within a power of its GPUs, by bisection over deadlines: power falls with time.
double fastest_plan_s(const TrainingJob& job, double power_w) {
  PlannedJob planner(job, estimate(job));
  double above_s = planner.fastest_s();
  double within_s = planner.slowest_s();
  if (planner.plan(above_s).mean_power_w() <= power_w) return above_s;
  if (planner.plan(within_s).mean_power_w() > power_w) return std::numeric_limits<double>::infinity();
  for (int i = 0; i < 10; ++i) {
    const double middle_s = (above_s + within_s) / 2;
    (planner.plan(middle_s).mean_power_w() > power_w ? above_s : within_s) = middle_s;
  }
  return planner.plan(within_s).time_s;
}

/// The least time of all layouts and numbers of GPUs: all are planned, with no bound to choose among them.
double best_of_all_s(const SearchRequest& request, const FacilityPower& facility, int least, int most) {
  double best_s = std::numeric_limits<double>::infinity();
  for (int gpus = least; gpus <= most; ++gpus) {
    SearchLimits limits = request.limits;
    limits.gpus = gpus;
    const double overhead_w = facility.gpu_overhead_w * gpus + facility.node_overhead_w * ((gpus + 1) / 2);
    for (const SearchLayout& layout : enumerate_layouts(request.job, limits).layouts) {
      TrainingJob job = request.job;
      apply(layout, job);
      if (!estimate_memory(job).within_capacity()) continue;
      best_s = std::min(best_s, fastest_plan_s(job, facility.limit_w - overhead_w));
    }
  }
  return best_s;
}

void expect_within_power(const PowerSearchData& found, const FacilityPower& facility) {
  for (const GpuCount& count : found.counts) {
    for (const auto& layout : {count.full_clocks, count.one_clock, count.planned}) {
      if (!layout) continue;
      EXPECT_EQ(layout->layout.parallel.gpus(), count.gpus);
      EXPECT_LE(layout->power_w, facility.limit_w * (1 + 1e-12));
      EXPECT_GE(layout->figures.time_s, *count.least_time_s * (1 - 1e-9)) << "its bound";
      EXPECT_LE(layout->clocks.lowest_mhz, layout->clocks.median_mhz);
      EXPECT_LE(layout->clocks.median_mhz, layout->clocks.highest_mhz);
    }
  }
  EXPECT_LE(found.best.power_w, facility.limit_w * (1 + 1e-12));
  EXPECT_GE(found.gap(), 0);
}

TEST(PowerSearch, FindsTheBestOfAllPlans) {
  const SearchRequest request = tiny_request();
  for (const FacilityPower& facility : {FacilityPower{4000, 150, 50}, FacilityPower{2500, 0, 0}}) {
    const PowerSearchData found = search(request, facility);
    expect_within_power(found, facility);
    EXPECT_LE(found.gap(), 0.03);
    const double best_s = best_of_all_s(request, facility, found.least_gpus, found.most_gpus);
    EXPECT_LE(found.least_time_s, best_s * (1 + 1e-9)) << "the bound";
    EXPECT_LE(found.best.figures.time_s, best_s * 1.01);
    ASSERT_TRUE(found.reference.has_value());
    EXPECT_LE(found.best.figures.time_s, found.reference->figures.time_s);
    EXPECT_NEAR(found.gain()->total(), found.reference->figures.time_s / found.best.figures.time_s, 1e-12);
  }
}

TEST(PowerSearch, FindsTheSameOnAnyNumberOfThreads) {
  SearchRequest request = tiny_request();
  request.top = 5;
  const PowerSearchData two = search(request, {4000, 150, 0});
  request.threads = 1;
  const PowerSearchData one = search(request, {4000, 150, 0});
  EXPECT_EQ(two.best.layout, one.best.layout);
  EXPECT_EQ(two.best.figures.time_s, one.best.figures.time_s);
  EXPECT_EQ(two.least_time_s, one.least_time_s);
  EXPECT_EQ(two.planned, one.planned);
  ASSERT_EQ(two.counts.size(), one.counts.size());
}

TEST(PowerSearch, RunsAtFullClocksWhereThePowerSufficesForAllGpus) {
  SearchRequest request = tiny_request();
  request.limits.gpus = 8;
  const PowerSearchData found = search(request, {1e5, 200, 0});
  EXPECT_EQ(found.most_gpus, 8);
  EXPECT_EQ(found.counts.back().gpus, 8);
  ASSERT_TRUE(found.reference.has_value());
  EXPECT_NEAR(found.best.figures.time_s, found.reference->figures.time_s, 1e-6 * found.best.figures.time_s);
  EXPECT_LT(found.gap(), 1e-6);
}

TEST(PowerSearch, MorePowerMakesNoFewerTokens) {
  SearchRequest request = tiny_request();
  request.job.batch.global = 2;
  double before_s = std::numeric_limits<double>::infinity();
  for (const double limit_w : {2e3, 4e3, 8e3, 2e4, 4e4, 1e5, 1e6}) {
    const double time_s = search(request, {limit_w, 150, 0}).best.figures.time_s;
    EXPECT_LE(time_s, before_s * 1.01) << limit_w;
    before_s = time_s;
  }
}

TEST(PowerSearch, FindsTheOnlyNodeThatTheOverheadLeaves) {
  const PowerSearchData found = search(tiny_request(), {4500, 0, 2500});
  EXPECT_EQ(found.best.layout.parallel.gpus(), 2);
  EXPECT_THAT(error_of([] { (void)search(tiny_request(), {2600, 0, 2500}); }), HasSubstr("give more power"));
}

TEST(PowerSearch, SaysWhatDoesNotSuffice) {
  SearchRequest request = tiny_request();
  EXPECT_THAT(error_of([&] { (void)search(request, {280, 200, 0}); }), HasSubstr("283.64 W while it waits"));
  EXPECT_THAT(error_of([&] { (void)search(request, {280, 0, 200}); }), HasSubstr("overhead included"));
  EXPECT_THAT(error_of([&] { (void)search(request, {85, 0, 0}); }), HasSubstr("stays within 85 W"));
  request.limits.fixed.tp = 7;
  EXPECT_THAT(error_of([&] { (void)search(request, {2500, 0, 0}); }), HasSubstr("none divides the job evenly"));
  request = tiny_request();
  request.job.model = named_model("gpt3-175b");
  EXPECT_THAT(error_of([&] { (void)search(request, {2500, 0, 0}); }), HasSubstr("need more memory than a GPU has"));
}

}  // namespace
}  // namespace lowgear::estimator
