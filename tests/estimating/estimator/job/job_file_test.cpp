#include "estimating/estimator/job/job_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/units.h"
#include "estimating/estimator/job/model_catalogue.h"
#include "estimating/model/known_models.h"

namespace lowgear::estimator {
namespace {

std::optional<ConfigFile> no_files(const std::string& /*path*/) { return std::nullopt; }

TrainingJob parse_job(std::string_view yaml, const std::vector<YamlSetting>& settings = {}) {
  return parse_training_job(yaml, "job.yaml", settings, no_files);
}

std::string error_in(std::string_view yaml, const std::vector<YamlSetting>& settings = {}) {
  return lowgear::error_of([&] { (void)parse_job(yaml, settings); });
}

constexpr std::string_view kWhole = R"(model: llama-3-70b
gpu: h100-sxm
cluster:
  gpus: 128
  gpus_per_node: 4
  intra_node_gb_per_s: 400
  intra_node_latency_us: 2
  inter_node_gb_per_s: 25
  inter_node_latency_us: 10
  host_link_gb_per_s: 20
  host_memory_gb_per_s: 40
parallel:
  tp: 4
  pp: 4
  virtual_stages: 2
  cp: 2
  sequence_parallel: false
batch:
  global: 64
  micro: 2
  sequence: 4096
recompute: selective
zero: 2
dtype: fp16
overlap: {gradients: false, tensor_gradients: false, tensor: true, pipeline: true}
schedule: interleaved
attention: unfused
dropout: 0.1
split_messages: false
stack:
  name: llm-foundry
  loss: gathered
  attention: flash2
  fused_norms: false
  fused_gradient_sums: true
  gathers_ahead: true
  weights: fp8
  gradients: bf16
  reductions: fp32
  host: {operator_us: 20, collective_us: 30, checkpoint_forward_us: 100, checkpoint_backward_us: 0}
shard_size: 4
offload: optimizer
)";

constexpr std::string_view kLeast = "{model: llama-3-8b, gpu: h100, batch: {global: 8, sequence: 1024}}";

TEST(ParseTrainingJob, ReadsEveryKey) {
  const TrainingJob job = parse_job(kWhole);
  EXPECT_EQ(job.model, named_model("llama-3-70b"));
  EXPECT_EQ(job.gpu.name, "h100-sxm");
  EXPECT_EQ(job.cluster.gpus_per_node, 4);
  EXPECT_DOUBLE_EQ(job.cluster.intra_node.bytes_per_s, 400e9);
  EXPECT_DOUBLE_EQ(job.cluster.intra_node.latency_s, 2e-6);
  EXPECT_DOUBLE_EQ(job.cluster.inter_node.bytes_per_s, 25e9);
  EXPECT_DOUBLE_EQ(job.cluster.inter_node.latency_s, 10e-6);
  const ParallelLayout expected{
      .dp = 4, .tp = 4, .pp = 4, .virtual_stages = 2, .ep = 1, .cp = 2, .sequence_parallel = false};
  EXPECT_EQ(job.parallel, expected);
  EXPECT_EQ(job.batch.global, 64);
  EXPECT_EQ(job.batch.micro, 2);
  EXPECT_EQ(job.batch.sequence_length, 4096);
  EXPECT_EQ(job.recompute, Recompute::selective);
  EXPECT_EQ(job.zero, 2);
  EXPECT_EQ(job.shard_size, 4);
  EXPECT_EQ(job.offload, Offload::optimizer);
  EXPECT_DOUBLE_EQ(job.cluster.host.link_bytes_per_s, 20e9);
  EXPECT_DOUBLE_EQ(job.cluster.host.memory_bytes_per_s, 40e9);
  EXPECT_EQ(job.cluster.host.source, "given in the job");
  EXPECT_EQ(job.dtype, DataType::fp16);
  EXPECT_FALSE(job.overlap.gradients);
  EXPECT_TRUE(job.overlap.tensor);
  EXPECT_TRUE(job.overlap.pipeline);
  EXPECT_EQ(job.schedule, "interleaved");
  EXPECT_EQ(job.attention, AttentionKind::unfused);
  EXPECT_DOUBLE_EQ(job.dropout, 0.1);
}

TEST(ParseTrainingJob, ReadsWhatFrameworksDoDifferently) {
  const TrainingJob job = parse_job(kWhole);
  EXPECT_FALSE(job.overlap.tensor_gradients);
  EXPECT_FALSE(job.split_messages);
  EXPECT_EQ(job.stack.name, "llm-foundry");
  EXPECT_FALSE(job.stack.fused_gate) << "of the named stack";
  EXPECT_FALSE(job.stack.fused_norms);
  EXPECT_TRUE(job.stack.fused_gradient_sums);
  EXPECT_TRUE(job.stack.gathers_ahead);
  EXPECT_EQ(job.stack.loss, LossKind::gathered);
  EXPECT_EQ(job.stack.attention, AttentionKernel::flash2);
  EXPECT_EQ(job.stack.weights, DataType::fp8);
  EXPECT_EQ(job.stack.gradients, DataType::bf16);
  EXPECT_EQ(job.stack.reductions, DataType::fp32);
  EXPECT_DOUBLE_EQ(job.stack.host.operator_s, 20e-6);
  EXPECT_DOUBLE_EQ(job.stack.host.collective_s, 30e-6);
  EXPECT_DOUBLE_EQ(job.stack.host.checkpoint_forward_s, 100e-6);
  EXPECT_EQ(job.stack.host.checkpoint_backward_s, 0);
}

TEST(ParseTrainingJob, ReadsTheNameOfASoftwareStack) {
  const TrainingJob job = parse_job(kLeast, {{"--stack eager", "stack", "eager"}});
  EXPECT_EQ(job.stack.name, "eager");
  EXPECT_EQ(job.stack.loss, LossKind::plain);
  EXPECT_EQ(parse_job(kLeast).stack.name, "megatron");
  EXPECT_THAT(error_in(kLeast, {{"--stack egaer", "stack", "egaer"}}), testing::HasSubstr("did you mean eager?"));
  EXPECT_EQ(
      parse_job("{model: llama-3-8b, gpu: h100, batch: {global: 8, sequence: 1024}, stack: {loss: fused}}").stack.name,
      "megatron");
}

TEST(ParseTrainingJob, ComposesAttentionWithAddedScoresInLowgear) {
  const auto attention = [](const std::string& model, const std::string& more) {
    return parse_job("{model: " + model + ", gpu: h100, batch: {global: 8, sequence: 512}" + more + "}").attention;
  };
  for (const std::string model : {"t5-large", "bloom-560m"}) {
    EXPECT_EQ(attention(model, ", stack: lowgear"), AttentionKind::unfused);
    EXPECT_EQ(attention(model, ", stack: lowgear, attention: fused"), AttentionKind::fused);
    EXPECT_EQ(attention(model, ", stack: eager"), AttentionKind::fused);
  }
  EXPECT_EQ(attention("llama-3-8b", ", stack: lowgear"), AttentionKind::fused);
}

TEST(ParseTrainingJob, AssumesTheRest) {
  const TrainingJob job = parse_job(kLeast);
  EXPECT_EQ(job.parallel, ParallelLayout{});
  EXPECT_EQ(job.dtype, DataType::bf16);
  EXPECT_EQ(job.cluster.inter_node.bytes_per_s, default_cluster(job.gpu).inter_node.bytes_per_s);
  EXPECT_EQ(job.schedule, "1f1b");
  EXPECT_EQ(parse_job(kLeast, {{"--gpu v100", "gpu", "v100"}}).dtype, DataType::fp16);
  EXPECT_TRUE(parse_job(kLeast, {{"--tp 8", "parallel.tp", "8"}}).parallel.sequence_parallel);
  EXPECT_FALSE(parse_job(kLeast, {{"--tp 8", "parallel.tp", "8"}, {"--seq 1023", "batch.sequence", "1023"}})
                   .parallel.sequence_parallel);
  EXPECT_EQ(parse_job(kLeast, {{"--pp 4", "parallel.pp", "4"}, {"--virtual-stages 2", "parallel.virtual_stages", "2"}})
                .schedule,
            "interleaved");
}

TEST(ParseTrainingJob, LetsSettingsMakeAWholeJob) {
  const TrainingJob job = parse_job("{}", {{"--model llama-3-70b", "model", "llama-3-70b"},
                                           {"--gpu h100-sxm", "gpu", "h100-sxm"},
                                           {"--gpus 64", "cluster.gpus", "64"},
                                           {"--tp 8", "parallel.tp", "8"},
                                           {"--pp 4", "parallel.pp", "4"},
                                           {"--global-batch 512", "batch.global", "512"},
                                           {"--seq 8192", "batch.sequence", "8192"}});
  EXPECT_EQ(job.parallel.dp, 2);
  EXPECT_EQ(job.microbatches(), 256);
}

constexpr std::string_view kOwnGpu = R"(model: llama-3-8b
gpu: {name: h100, power_limit_w: 500, memory_gb: 96, memory_gb_per_s: 2400}
batch: {global: 8, sequence: 1024}
)";

TEST(ParseTrainingJob, TakesAGpuThatIsNotQuiteTheCatalogues) {
  const GpuModel gpu = parse_job(kOwnGpu).gpu;
  EXPECT_EQ(gpu.name, "h100-sxm");
  EXPECT_EQ(gpu.power.limit_w, 500);
  EXPECT_EQ(gpu.power.kernel_limit_w, 700);
  EXPECT_EQ(gpu.memory_bytes, 96 * kGiB);
  EXPECT_EQ(gpu.memory_bytes_per_s, 2400e9);
  const TrainingJob plain = parse_job("{model: llama-3-8b, gpu: {name: v100}, batch: {global: 8, sequence: 1024}}");
  EXPECT_EQ(plain.gpu.name, "v100-sxm");
  EXPECT_EQ(plain.gpu.power.limit_w, named_gpu("v100").power.limit_w);
  EXPECT_EQ(plain.dtype, DataType::fp16);
}

TEST(ParseTrainingJob, ChangesAGpuByItsNameOrWithinIt) {
  const YamlSetting limit{"--power-limit-w 400", "gpu.power_limit_w", "400"};
  const YamlSetting other{"--gpu h200", "gpu", "h200"};
  EXPECT_EQ(parse_job(kLeast, {limit}).gpu.power.limit_w, 400);
  const GpuModel both = parse_job(kOwnGpu, {limit}).gpu;
  EXPECT_EQ(both.power.limit_w, 400) << "the option stands before the file";
  EXPECT_EQ(both.memory_bytes, 96 * kGiB);
  for (const std::vector<YamlSetting>& settings : {std::vector{limit, other}, std::vector{other, limit}}) {
    const GpuModel gpu = parse_job(kOwnGpu, settings).gpu;
    EXPECT_EQ(gpu.name, "h200-sxm");
    EXPECT_EQ(gpu.power.limit_w, 400);
    EXPECT_EQ(gpu.memory_bytes, 141 * kGiB) << "what the file says is of another GPU";
  }
}

TEST(ParseTrainingJob, TakesTheFileOfAMeasuredGpu) {
  constexpr const char* kFile = R"({"format": "lowgear.gpu/1", "gpu": "NVIDIA H100 80GB HBM3", "limit_w": 700,
    "max_clock_mhz": 1980, "multiprocessors": 132, "static_w": {"value": 100, "temperature_c": 40, "per_k": 0.5,
    "clock_tree": 30}, "operations": [], "voltage": {"measured_from_mhz": 1000,
    "points": [{"clock_mhz": 1000, "relative_v2": 0.4}, {"clock_mhz": 1980, "relative_v2": 1}]}})";
  const auto read = [&](const std::string& path) -> std::optional<ConfigFile> {
    if (path != "gpu.json") return std::nullopt;
    return ConfigFile{path, kFile};
  };
  const auto parsed = [&](std::string_view gpu) {
    const std::string text = fmt::format("{{model: llama-3-8b, gpu: {}, batch: {{global: 8, sequence: 1024}}}}", gpu);
    return parse_training_job(text, "job.yaml", {}, read);
  };
  const GpuModel gpu = parsed("{name: h100, file: gpu.json, power_limit_w: 500}").gpu;
  EXPECT_EQ(gpu.power.static_w, 100);
  EXPECT_EQ(gpu.power.limit_w, 500);
  EXPECT_DOUBLE_EQ(gpu.power.voltage.relative_v2(1000), 0.13 + 0.87 * 0.4);
  EXPECT_THAT(gpu.power_source, testing::HasSubstr("measured on one NVIDIA H100 80GB HBM3 from 1000 MHz up"));
  EXPECT_THAT(error_of([&] { (void)parsed("{name: h200, file: gpu.json}"); }),
              testing::HasSubstr("measured on \"NVIDIA H100 80GB HBM3\"; the job's GPU is h200-sxm"));
  EXPECT_THAT(error_of([&] { (void)parsed("{name: h100, file: no.json}"); }),
              testing::HasSubstr("there is no GPU file \"no.json\""));
}

TEST(ParseTrainingJob, SaysWhatAGpuCannotBe) {
  const auto error_with = [](std::string_view gpu) {
    return error_in(std::string("model: llama-3-8b\ngpu: ").append(gpu).append("\n"));
  };
  EXPECT_EQ(error_with("{name: h100, power_limit_w: 349}"),
            "job.yaml:2:34: gpu.power_limit_w: 349 W are not from 350 to 875; the data sheet says 700");
  EXPECT_EQ(error_with("{name: h100, power_limit_w: 876}"),
            "job.yaml:2:34: gpu.power_limit_w: 876 W are not from 350 to 875; the data sheet says 700");
  EXPECT_EQ(error_with("{name: h100, memory_gb: 0}"),
            "job.yaml:2:30: gpu.memory_gb: 0 GB are not from 1 to 1024; the data sheet says 80");
  EXPECT_EQ(error_with("{name: h100, memory_gb_per_s: 2.4}"),
            "job.yaml:2:36: gpu.memory_gb_per_s: 2.4 GB/s are not from 1675 to 6700; the data sheet says 3350");
  EXPECT_THAT(error_with("{name: h100, memory_gb: nan}"),
              testing::StartsWith("job.yaml:2:30: gpu.memory_gb: expected a number"));
  EXPECT_EQ(error_with("{name: h100, power_limit: 500}"),
            "job.yaml:2:19: gpu: \"power_limit\" is not a setting; did you mean power_limit_w?");
  EXPECT_EQ(error_with("{name: h100-sx}"),
            "job.yaml:2:13: gpu.name: there is no GPU \"h100-sx\"; did you mean h100-sxm?");
  EXPECT_EQ(error_with("{power_limit_w: 500}"), "job.yaml:2:6: gpu: \"name\" is missing");
  EXPECT_THAT(error_with("[h100]"), testing::StartsWith("job.yaml:2:6: gpu: expected a text, not a list"));
  EXPECT_EQ(error_in(kLeast, {{"--power-limit-w 1000", "gpu.power_limit_w", "1000"}}),
            "--power-limit-w 1000: 1000 W are not from 350 to 875; the data sheet says 700");
}

TEST(ParseTrainingJob, DerivesReplicasFromGpusOrNodes) {
  EXPECT_EQ(parse_job(kLeast, {{"", "cluster.gpus", "8"}, {"", "parallel.tp", "2"}}).parallel.dp, 4);
  EXPECT_EQ(parse_job(kLeast, {{"", "cluster.nodes", "1"}, {"", "parallel.cp", "4"}}).parallel.dp, 2);
  EXPECT_EQ(error_in(kLeast, {{"--gpus 12", "cluster.gpus", "12"}, {"", "parallel.tp", "8"}}),
            "--gpus 12: 12 GPUs are not a multiple of 8 (tp 8 x pp 1 x cp 1); give 16 GPUs, or another "
            "layout");
  EXPECT_EQ(error_in(kLeast, {{"--gpus 8", "cluster.gpus", "8"}, {"", "parallel.dp", "4"}}),
            "--gpus 8: 8 GPUs give a dp of 8, not 4; leave one of them out");
  EXPECT_THAT(error_in(kLeast, {{"", "cluster.nodes", "1"}, {"", "cluster.gpus", "16"}}),
              testing::HasSubstr("16 GPUs give a dp of 16, not 8"));
}

TEST(ParseTrainingJob, ReadsModelsThatAreConfigsInTheFileOrBesideIt) {
  const std::string inside =
      "{gpu: h100, batch: {global: 8, sequence: 1024}, model: {model_type: qwen3_moe, vocab_size: 151936, hidden_size: "
      "2048, num_hidden_layers: 48, num_attention_heads: 32, num_key_value_heads: 4, head_dim: 128, intermediate_size: "
      "6144, max_position_embeddings: 40960, num_experts: 128, num_experts_per_tok: 8, moe_intermediate_size: 768}}";
  model::ModelConfig expected = named_model("qwen3-30b-a3b");
  expected.name = "model";
  EXPECT_EQ(model::for_estimates(parse_job(inside).model), expected);

  const auto read = [](const std::string& path) -> std::optional<ConfigFile> {
    EXPECT_EQ(path, "models/gpt2.json");
    return ConfigFile{path, R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12,
                                "n_positions": 1024, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})"};
  };
  const TrainingJob job = parse_training_job("{gpu: h100, batch: {global: 8, sequence: 1024}, model: models/gpt2.json}",
                                             "job.yaml", {}, read);
  expected = named_model("gpt2-small");
  expected.name = "models/gpt2.json";
  EXPECT_EQ(job.model, expected);
}

/// The whole job with one line replaced, and the error that it is.
TEST(ParseTrainingJob, SaysWhereWhatIsWrong) {
  const auto error_with = [](std::string_view line, std::string_view replacement) {
    std::string text(kWhole);
    text.replace(text.find(line), line.size(), replacement);
    return error_in(text);
  };
  const std::vector<std::tuple<const char*, const char*, const char*>> cases = {
      {"model: llama-3-70b", "model: lama-3-70b",
       "job.yaml:1:8: model: there is no model \"lama-3-70b\"; did you mean llama-3-70b?"},
      {"gpu: h100-sxm", "gpu: h100-sx", "job.yaml:2:6: gpu: there is no GPU \"h100-sx\"; did you mean h100-sxm?"},
      {"gpu: h100-sxm\n", "", "job.yaml:1:1: \"gpu\" is missing"},
      {"zero: 2", "zerro: 2", "job.yaml:23:1: \"zerro\" is not a setting; did you mean zero?"},
      {"  tp: 4", "  tpp: 4", "job.yaml:13:3: parallel: \"tpp\" is not a setting; did you mean tp?"},
      {"  tp: 4", "  tp: 0", "job.yaml:13:7: parallel.tp: expected a whole number from 1"},
      {"  tp: 4", "  tp: four", "job.yaml:13:7: parallel.tp: expected a whole number from 1"},
      {"  pp: 4", "  pp: 3", "job.yaml:4:9: cluster.gpus: 128 GPUs are not a multiple of 24"},
      {"  virtual_stages: 2", "  virtual_stages: 21",
       "job.yaml:15:19: parallel.virtual_stages: 84 stages are more than the 80 layers"},
      {"  global: 64", "  global: 63", "job.yaml:19:11: batch.global: 63 sequences are not a multiple of 8"},
      {"  global: 64\n", "", "job.yaml:19:3: batch: \"global\" is missing"},
      {"  gpus_per_node: 4", "  gpus_per_node: 48", "job.yaml:5:18: cluster.gpus_per_node: 128 GPUs do not fill"},
      {"  inter_node_gb_per_s: 25", "  inter_node_gb_per_s: 0",
       "job.yaml:8:24: cluster.inter_node_gb_per_s: expected more than 0"},
      {"recompute: selective", "recompute: selektive",
       "job.yaml:22:12: recompute: expected none or selective or operators or full, not \"selektive\"; did you mean "
       "selective?"},
      {"dtype: fp16", "dtype: fp5", "job.yaml:24:8: dtype: expected fp32 or"},
      {"schedule: interleaved", "schedule: 1f1b", "job.yaml:26:11: schedule: 1f1b has no virtual stages"},
      {"dropout: 0.1", "dropout: 1", "job.yaml:28:10: dropout: 1 is not from 0 to below 1"},
  };
  for (const auto& [line, replacement, expected] : cases) {
    EXPECT_THAT(error_with(line, replacement), testing::StartsWith(expected)) << replacement;
  }
  EXPECT_EQ(error_in("model: llama-3-8b\n", {{"--tp 3", "parallel.tp", "3"}}), "job.yaml:1:1: \"gpu\" is missing");
  EXPECT_THAT(error_in(kLeast, {{"--tp 3", "parallel.tp", "3"}}),
              testing::StartsWith("--tp 3: 3 does not divide the 32 heads"));
  EXPECT_THAT(
      error_of([] {
        (void)parse_training_job(kLeast, "", std::vector<YamlSetting>{{"--pp 9", "parallel.pp", "9"}}, no_files);
      }),
      testing::StartsWith("cluster.gpus_per_node: 9 GPUs do not fill nodes of 8"));
  EXPECT_THAT(error_in("- 1\n"), testing::HasSubstr("expected a map of settings"));
}

TEST(ParseTrainingJob, SaysWhatAModelThatItDoesNotFindMayBe) {
  const auto error_of_model = [](const std::string& model) { return error_in("{model: " + model + "}"); };
  EXPECT_EQ(error_of_model("meta-llama/Meta-Llama-3-8B"),
            "job.yaml:1:9: model: there is no file or folder \"meta-llama/Meta-Llama-3-8B\"; did you mean the model "
            "llama-3-8b? For another, give the path of its config.json, or of the folder that has it");
  EXPECT_THAT(error_of_model("mistralai/Mixtral-8x7B-Instruct-v0.1"), testing::HasSubstr("the model mixtral-8x7b?"));
  EXPECT_THAT(error_of_model("openai-community/gpt2-xl"), testing::HasSubstr("the model gpt2-xl?"));
  EXPECT_THAT(error_of_model("EleutherAI/pythia-1.4b-deduped"), testing::HasSubstr("the model pythia-1.4b?"));
  for (const char* const unknown : {"google/gemma-7b", "facebook/opt-1.3b", "there/is/none.json"}) {
    EXPECT_EQ(error_of_model(unknown), "job.yaml:1:9: model: there is no file or folder \"" + std::string(unknown) +
                                           "\"; give the path of its config.json, or of the folder that has it");
  }
  EXPECT_THAT(error_of_model("Llama-3-8B-Instruct"),
              testing::EndsWith("there is no model \"Llama-3-8B-Instruct\"; did you mean llama-3-8b?"));
}

TEST(ParseTrainingJob, TakesANameOfTheCatalogueBeforeAFileOfThatName) {
  const auto never = [](const std::string& path) -> std::optional<ConfigFile> {
    ADD_FAILURE() << path;
    return std::nullopt;
  };
  EXPECT_EQ(parse_training_job("{gpu: h100, batch: {global: 8, sequence: 1024}, model: gpt3-xl}", "job.yaml", {}, never)
                .model.name,
            "gpt3-1.3b");
}

TEST(ParseTrainingJob, TakesAGpuAsTheDriverCallsIt) {
  EXPECT_EQ(parse_job("{gpu: NVIDIA H100 80GB HBM3, batch: {global: 8, sequence: 1024}, model: gpt2-xl}").gpu.name,
            "h100-sxm");
  EXPECT_EQ(parse_job("{gpu: {name: NVIDIA A100-SXM4-80GB, memory_gb: 64}, batch: {global: 8, sequence: 1024}, model: "
                      "gpt2-xl}")
                .gpu.name,
            "a100-80gb-sxm");
}

}  // namespace
}  // namespace lowgear::estimator
