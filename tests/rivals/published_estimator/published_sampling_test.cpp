#include "rivals/published_estimator/published_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "estimating/sampling/sampling_options.h"

namespace lowgear::published_estimator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Of the form of the published files: JSON with comments, single quotes and trailing commas.
std::string published(const std::string& kernel, const std::string& columns, const std::string& grid,
                      const std::string& run) {
  return "{\n  \"module_name\": \"target_functions\",\n  \"kernel_name\": \"" + kernel + "\",\n  \"columns_name\": [" +
         columns + ", 'F_dur(us)', 'B_dur(us)'],\n  # sizes\n  " + grid + ",\n  \"wait\": 4, \"run\": \"" + run +
         "\",\n}";
}

const std::string kLinear =
    "\"starts\":[1, 2, 1024, 2048], \"steps\":[2, 2, 512, 512], \"ends\":[16, 8, 2048, 3072], "
    "\"operators\":['mul', 'mul', 'add', 'add'], \"shapes\":[1, 16, 2048, 1024]";

sampling::SamplingOptions options_written(const std::string& yaml) {
  PublishedSampling read = parse_published_sampling(yaml, "linear1.yml");
  read.words.insert(read.words.begin(), read.subject);
  read.words.insert(read.words.end(), {"--out", "samples"});
  return sampling::parse_sampling_options(read.words);
}

TEST(PublishedSampling, TakesTheGridOfCollect) {
  const auto options = options_written(published("linear1", "'mp', 'b', 'l', 'dim'", kLinear, "get_all"));
  EXPECT_THAT(options.operators, ElementsAre(sampling::SampledOperator::linear_qkv));
  EXPECT_THAT(options.grid.tp, ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(options.grid.microbatch, ElementsAre(2, 4, 8));
  EXPECT_THAT(options.grid.sequence, ElementsAre(1024, 1536, 2048));
  EXPECT_THAT(options.grid.hidden, ElementsAre(2048, 2560, 3072));
}

TEST(PublishedSampling, TakesTheOneShapeOfTestAndProfilers) {
  for (const char* const run : {"get_one", "get_profiler"}) {
    const auto options = options_written(published("linear1", "'mp', 'b', 'l', 'dim'", kLinear, run));
    EXPECT_THAT(options.grid.microbatch, ElementsAre(16)) << run;
    EXPECT_THAT(options.grid.hidden, ElementsAre(1024)) << run;
  }
}

TEST(PublishedSampling, KeepsTheHeads) {
  const std::string columns = "'mp', 'b', 'h', 'l', 'dim'";
  const auto one = options_written(published("flash_atten", columns, "\"shapes\":[1, 4, 20, 1024, 2560]", "get_one"));
  EXPECT_THAT(one.grid.heads, ElementsAre(20));
  EXPECT_THAT(one.grid.hidden, ElementsAre(2560));
  const auto all = options_written(published("flash_atten", columns,
                                             "\"starts\":[1, 2, 16, 1024, 2048], \"steps\":[2, 2, 8, 512, 512], "
                                             "\"ends\":[2, 4, 40, 1024, 3072], "
                                             "\"operators\":['mul', 'mul', 'add', 'add', 'add']",
                                             "get_all"));
  EXPECT_THAT(all.grid.heads, ElementsAre(16, 24, 32, 40));
  EXPECT_THAT(all.grid.hidden, ElementsAre(2048, 2560, 3072));
}

TEST(PublishedSampling, ReadsTheOptimizersOfStages) {
  const auto options = options_written(
      "{'kernel_name': 'middleStage_optimizer', 'columns_name': ['mp', 'dim', 'encoders', 'dur(us)'], 'starts': [1, "
      "2048, "
      "4], 'steps': [2, 512, 4], 'ends': [4, 2560, 12], 'operators': ['mul', 'add', 'add'], 'run': 'get_all',}");
  EXPECT_THAT(options.operators, ElementsAre(sampling::SampledOperator::middle_stage_optimizer));
  EXPECT_THAT(options.grid.tp, ElementsAre(1, 2, 4));
  EXPECT_THAT(options.grid.hidden, ElementsAre(2048, 2560));
  EXPECT_THAT(options.grid.layers, ElementsAre(4, 8, 12));
}

TEST(PublishedSampling, ReadsTheMaskedSoftmax) {
  const auto options = options_written(
      published("ScaledUpperTriangMaskedSoftmax", "'mp', 'b', 'h', 'l'", "\"shapes\":[1, 4, 16, 1024]", "get_one"));
  EXPECT_THAT(options.operators, ElementsAre(sampling::SampledOperator::masked_softmax));
  EXPECT_THAT(options.grid.heads, ElementsAre(16));
}

/// As collect/moe.yml and test/moe.yml have them: seven sizes, of which five have an operator and a shape.
const std::string kExpertColumns = "'mp', 'b', 'l', 'dim', 'moe_num_experts', 'intermediate_size', 'top_k'";
const std::string kExperts =
    "\"starts\":[1, 4, 1024, 2048, 2, 2, 1], \"steps\":[2, 2, 512, 512, 2, 2, 2], "
    "\"ends\":[128, 8, 5120, 8192, 160, 2, 16], \"operators\":['mul', 'mul', 'add', 'add', 'add'], "
    "\"shapes\":[2, 16, 16, 2048, 1024]";

TEST(PublishedSampling, ReadsExpertsWhoseLastSizesLackAnOperator) {
  const auto options = options_written(published("moe", kExpertColumns, kExperts, "get_all"));
  EXPECT_THAT(options.operators, ElementsAre(sampling::SampledOperator::experts));
  EXPECT_THAT(options.grid.tp, ElementsAre(1, 2, 4, 8, 16, 32, 64, 128));
  EXPECT_EQ(options.grid.experts.size(), 80U);
  EXPECT_EQ(options.grid.experts.back(), 160);
  EXPECT_THAT(options.grid.expert_width, ElementsAre(2));
  EXPECT_THAT(options.grid.experts_per_token, ElementsAre(1, 2, 4, 8, 16));
  // Counted apart: 192010 that the function of that tool runs, without those beyond the bounds of every grid.
  EXPECT_EQ(plan_samples(options.operators.front(), options.type, options.grid, 0).size(), 185971U);
}

TEST(PublishedSampling, AddsWhereMultiplyingMissesTheEnd) {
  const auto options = options_written(published("linear1", "'mp', 'b', 'l', 'dim'",
                                                 "\"starts\":[1, 2, 512, 1000], \"steps\":[2, 2, 512, 500], "
                                                 "\"ends\":[2, 4, 512, 2000], \"operators\":['mul', 'mul', 'add']",
                                                 "get_all"));
  EXPECT_THAT(options.grid.hidden, ElementsAre(1000, 1500, 2000));
}

TEST(PublishedSampling, SaysWhichSizesAShapeLacks) {
  const std::string file = published("moe", kExpertColumns, kExperts, "get_one");
  EXPECT_THAT(error_of([&] { (void)parse_published_sampling(file, "f.yml"); }),
              HasSubstr("shapes: has 5 sizes and none for intermediate_size, top_k"));
  const auto options =
      options_written(published("moe", kExpertColumns, "\"shapes\":[4, 4, 1024, 1024, 16, 2048, 4]", "get_one"));
  EXPECT_THAT(options.grid.experts, ElementsAre(16));
  EXPECT_THAT(options.grid.expert_width, ElementsAre(2048));
  EXPECT_THAT(options.grid.experts_per_token, ElementsAre(4));
}

TEST(PublishedSampling, ReadsCollectives) {
  const auto options = options_written(
      "{'module_name': 'nccl_functions', 'kernel_name': 'allgather_large', 'starts': [134217728], 'steps': [600000], "
      "'ends': [1200000000], 'operators': ['add'],}");
  EXPECT_THAT(options.collectives, ElementsAre(sampling::SampledCollective::all_gather));
  EXPECT_EQ(options.sizes.smallest, 268435456);
  EXPECT_EQ(options.sizes.largest, 2400000000);
}

TEST(PublishedSampling, RefusesWhatIsNotSampledAndBadGrids) {
  const auto error = [](const std::string& yaml) {
    return error_of([&] { (void)parse_published_sampling(yaml, "f.yml"); });
  };
  EXPECT_THAT(error(published("conv", "'mp'", kLinear, "get_all")), HasSubstr("does not have \"conv\""));
  EXPECT_THAT(error(published("linear1", "'mp', 'l', 'b', 'dim'", kLinear, "get_all")), HasSubstr("expected b"));
  EXPECT_THAT(error("{}"), HasSubstr("kernel_name"));
  const std::string endless = "\"starts\":[1], \"steps\":[1], \"ends\":[1000000], \"operators\":['add']";
  EXPECT_THAT(error(published("linear1", "'mp', 'b', 'l', 'dim'", endless, "get_all")),
              HasSubstr("more than 128 values"));
}

}  // namespace
}  // namespace lowgear::published_estimator
