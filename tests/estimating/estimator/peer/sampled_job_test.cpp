#include "estimating/estimator/peer/sampled_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear::estimator {
namespace {

constexpr std::string_view kText = R"({
  "gpu_name": "NVIDIAA100-SXM4-80GB",
  "operator_data_folder": "./regressors/operator",
  "nccl_data_folder": "./regressors/nccl",

  # pp, mp, dp, b, h, l, dim, steps_per_update, gpus_per_node
  "training_config": [4, 2, 3, 5, 32, 4096, 8192, 8, 6],
  "comm_bucket": 1260000000,
  "encoders": 40, 
  "function_list":['embedding', 'linear1'],
  "encoder_function_list":['res_add', 'linear1', 'res_add'],
  "layernorm_name":'RMSlayernorm',
  "fwd_syncs":2,
  "bwd_syncs":1,
}
# a last comment)";

TEST(ParseSampledJob, ReadsThePublishedForm) {
  const SampledJob job = parse_sampled_job(kText, "job.yml");
  EXPECT_EQ(job.gpu_name, "NVIDIAA100-SXM4-80GB");
  EXPECT_EQ(job.nccl_data_folder, "./regressors/nccl");
  EXPECT_EQ(job.pp, 4);
  EXPECT_EQ(job.mp, 2);
  EXPECT_EQ(job.dp, 3);
  EXPECT_EQ(job.micro_batch, 5);
  EXPECT_EQ(job.heads, 32);
  EXPECT_EQ(job.sequence_length, 4096);
  EXPECT_EQ(job.hidden, 8192);
  EXPECT_EQ(job.microbatches, 8);
  EXPECT_EQ(job.gpus_per_node, 6);
  EXPECT_EQ(job.comm_bucket, 1'260'000'000);
  EXPECT_EQ(job.encoders, 40);
  EXPECT_THAT(job.function_list, testing::ElementsAre("embedding", "linear1"));
  EXPECT_THAT(job.encoder_function_list, testing::ElementsAre("res_add", "linear1", "res_add"));
  EXPECT_EQ(job.layernorm_name, "RMSlayernorm");
  EXPECT_EQ(job.fwd_syncs, 2);
  EXPECT_EQ(job.bwd_syncs, 1);
  EXPECT_TRUE(is_sampled_job(kText, "job.yml"));
  EXPECT_FALSE(is_sampled_job("model: llama-3-8b", "job.yml"));
}

std::string error_with(std::string_view part, std::string_view replacement) {
  std::string text(kText);
  text.replace(text.find(part), part.size(), replacement);
  return lowgear::error_of([&] { (void)parse_sampled_job(text, "job.yml"); });
}

TEST(ParseSampledJob, SaysWhereWhatIsWrong) {
  EXPECT_THAT(error_with("encoders", "encoder"), testing::StartsWith("job.yml:9:3: \"encoder\" is not a setting"));
  EXPECT_THAT(error_with("8, 6]", "8]"), testing::StartsWith("job.yml:7:22: training_config: expected 9 numbers"));
  EXPECT_THAT(error_with("[4, 2", "[4, 0"), testing::StartsWith("job.yml:7:26: training_config[1]: expected a whole"));
  EXPECT_THAT(error_with("['embedding', 'linear1']", "[]"), testing::HasSubstr("an operator is missing here"));
  EXPECT_THAT(error_with("\"fwd_syncs\":2,", ""), testing::HasSubstr("\"fwd_syncs\" is missing"));
}

}  // namespace
}  // namespace lowgear::estimator
