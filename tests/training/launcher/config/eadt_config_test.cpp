#include "training/launcher/config/eadt_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "base/core/formats/yaml.h"
#include "estimating/model/config_members.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// As its README shows it.
constexpr std::string_view kReadme = R"(training:
  model_name_or_path: "EleutherAI/pythia-410m"
  dataset_name: "wikitext"
  per_device_train_batch_size: 4
  gradient_accumulation_steps: 16
  energy_monitoring_interval: 60  # seconds
  energy_efficiency_threshold: 0.75
  adaptive_precision: true
  dynamic_layer_freezing: true
deepspeed:
  zero_optimization:
    stage: 3
  adaptive_training:
    enabled: true
    energy_threshold_high: 250  # watts
    energy_threshold_low: 150   # watts
mps:
  enabled: true
  initial_thread_percentage: 50
  shared_resources: 2
)";

EadtTranslation translated(std::string_view text) { return translate_eadt_config(text, "training_config.yaml"); }

bool recognised(const std::string& text) { return model::is_eadt_config(YamlView::parse(text, "c.yaml")); }

TEST(EadtConfig, IsKnownByItsSections) {
  EXPECT_TRUE(recognised(std::string(kReadme)));
  EXPECT_TRUE(recognised("mps: {enabled: true}"));
  EXPECT_TRUE(recognised("model_name_or_path: gpt2"));
  EXPECT_FALSE(recognised("model: {config: c.json}\nsteps: 3"));
  EXPECT_FALSE(recognised("training: 3"));
  EXPECT_THAT(
      error_of([] { (void)parse_train_config(kReadme, "t.yaml", "", {}); }),
      HasSubstr("a configuration of EADT, DeepSpeed or Hugging Face's trainer, not of `lowgear train`; `lowgear "
                "train FILE` alone prints"));
}

TEST(EadtConfig, IsTranslatedWhereItSaysTheSame) {
  const std::string config = translated(kReadme).config;
  EXPECT_THAT(config, HasSubstr("microbatch_size: 4  # training.per_device_train_batch_size\n"));
  EXPECT_THAT(config, HasSubstr("microbatches: 16  # training.gradient_accumulation_steps\n"));
  EXPECT_THAT(config,
              HasSubstr("data:\n  tokens: train.bin  # to be made\n  sequence_length: 512  # the default there\n"));
  EXPECT_THAT(config, HasSubstr("  learning_rate: 5e-5  # the default there\n"));
  EXPECT_THAT(config, HasSubstr(R"(model: {config: "pythia-410m/config.json", weights: "pythia-410m"})"));
  EXPECT_THAT(config, HasSubstr("# steps: to be set\n"));
  EXPECT_THAT(config, Not(HasSubstr("zero1")));
}

TEST(EadtConfig, SaysOfEachOtherKeyWhyAndWhere) {
  const EadtTranslation result = translated(kReadme);
  for (const char* reason :
       {"training_config.yaml:3:17: training.dataset_name: a data set of Hugging Face",
        "training.energy_monitoring_interval: not needed",
        "training.energy_efficiency_threshold: EADT does not read it",
        "training.adaptive_precision: in EADT it changes a label",
        "training.dynamic_layer_freezing: it freezes nothing",
        "deepspeed.zero_optimization.stage: lowgear train has ZeRO stage 1 alone",
        "deepspeed.adaptive_training.enabled: EADT does not read it",
        "deepspeed.adaptive_training.energy_threshold_high: watts", "energy_threshold_low: EADT does not read it",
        "mps.enabled: MPS saves energy where independent jobs", "mps.initial_thread_percentage: the agent",
        "mps.shared_resources: NCCL refuses two ranks"}) {
    EXPECT_THAT(result.reasons, Contains(HasSubstr(reason)));
  }
  EXPECT_EQ(result.reasons.size(), 12U) << "each key once";
  EXPECT_THAT(result.steps, Contains(HasSubstr("`hf download EleutherAI/pythia-410m --local-dir pythia-410m`")));
  EXPECT_THAT(result.steps, Contains(HasSubstr("lowgear data tokenize")));
  EXPECT_THAT(result.steps, Contains(HasSubstr("--dry-run")));
}

TEST(EadtConfig, NamesTheFolderOfAModelThatIsToBeDownloaded) {
  const EadtTranslation result = translated("training: {model_name_or_path: meta-llama/Llama-3.2-1B}");
  EXPECT_THAT(result.config, HasSubstr(R"(model: {config: "Llama-3.2-1B/config.json", weights: "Llama-3.2-1B"})"));
  EXPECT_THAT(result.steps, Contains(HasSubstr("`hf download meta-llama/Llama-3.2-1B --local-dir Llama-3.2-1B`")));
  EXPECT_THAT(translated("training: {model_name_or_path: ./gpt2}").steps, Not(Contains(HasSubstr("download"))));
}

TEST(EadtConfig, SaysWhatIsUnknownRefusedOrTwice) {
  const EadtTranslation result = translated(
      "training: {fp16: true, adaptive_precision: false, colour: red, learning_rate: 1e-4}\n"
      "deepspeed: {fp16: {enabled: true, loss_scale_window: 500}, bf16: {enabled: true}, "
      "train_micro_batch_size_per_gpu: 2, gradient_clipping: 0.5,\n"
      "  zero_optimization: {stage: 1, offload_param: {device: cpu}}, optimizer: {params: {learning_rate: 2e-4}}}\n");
  for (const char* reason :
       {"training.adaptive_precision: off there, and here", "training.colour: not known of EADT's configuration",
        "deepspeed.optimizer.params.learning_rate: training.learning_rate says 1e-4 already",
        "deepspeed.fp16.loss_scale_window: fp16.growth_steps",
        "deepspeed.bf16.enabled: training.fp16 says fp16 already",
        "deepspeed.zero_optimization.offload_param.device: there is no offloading"}) {
    EXPECT_THAT(result.reasons, Contains(HasSubstr(reason)));
  }
  EXPECT_THAT(result.config, HasSubstr("type: fp16  # training.fp16"));
  EXPECT_THAT(result.config, HasSubstr("zero1: true  # deepspeed.zero_optimization.stage"));
  EXPECT_THAT(result.config, HasSubstr("clip_norm: 0.5"));
}

TEST(EadtConfig, HasNoValueThatTrainWouldNotTake) {
  const EadtTranslation result = translated(
      "training: {max_steps: -1, save_steps: 0.1, save_total_limit: 0, learning_rate: -1, seed: -3, adam_beta2: 1,\n"
      "  per_device_train_batch_size: auto, gradient_accumulation_steps: 0, max_seq_length: null, warmup_steps: x,\n"
      "  gradient_checkpointing: True, max_grad_norm: 0, output_dir: runs/a b}");
  for (const char* reason :
       {"training_config.yaml:1:23: training.max_steps: the epochs count there: set steps",
        "training.save_steps: checkpoint.every: expected a whole number from 1 to 1000000000, not \"0.1\"",
        "training.save_total_limit: checkpoint.keep: expected a whole number from 1",
        "training.learning_rate: optimizer.learning_rate: expected a number", "training.seed: seed: expected a whole",
        "training.adam_beta2: optimizer.beta2: expected a number from 0 to 0.999999, not \"1\"",
        "training.per_device_train_batch_size: the value of another key there: set microbatch_size",
        "training.gradient_accumulation_steps: microbatches: expected", "training.max_seq_length: no value, as if",
        "training.warmup_steps: optimizer.warmup_steps: expected"}) {
    EXPECT_THAT(result.reasons, Contains(HasSubstr(reason)));
  }
  EXPECT_EQ(result.reasons.size(), 10U);
  EXPECT_THAT(result.config, HasSubstr("recompute: true  # training.gradient_checkpointing\n"));
  EXPECT_THAT(result.config, HasSubstr("clip_norm: 0  # training.max_grad_norm\n"));
  EXPECT_THAT(result.config, HasSubstr("folder: \"runs/a b\"  # training.output_dir\n"));
  EXPECT_THAT(result.config, Not(HasSubstr("-1")));
  EXPECT_THAT(result.config, HasSubstr("# steps: to be set"));
}

/// What is left to do is done; then the job is read.
TEST(EadtConfig, BecomesAJobOnceItIsCompleted) {
  const std::string config = translated(
                                 "training: {per_device_train_batch_size: 2, max_steps: 10, bf16: true, seed: 7, "
                                 "max_seq_length: 64, output_dir: 'out: 1', save_steps: 5}")
                                 .config;
  const TrainConfig job =
      parse_train_config(config + "model: {vocabulary: 256, hidden: 8, layers: 2, heads: 2}\n", "train.yaml", "/d", {});
  EXPECT_EQ(job.steps, 10);
  EXPECT_EQ(job.microbatch_size, 2);
  EXPECT_TRUE(job.bf16);
  EXPECT_EQ(job.seed, 7U);
  EXPECT_EQ(job.sequence_length, 64);
  EXPECT_EQ(job.checkpoint, "/d/out: 1");
  EXPECT_EQ(job.checkpoint_every, 5);
  EXPECT_DOUBLE_EQ(job.optimizer.beta2, 0.999);
}

}  // namespace
}  // namespace lowgear::launcher
