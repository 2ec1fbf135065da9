#include "rivals/published_estimator/published_formula.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>

#include "base/core/error_of.h"
#include "estimating/estimator/shared_samples.h"

namespace lowgear::published_estimator {
namespace {

using ::testing::HasSubstr;

constexpr const char* kForest =
    "\"{'max_depth': None, 'max_features': None, 'min_samples_leaf': 1, 'min_samples_split': 2, 'n_estimators': 3}\"";

/// Samples in which each function takes one time whatever its shape, so that the composition can be done by hand.
class ConstantSamples {
 public:
  ConstantSamples() {
    samples_.operator_settings_source = "operator/G.csv";
    samples_.collective_settings_source = "nccl/G.csv";
    samples_.operator_settings = "Function,Precision,Propagation,Best_model,Best_config\n";
    samples_.collective_settings = "Function,Precision,Nodes,GPUsPerNode,Best_model,Best_config\n";
  }

  void add_operator(const std::string& function, double forward_us, double backward_us) {
    const estimator::SampledFunction& sampled = *estimator::find_sampled_function(function);
    const std::string name = fmt::format("G_{}_fp16.csv", function);
    std::string ones;
    for (const char c : sampled.columns) ones += c == ',' ? "1," : "";
    const std::string times =
        sampled.one_pass ? fmt::format("1,{}", forward_us) : fmt::format("1,{},{}", forward_us, backward_us);
    samples_.files.push_back({name, *estimator::parse_sample_file_name(name),
                              fmt::format("{},{}\n{}{}\n", sampled.columns,
                                          sampled.one_pass ? "dur(us)" : "F_dur(us),B_dur(us)", ones, times)});
    for (const char* const pass : {"fwd", "bwd", "dur"}) {
      samples_.operator_settings += fmt::format("{},fp16,{},rforest,{}\n", function, pass, kForest);
    }
  }

  void add_collective(const std::string& function, int nodes, int per_node, double us) {
    const std::string name = fmt::format("G_{}_fp16_{}_{}.csv", function, nodes, per_node);
    samples_.files.push_back({name, *estimator::parse_sample_file_name(name),
                              fmt::format("shape,nodes,GPUsPerNode,dur(us)\n1000,{},{},{}\n", nodes, per_node, us)});
    samples_.collective_settings += fmt::format("{},fp16,{},{},rforest,{}\n", function, nodes, per_node, kForest);
  }

  [[nodiscard]] const PublishedSamples& get() const { return samples_; }

 private:
  PublishedSamples samples_;
};

ConstantSamples constant_samples() {
  ConstantSamples samples;
  samples.add_operator("embedding", 7, 11);
  samples.add_operator("linear1", 100, 200);
  samples.add_operator("gelu", 10, 20);
  samples.add_operator("RMSlayernorm", 3, 5);
  samples.add_operator("linear_final", 50, 60);
  samples.add_operator("parallel_cross_entropy_128", 40, 30);
  samples.add_operator("firstStage_optimizer", 500, 0);
  samples.add_operator("middleStage_optimizer", 600, 0);
  samples.add_operator("lastStage_optimizer", 400, 0);
  samples.add_collective("allreduce", 1, 2, 17);
  samples.add_collective("allreduce_large", 1, 2, 1000);
  samples.add_collective("allgather_large", 1, 2, 900);
  samples.add_collective("p2p", 2, 1, 13);
  return samples;
}

SampledJob small_sampled_job() {
  return {.gpu_name = "G",
          .operator_data_folder = "",
          .nccl_data_folder = "",
          .pp = 4,
          .mp = 2,
          .dp = 2,
          .micro_batch = 4,
          .heads = 32,
          .sequence_length = 4096,
          .hidden = 4096,
          .microbatches = 8,
          .gpus_per_node = 4,
          .comm_bucket = 1'260'000'000,
          .encoders = 32,
          .function_list = {"linear1", "gelu"},
          .encoder_function_list = {"gelu", "linear1", "gelu"},
          .layernorm_name = "RMSlayernorm",
          .fwd_syncs = 2,
          .bwd_syncs = 1};
}

TEST(PublishedFormula, AddsUpAsPublished) {
  const ConstantSamples samples = constant_samples();
  const PublishedEstimate estimate = published_estimate(small_sampled_job(), samples.get());
  EXPECT_THAT(estimate.layers, ::testing::ElementsAre(8, 9, 6));
  const double layer_forward = 10 + 100 + 10 + 2 * 17;
  const double layer_backward = 20 + 200 + 20 + 17 + layer_forward;
  EXPECT_NEAR(estimate.forward_s[0], 1e-6 * (8 * layer_forward + 7 + 17), 1e-12);
  EXPECT_NEAR(estimate.forward_s[1], 1e-6 * 9 * layer_forward, 1e-12);
  EXPECT_NEAR(estimate.forward_s[2], 1e-6 * (6 * layer_forward + 3 + 50 + 40), 1e-12);
  EXPECT_NEAR(estimate.backward_s[0], 1e-6 * (8 * layer_backward + 11), 1e-12);
  EXPECT_NEAR(estimate.backward_s[2], 1e-6 * (6 * layer_backward + 5 + 60 + 30), 1e-12);
  const double slot = 9 * layer_forward + 13 + 9 * layer_backward + 13;
  EXPECT_NEAR(estimate.pipeline_s, 1e-6 * 11 * slot, 1e-9);
  EXPECT_NEAR(estimate.gradients_s, 1000e-6, 1e-12);
  EXPECT_NEAR(estimate.update_s, (600 + 900) * 1e-6, 1e-12);
  EXPECT_DOUBLE_EQ(estimate.time_s, estimate.pipeline_s + estimate.gradients_s + estimate.update_s);
}

TEST(PublishedFormula, SumsGradientsInBuckets) {
  const ConstantSamples samples = constant_samples();
  SampledJob job = small_sampled_job();
  job.comm_bucket = 200'000'000;  // of the 908 million parameters of the first stage: five
  EXPECT_NEAR(published_estimate(job, samples.get()).gradients_s, 5 * 1000e-6, 1e-12);
}

TEST(PublishedFormula, HasNoUpdateWithoutReplicas) {
  const ConstantSamples samples = constant_samples();
  SampledJob job = small_sampled_job();
  job.dp = 1;
  const PublishedEstimate estimate = published_estimate(job, samples.get());
  EXPECT_EQ(estimate.update_s, 0);
  EXPECT_EQ(estimate.time_s, estimate.pipeline_s);
}

TEST(PublishedFormula, SaysWhatIsMissing) {
  const ConstantSamples samples = constant_samples();
  const auto error_with = [&](auto change) {
    SampledJob job = small_sampled_job();
    change(job);
    return error_of([&] { (void)published_estimate(job, samples.get()); });
  };
  EXPECT_THAT(error_with([](SampledJob& job) { job.mp = 4; }), HasSubstr("no sampling file G_allreduce_fp16_1_4.csv"));
  EXPECT_THAT(error_with([](SampledJob& job) { job.encoder_function_list = {"linear2"}; }),
              HasSubstr("no sampling file G_linear2_fp16.csv"));
  EXPECT_THAT(error_with([](SampledJob& job) { job.encoder_function_list = {"conv"}; }),
              HasSubstr("\"conv\" is not a sampled operator"));
  EXPECT_THAT(error_with([](SampledJob& job) { job.pp = 16; }), HasSubstr("leaves one without layers"));
  EXPECT_THAT(error_with([](SampledJob& job) { job.hidden = 4095; }), HasSubstr("do not divide hidden size 4095"));
}

struct RunOfTool {
  const char* config;
  double time_s;  ///< that the published tool printed, with its own libraries
};

class PublishedRuns : public ::testing::TestWithParam<RunOfTool> {};

TEST_P(PublishedRuns, AreReproducedWithinThreePerCent) {
  const bool perlmutter = std::string(GetParam().config).ends_with("P");
  const std::string cluster = perlmutter ? "perlmutter" : "vista";
  const auto yaml = estimator::read_shared_samples(fmt::format("configs/{}.yml", GetParam().config));
  if (!yaml) GTEST_SKIP() << estimator::kNoSharedSamples;
  const SampledJob job = parse_sampled_job(*yaml, GetParam().config);
  PublishedSamples samples{.files = estimator::shared_sample_files(cluster + "/operator")};
  std::ranges::move(estimator::shared_sample_files(cluster + "/nccl"), std::back_inserter(samples.files));
  samples.operator_settings = *estimator::read_shared_samples(cluster + "/operator/" + job.gpu_name + ".csv");
  samples.collective_settings = *estimator::read_shared_samples(cluster + "/nccl/" + job.gpu_name + ".csv");
  EXPECT_NEAR(published_estimate(job, samples).time_s / GetParam().time_s, 1, 0.03);
}

INSTANTIATE_TEST_SUITE_P(PublishedFormula, PublishedRuns,
                         ::testing::Values(RunOfTool{"llemma_7b_4_2_2_P", 9.5088100905},
                                           RunOfTool{"llemma_7b_4_2_2_V", 4.7599400279}),
                         [](const auto& run) { return std::string(run.param.config); });

}  // namespace
}  // namespace lowgear::published_estimator
