#include "rivals/published_estimator/sampled_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "estimating/estimator/job/model_catalogue.h"

namespace lowgear::published_estimator {

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

std::optional<estimator::ConfigFile> no_such_files(const std::string& /*path*/) { return std::nullopt; }

estimator::TrainingJob parse_sampled(std::string_view yaml, const std::vector<YamlSetting>& settings = {}) {
  return parse_job_file(yaml, "job.yaml", settings, no_such_files);
}

TEST(ParseJobFile, ReadsThePublishedEstimatorsFiles) {
  const std::filesystem::path folder = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/operators/configs";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "SKIPPED: ../shared/data/operators is absent, so its files were not read";
  }
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const std::string source = entry.path().filename().string();
    const SampledJob sampled = parse_sampled_job(text, source);
    estimator::TrainingJob job;
    try {
      job = parse_job_file(text, source, {}, no_such_files);
    } catch (const InputError& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    EXPECT_EQ(job.microbatches(), sampled.microbatches) << source;
    EXPECT_EQ(job.parallel.gpus(), sampled.pp * sampled.mp * sampled.dp) << source;
    ++read;
  }
  EXPECT_EQ(read, 34);
}

constexpr std::string_view kSampled = R"({"gpu_name": "NVIDIAGH200120GB", "operator_data_folder": "o",
  "nccl_data_folder": "n", "training_config": [4, 2, 2, 4, 32, 4096, 4096, 8, 1], "comm_bucket": 1260000000,
  "encoders": 32, "function_list": ["embedding"], "encoder_function_list": ["RoPE", "flash_atten"],
  "layernorm_name": "RMSlayernorm", "fwd_syncs": 2, "bwd_syncs": 2,})";

TEST(ParseJobFile, TakesWhatItCanFromAPublishedFile) {
  const estimator::TrainingJob job = parse_sampled(kSampled);
  EXPECT_EQ(job.gpu.name, "gh200");
  EXPECT_EQ(job.cluster.gpus_per_node, 1);
  EXPECT_EQ(job.model.norm, model::NormKind::rms_norm);
  EXPECT_EQ(job.model.layers, 32);
  EXPECT_EQ(job.recompute, estimator::Recompute::full);
  EXPECT_EQ(job.attention, estimator::AttentionKind::fused);
  EXPECT_EQ(job.batch.global, 64);
  EXPECT_FALSE(job.parallel.sequence_parallel);
  EXPECT_EQ(parse_sampled(kSampled, {{"--zero 0", "zero", "0"}}).zero, 0);
  EXPECT_EQ(parse_sampled(kSampled, {{"", "gpu.power_limit_w", "600"}}).gpu.power.limit_w, 600);
  EXPECT_EQ(parse_sampled(kSampled, {{"--gpu a100", "gpu", "a100"}}).gpu.name, "a100-80gb-sxm");
}

TEST(ParseJobFile, ReadsThisEstimatorsFormatToo) {
  const char* const text = "{model: llama-3-8b, gpu: h100, cluster: {gpus: 16}, batch: {global: 8, sequence: 1024}}";
  const estimator::TrainingJob job = parse_sampled(text, {{"--tp 2", "parallel.tp", "2"}});
  EXPECT_EQ(job.model, estimator::named_model("llama-3-8b"));
  EXPECT_EQ(job.parallel.tp, 2);
  EXPECT_EQ(job.parallel.dp, 8);
}

}  // namespace

}  // namespace lowgear::published_estimator
