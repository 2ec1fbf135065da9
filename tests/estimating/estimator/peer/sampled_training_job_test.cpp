#include "estimating/estimator/peer/sampled_training_job.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "estimating/estimator/job/transformer_shape.h"

namespace lowgear::estimator {
namespace {

std::optional<ConfigFile> no_such_files(const std::string& /*path*/) { return std::nullopt; }

TrainingJob parse_sampled(std::string_view yaml, const std::vector<YamlSetting>& settings = {}) {
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
    TrainingJob job;
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
  const TrainingJob job = parse_sampled(kSampled);
  EXPECT_EQ(job.gpu.name, "gh200");
  EXPECT_EQ(job.cluster.gpus_per_node, 1);
  EXPECT_EQ(job.model.norm, NormKind::rms_norm);
  EXPECT_EQ(job.model.layers, 32);
  EXPECT_EQ(job.recompute, Recompute::full);
  EXPECT_EQ(job.attention, AttentionKind::fused);
  EXPECT_EQ(job.batch.global, 64);
  EXPECT_FALSE(job.parallel.sequence_parallel);
  EXPECT_EQ(parse_sampled(kSampled, {{"--zero 0", "zero", "0"}}).zero, 0);
  EXPECT_EQ(parse_sampled(kSampled, {{"", "gpu.power_limit_w", "600"}}).gpu.power.limit_w, 600);
  EXPECT_EQ(parse_sampled(kSampled, {{"--gpu a100", "gpu", "a100"}}).gpu.name, "a100-80gb-sxm");
}

TEST(ParseJobFile, ReadsThisEstimatorsFormatToo) {
  const char* const text = "{model: llama-3-8b, gpu: h100, cluster: {gpus: 16}, batch: {global: 8, sequence: 1024}}";
  const TrainingJob job = parse_sampled(text, {{"--tp 2", "parallel.tp", "2"}});
  EXPECT_EQ(job.model, named_transformer("llama-3-8b"));
  EXPECT_EQ(job.parallel.tp, 2);
  EXPECT_EQ(job.parallel.dp, 8);
}

}  // namespace
}  // namespace lowgear::estimator
