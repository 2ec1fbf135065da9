#include "estimating/estimator/job/training_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/core/error.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "planning/schedule/generators.h"

namespace lowgear::estimator {
namespace {

TrainingJob llama_job() {
  TrainingJob job;
  job.model = named_model("llama-3-70b");
  job.gpu = named_gpu("h100-sxm");
  job.cluster = default_cluster(job.gpu);
  job.parallel = {.dp = 2, .tp = 8, .pp = 4};
  job.batch = {.global = 512, .micro = 1, .sequence_length = 8192};
  return job;
}

std::string fault_with(const std::function<void(TrainingJob&)>& change) {
  TrainingJob job = llama_job();
  change(job);
  const std::optional<JobFault> fault = find_fault(job);
  if (!fault) return "no fault";
  EXPECT_THROW(require_valid(job), InputError);
  return std::string(fault->member) + ": " + fault->what;
}

TEST(FindFault, FindsNoneInAValidJob) {
  EXPECT_EQ(fault_with([](TrainingJob&) {}), "no fault");
  EXPECT_NO_THROW(require_valid(llama_job()));
}

TEST(FindFault, NamesTheMemberThatDoesNotFit) {
  using Change = std::function<void(TrainingJob&)>;
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto& job) { job.parallel.tp = 0; }, "parallel.tp: 0 is not from 1"},
      {[](auto& job) { job.parallel.dp = 1 << 20; }, "parallel: dp x tp x pp x cp are more than"},
      {[](auto& job) { job.parallel = {.dp = 3, .tp = 4, .pp = 1}; },
       "cluster.gpus_per_node: 12 GPUs do not fill nodes of 8"},
      {[](auto& job) { job.parallel.tp = 6; }, "parallel.tp: 6 does not divide the 64 heads"},
      {[](auto& job) { job.parallel.tp = 16; }, "parallel.tp: 16 does not divide the 8 heads of keys"},
      {[](auto& job) { job.model.intermediate = 28673; }, "parallel.tp: 8 does not divide the 28673 columns"},
      {[](auto& job) { job.parallel.pp = 81; }, "parallel.pp: 81 stages are more than the 80 layers"},
      {[](auto& job) { job.parallel.virtual_stages = 21; }, "parallel.virtual_stages: 84 stages are more"},
      {[](auto& job) {
         job.parallel.pp = 1;
         job.parallel.virtual_stages = 2;
       },
       "parallel.virtual_stages: virtual stages need several"},
      {[](auto& job) { job.parallel.dp = 3; }, "batch.global: 512 sequences are not a multiple of 3 (micro 1 x dp 3)"},
      {[](auto& job) { job.batch.global = 0; }, "batch.global: 0 is not from 1"},
      {[](auto& job) { job.batch.micro = 0; }, "batch.micro: 0 is not from 1"},
      {[](auto& job) { job.batch.sequence_length = 0; }, "batch.sequence: 0 is not from 1"},
      {[](auto& job) { job.parallel.cp = 3; }, "parallel.cp: 3 does not divide the 8192 tokens"},
      {[](auto& job) {
         job.parallel.sequence_parallel = true;
         job.batch.sequence_length = 8190;
       },
       "parallel.tp: 8 does not divide the 8190 tokens"},
      {[](auto& job) { job.parallel.ep = 2; }, "parallel.ep: the model has no experts"},
      {[](auto& job) { job.schedule = "1f2b"; }, "schedule: there is no schedule \"1f2b\""},
      {[](auto& job) { job.schedule = "envpipe"; }, "schedule: envpipe's schedule depends on"},
      {[](auto& job) { job.parallel.virtual_stages = 2; }, "schedule: 1f1b has no virtual stages"},
      {[](auto& job) { job.schedule = "interleaved"; },
       "schedule: interleaved with one virtual stage per rank is 1f1b"},
      {[](auto& job) {
         job.schedule = "interleaved";
         job.parallel.virtual_stages = 2;
         job.batch.global = 10;
         job.parallel.dp = 1;
         job.parallel.tp = 2;
       },
       "no fault"},
      {[](auto& job) {
         job.schedule = "interleaved";
         job.parallel.virtual_stages = 2;
         job.batch.global = 18;
       },
       "batch.global: 9 microbatches cannot be interleaved on 4 ranks"},
      {[](auto& job) { job.zero = 4; }, "zero: 4 is not from 0 to 3"},
      {[](auto& job) { job.shard_size = 3; }, "shard_size: 3 does not divide the 2 replicas (dp x cp)"},
      {[](auto& job) {
         job.zero = 0;
         job.shard_size = 2;
       },
       "shard_size: ZeRO 0 shards nothing"},
      {[](auto& job) { job.offload = Offload::states; }, "offload: ZeRO 1 leaves weights whole"},
      {[](auto& job) { job.dropout = 1; }, "dropout: 1 is not"},
      {[](auto& job) { job.gpu = named_gpu("v100"); }, "dtype: v100-sxm has no tensor cores for bf16"},
      {[](auto& job) { job.cluster.inter_node.bytes_per_s = 0; }, "cluster.inter_node: a bandwidth of 0"},
  };
  for (const auto& [change, expected] : cases) EXPECT_THAT(fault_with(change), testing::StartsWith(expected));
}

TEST(FindFault, WantsExpertsDividedWithinTheReplicas) {
  TrainingJob job = llama_job();
  job.model = named_model("mixtral-8x7b");
  job.parallel = {.dp = 4, .tp = 2, .pp = 1, .ep = 4};
  EXPECT_FALSE(find_fault(job));
  job.parallel.ep = 3;
  EXPECT_EQ(find_fault(job)->what, "3 does not divide the 8 experts");
  job.parallel.ep = 8;
  EXPECT_EQ(find_fault(job)->what, "8 does not divide the 4 replicas (dp x cp)");
  job.parallel.ep = 4;
  job.shard_size = 2;
  EXPECT_EQ(find_fault(job)->what, "2 is not a multiple of the 4 expert parallel ranks");
}

TEST(FindFault, RefusesPositionsThatWereNotLearned) {
  TrainingJob job = llama_job();
  job.model = named_model("gpt3-175b");
  job.batch.sequence_length = 4096;
  EXPECT_EQ(find_fault(job)->member, "batch.sequence");
}

/// An independent oracle: the generators themselves.
TEST(FindFault, AgreesWithTheGeneratorOfInterleavedSchedules) {
  TrainingJob job = llama_job();
  job.schedule = "interleaved";
  job.parallel = {.dp = 1, .tp = 8, .pp = 4, .virtual_stages = 2};
  int refused = 0;
  for (int microbatches = 1; microbatches <= 40; ++microbatches) {
    job.batch.global = microbatches;
    bool generated = true;
    try {
      (void)schedule::interleaved_schedule(4, microbatches, 2);
    } catch (const InputError&) {
      generated = false;
      ++refused;
    }
    EXPECT_EQ(!find_fault(job).has_value(), generated) << microbatches;
  }
  EXPECT_GT(refused, 0);
}

TEST(LayersOfStages, AreEvenWithTheRestBeforeTheLastStage) {
  TrainingJob job = llama_job();
  const auto layers = [&job](std::int64_t count, int pp, int virtual_stages) {
    job.model.layers = count;
    job.parallel.pp = pp;
    job.parallel.virtual_stages = virtual_stages;
    return layers_of_stages(job);
  };
  EXPECT_THAT(layers(80, 4, 1), testing::ElementsAre(20, 20, 20, 20));
  EXPECT_THAT(layers(82, 4, 1), testing::ElementsAre(20, 21, 21, 20));
  EXPECT_THAT(layers(83, 4, 1), testing::ElementsAre(21, 21, 21, 20));
  EXPECT_THAT(layers(7, 1, 1), testing::ElementsAre(7));
  EXPECT_THAT(layers(9, 2, 2), testing::ElementsAre(2, 2, 3, 2));
}

TEST(LayersOfStages, SumToTheModelAndDifferByAtMostOne) {
  TrainingJob job = llama_job();
  for (int pp = 1; pp <= 16; ++pp) {
    for (std::int64_t count = pp; count <= 100; ++count) {
      job.model.layers = count;
      job.parallel.pp = pp;
      const std::vector<std::int64_t> layers = layers_of_stages(job);
      EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), std::int64_t{0}), count);
      const auto [least, most] = std::ranges::minmax(layers);
      EXPECT_LE(most - least, 1);
      EXPECT_EQ(layers.back(), least);
    }
  }
}

TEST(PaddedVocabulary, IsAMultipleOf128ForEveryRank) {
  TrainingJob job = llama_job();
  job.model.vocabulary = 50257;
  job.parallel.tp = 8;
  EXPECT_EQ(padded_vocabulary(job), 51200);
  job.parallel.tp = 1;
  EXPECT_EQ(padded_vocabulary(job), 50304);
}

TEST(DefaultCluster, HasEightGpusWithAnAdapterEach) {
  const Cluster h100 = default_cluster(named_gpu("h100-sxm"));
  EXPECT_EQ(h100.gpus_per_node, 8);
  EXPECT_EQ(h100.intra_node.bytes_per_s, 450e9);
  EXPECT_EQ(h100.inter_node.bytes_per_s, 50e9);
  for (const std::string& name : gpu_names()) {
    const Cluster cluster = default_cluster(named_gpu(name));
    EXPECT_GT(cluster.intra_node.bytes_per_s, cluster.inter_node.bytes_per_s) << name;
    EXPECT_LT(cluster.intra_node.latency_s, cluster.inter_node.latency_s) << name;
  }
}

}  // namespace
}  // namespace lowgear::estimator
