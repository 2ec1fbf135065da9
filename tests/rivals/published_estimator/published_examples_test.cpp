#include "rivals/published_estimator/published_examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "rivals/published_estimator/published_formula.h"
#include "rivals/published_estimator/sampled_job.h"

namespace lowgear::published_estimator {
namespace {

using ::testing::HasSubstr;

SampledJob published_job(std::string_view name) {
  return parse_sampled_job(example_job(published_example(name)), std::string(name));
}

double time_s(const SampledJob& job) {
  return published_estimate(job, packaged_times(job.operator_data_folder).value()).time_s;
}

// What the tool itself printed for its examples, with the versions of its libraries in docs/coming-from.md.
TEST(PublishedExamples, AreWithinOneAndAHalfPerCentOfTheToolsOwnResults) {
  EXPECT_NEAR(time_s(published_job("llemma-7b-perlmutter")) / 9.5088100905, 1, 0.015);
  EXPECT_NEAR(time_s(published_job("llemma-7b-vista")) / 4.7599400279, 1, 0.015);
}

// The number in its README, which other versions of its libraries printed.
TEST(PublishedExamples, AreWithinOneAndAHalfPerCentOfTheReadme) {
  EXPECT_NEAR(time_s(published_job("llemma_7b_4_2_2_P")) / 9.480819171239894, 1, 0.015);
}

TEST(PublishedExamples, FollowTheJobWhenItIsChanged) {
  SampledJob job = published_job("llemma-7b-perlmutter");
  const double unchanged_s = time_s(job);
  job.micro_batch *= 2;
  EXPECT_GT(time_s(job), 1.8 * unchanged_s);
  EXPECT_LT(time_s(job), 2.0 * unchanged_s);
  job.microbatches *= 2;  // 11 slots of the pipeline become 19
  EXPECT_NEAR(time_s(job) / unchanged_s, 1.95 * 19.0 / 11, 0.1);
}

TEST(PublishedExamples, RefuseWhatTheFitsDoNotReach) {
  SampledJob job = published_job("llemma-7b-perlmutter");
  job.sequence_length = 32768;
  EXPECT_THAT(error_of([&] { (void)time_s(job); }), HasSubstr("packaged:perlmutter: the size of allreduce is 8 times"));
  job = published_job("llemma-7b-vista");
  job.gpus_per_node = 4;
  EXPECT_THAT(error_of([&] { (void)time_s(job); }),
              HasSubstr("packaged:vista has no fit of allreduce among 1 x 2 GPUs; give a folder of sampling files"));
}

TEST(PublishedExamples, AreFoundByBothNames) {
  for (const PublishedExample& example : published_examples()) {
    EXPECT_EQ(published_example(example.name).summary, published_example(example.published_name).summary);
  }
  EXPECT_THAT(error_of([] { (void)published_example("llama"); }), HasSubstr("there are llemma-7b-perlmutter"));
}

TEST(PackagedTimes, AreNothingForAFolderAndRefusedWhereUnknown) {
  EXPECT_FALSE(packaged_times("./regressors/Perlmutter/operator"));
  EXPECT_THAT(error_of([] { (void)packaged_times("packaged:frontier"); }), HasSubstr("packaged:perlmutter"));
}

TEST(FittedTimes, ScaleByTheirExponents) {
  const FittedTimes times(
      "function,pass,nodes,GPUsPerNode,at,time(us),mp,b,h,l,dim,at_exponent\n"
      "linear1,fwd,0,0,0,100,-1,1,0,1,2,0\nallreduce,dur,1,2,1000,50,0,0,0,0,0,1\n",
      "fits.csv");
  estimator::SampledShape shape = FittedTimes::kReference;
  const estimator::SampledFunction& linear = *estimator::find_sampled_function("linear1");
  EXPECT_NEAR(times.operator_s(linear, shape, estimator::Pass::forward), 100e-6, 1e-12);
  shape.hidden *= 2;
  shape.ranks *= 2;
  EXPECT_NEAR(times.operator_s(linear, shape, estimator::Pass::forward), 200e-6, 1e-12);
  EXPECT_NEAR(times.collective_s("allreduce", 4000, 1, 2), 200e-6, 1e-12);
  EXPECT_THAT(error_of([&] { (void)times.operator_s(linear, shape, estimator::Pass::backward); }),
              HasSubstr("no fit of linear1"));
  EXPECT_THAT(error_of([&] { (void)times.collective_s("allreduce", 5000, 1, 2); }), HasSubstr("a factor of 4"));
}

}  // namespace
}  // namespace lowgear::published_estimator
