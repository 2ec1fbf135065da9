#include "training/launcher/config/train_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSmallest =
    "model: {vocabulary: 256, hidden: 64, layers: 4, heads: 4}\n"
    "data: {synthetic_tokens: 1000, sequence_length: 32}\n"
    "steps: 10\n";

TrainConfig parse(const std::string& text, const std::vector<std::string>& settings = {}) {
  return parse_train_config(text, "train.yaml", "/jobs", settings);
}

/// The error that the smallest configuration causes with one more line, or settings.
std::string error_with(const std::string& line) {
  return error_of([&] { (void)parse(kSmallest + line + "\n"); });
}
std::string error_when(const std::vector<std::string>& settings) {
  return error_of([&] { (void)parse(kSmallest, settings); });
}

TEST(TrainConfig, HasDefaults) {
  const TrainConfig config = parse(kSmallest);
  EXPECT_EQ(config.steps, 10);
  EXPECT_EQ(config.model.kv_heads, 4);
  EXPECT_EQ(config.model.head_dim, 16);
  EXPECT_EQ(config.model.intermediate, 256);
  EXPECT_EQ(config.model.max_positions, 32);
  EXPECT_EQ(config.parallel.world_size(), 1);
  EXPECT_EQ(config.schedule, "1f1b");
  EXPECT_EQ(config.partition, "uniform");
  EXPECT_EQ(config.tokens_per_step(), 32);
  EXPECT_FALSE(config.bf16);
  EXPECT_EQ(config.optimizer.learning_rate, 3e-4);
  EXPECT_FALSE(config.checkpoint || config.metrics || config.plan || config.recording || config.profile);
}

TEST(TrainConfig, ReadsHowLayersMove) {
  EXPECT_FALSE(parse(kSmallest).adapt.repartition);
  EXPECT_TRUE(parse(kSmallest, {"adapt.repartition=auto"}).adapt.repartition->automatic);
  const TrainConfig listed =
      parse(kSmallest, {"adapt.repartition.schedule=[{step: 2, partition: cost}, {step: 5, partition: uniform}]"});
  ASSERT_EQ(listed.adapt.repartition->schedule.size(), 2U);
  EXPECT_FALSE(listed.adapt.repartition->automatic);
  EXPECT_EQ(listed.adapt.repartition->schedule[1].step, 5);
  EXPECT_EQ(listed.adapt.repartition->schedule[1].partition, "uniform");
  const TrainConfig planned =
      parse(kSmallest, {"adapt.repartition={profile: p.csv, blocking_power: 83.6, slowdown_pct: 2}"});
  EXPECT_TRUE(planned.adapt.repartition->automatic);
  EXPECT_EQ(planned.adapt.repartition->profile->file, "/jobs/p.csv");
  EXPECT_EQ(planned.adapt.repartition->profile->blocking_power, "83.6");
  EXPECT_EQ(planned.adapt.repartition->profile->slowdown_pct, 2);
  EXPECT_EQ(parse(kSmallest, {"adapt.repartition={profile: p.csv, blocking_power: b.csv}"})
                .adapt.repartition->profile->blocking_power,
            "/jobs/b.csv");
}

TEST(TrainConfig, RefusesToMoveLayersUnderWhatKnowsOnePartition) {
  const std::string moves = "adapt.repartition=auto";
  EXPECT_THAT(error_when({"adapt.repartition=sometimes"}), HasSubstr("unknown kind of repartition \"sometimes\""));
  EXPECT_THAT(error_when({"adapt.repartition={slowdown_pct: 1}"}), HasSubstr("either schedule or profile"));
  EXPECT_THAT(error_when({"adapt.repartition={profile: p.csv}"}), HasSubstr("blocking_power"));
  EXPECT_THAT(error_when({"adapt.repartition.schedule=[{step: 3, partition: cost}, {step: 3, partition: cost}]"}),
              HasSubstr("from 4"));
  EXPECT_THAT(error_when({moves, "energy.plan=p.json"}), HasSubstr("energy.plan is for one partition"));
  EXPECT_THAT(error_when({moves, "server.address=http://localhost:1"}), HasSubstr("server is for one partition"));
  const std::vector<std::string> plans = {moves, "adapt.techniques=[slowdown]",
                                          "adapt.slowdown={allowed_pct: 1, plans: [a.json, b.json]}"};
  EXPECT_THAT(error_when(plans), HasSubstr("adapt.slowdown.plans is for one partition"));
  const std::vector<std::string> both = {"adapt.repartition={profile: p.csv, blocking_power: 80}",
                                         "adapt.techniques=[slowdown]",
                                         "adapt.slowdown={allowed_pct: 1, clocks_mhz: [1400, 1200]}"};
  EXPECT_THAT(error_when(both), HasSubstr("slowdown sets clocks, too"));
}

TEST(TrainConfig, ReadsEverySection) {
  const TrainConfig config = parse(
      "model: {architecture: gpt2, vocabulary: 512, hidden: 32, layers: 8, heads: 2, max_positions: 64}\n"
      "partition: cost\n"
      "data: {tokens: tokens.bin, sequence_length: 48}\n"
      "parallel: {pp: 2, dp: 3, tp: 2, chunks: 2, gradient_bucket_mib: 4}\n"
      "schedule: interleaved\n"
      "microbatches: 4\n"
      "microbatch_size: 2\n"
      "type: bf16\n"
      "recompute: [attention, full]\n"
      "optimizer: {learning_rate: 1e-3, min_learning_rate: 1e-4, warmup_steps: 5, beta1: 0.8, beta2: 0.9,\n"
      "            epsilon: 1e-7, weight_decay: 0, clip_norm: 0, zero1: true}\n"
      "steps: 20\n"
      "seed: 7\n"
      "checkpoint: {folder: out, every: 5}\n"
      "metrics: /tmp/metrics.jsonl\n"
      "energy: {recording: rec, profile: {clocks_mhz: [1410, 1200], settle_iterations: 2, iterations: 8}}\n"
      "simulated_gpu: {layer_forward_s: 0.01, embedding_forward_s: 0.001, head_forward_s: 0.002,\n"
      "                backward_factor: 1.5, memory_share: 0.25, load: 0.5}\n");
  EXPECT_EQ(config.model.family, "gpt2");
  EXPECT_TRUE(config.model.tied_embeddings && config.model.qkv_biases && config.model.mlp_biases);
  EXPECT_THAT(config.tokens, ElementsAre("/jobs/tokens.bin"));
  EXPECT_FALSE(config.token_type);
  EXPECT_EQ(config.checkpoint, "/jobs/out");
  EXPECT_EQ(config.checkpoint_every, 5);
  EXPECT_EQ(config.metrics, "/tmp/metrics.jsonl");
  EXPECT_EQ(config.parallel.world_size(), 12);
  EXPECT_EQ(config.gradient_bucket_bytes, 4 << 20);
  EXPECT_EQ(config.tokens_per_step(), 4 * 2 * 48 * 3);
  EXPECT_TRUE(config.bf16 && config.optimizer.zero1);
  EXPECT_THAT(config.ranks_recompute, ElementsAre(Recompute::attention, Recompute::full));
  EXPECT_EQ(config.recompute_of(1), Recompute::full);
  EXPECT_EQ(config.optimizer.warmup_steps, 5);
  EXPECT_EQ(config.optimizer.clip_norm, 0);
  ASSERT_TRUE(config.profile);
  EXPECT_THAT(config.profile->clocks_mhz, ElementsAre(1410, 1200));
  EXPECT_EQ(config.profile->settle_iterations, 2);
  ASSERT_TRUE(config.simulated_gpu);
  EXPECT_EQ(config.simulated_gpu->backward_factor, 1.5);
  EXPECT_EQ(config.seed, 7);
}

TEST(TrainConfig, TakesTokensOfOneFileOrSeveral) {
  constexpr const char* kNoMadeUp = "data.synthetic_tokens=";
  EXPECT_THAT(parse(kSmallest, {kNoMadeUp, "data.tokens=a.bin"}).tokens, ElementsAre("/jobs/a.bin"));
  const TrainConfig config = parse(kSmallest, {kNoMadeUp, "data.tokens=[b.bin, /a.bin]", "data.token_type=uint32"});
  EXPECT_THAT(config.tokens, ElementsAre("/jobs/b.bin", "/a.bin"));
  EXPECT_EQ(config.token_type, dataset::TokenType::uint32);
  EXPECT_EQ(error_when({kNoMadeUp, "data.tokens=[]"}),
            "setting \"data.tokens=[]\": data.tokens: a text of 0 files; name 1 to 4096");
  EXPECT_THAT(error_when({kNoMadeUp, "data.tokens=[a.bin, {b: c}]"}), HasSubstr("data.tokens[1]: expected a text"));
  EXPECT_THAT(error_when({kNoMadeUp, "data.tokens=a.bin", "data.token_type=int16"}),
              HasSubstr("data.token_type: unknown type of tokens \"int16\"; there are uint16, uint32"));
  EXPECT_THAT(error_when({"data.token_type=uint16"}),
              HasSubstr("data.token_type: synthetic text has no file; leave it out"));
}

TEST(TrainConfig, NeedsTheMaskOfMaskedLanguageModelsAlone) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "config.json",
                        R"({"model_type": "bert", "vocab_size": 256, "hidden_size": 8, "intermediate_size": 12,
                            "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512})");
  const std::string model = fmt::format("model={{config: {}}}", (folder / "config.json").string());
  EXPECT_THAT(error_when({model}),
              HasSubstr("data: a masked language model needs the id of its mask; mask_token: 103"));
  EXPECT_THAT(error_when({model, "data.mask_token=256"}), HasSubstr("data.mask_token"));
  EXPECT_EQ(parse(kSmallest, {model, "data.mask_token=103"}).mask_token, 103);
  EXPECT_THAT(error_when({"data.mask_token=3"}), HasSubstr("data.mask_token: the model is no masked language model"));
}

TEST(TrainConfig, FindsAScheduleFileBesideTheConfiguration) {
  EXPECT_EQ(parse(kSmallest, {"schedule=mine.csv"}).schedule, "/jobs/mine.csv");
  EXPECT_EQ(parse(kSmallest, {"schedule=/other/mine.csv"}).schedule, "/other/mine.csv");
}

TEST(TrainConfig, SettingsCountMoreThanTheFile) {
  const TrainConfig config = parse(kSmallest, {"steps=3", "optimizer.learning_rate=0.5", "model.hidden=128"});
  EXPECT_EQ(config.steps, 3);
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
  EXPECT_EQ(config.model.head_dim, 32);
  EXPECT_EQ(error_when({"steps=0"}),
            "setting \"steps=0\": steps: expected a whole number from 1 to 1000000000, not \"0\"");
}

TEST(TrainConfig, NamesUnknownSettingsAndWhatMayBeMeant) {
  EXPECT_EQ(error_with("optimiser: {}"), "train.yaml:4:1: \"optimiser\" is not a setting; did you mean optimizer?");
  EXPECT_EQ(error_with("optimizer: {lerning_rate: 1}"),
            "train.yaml:4:13: optimizer: \"lerning_rate\" is not a setting; did you mean learning_rate?");
  EXPECT_EQ(error_with("parallel: {zz: 1}"),
            "train.yaml:4:12: parallel: \"zz\" is not a setting; there are pp, dp, tp, chunks, gradient_bucket_mib");
  EXPECT_THAT(error_when({"model.hiden=1"}), HasSubstr("model: \"hiden\" is not a setting; did you mean hidden?"));
  EXPECT_THAT(error_when({"data.token=x"}), HasSubstr("did you mean tokens?"));
  EXPECT_THAT(error_with("energy: {profil: {}}"), HasSubstr("did you mean profile?"));
  EXPECT_THAT(error_with("checkpoint: {foldr: x}"), HasSubstr("did you mean folder?"));
  EXPECT_THAT(error_with("simulated_gpu: {lod: 1}"), HasSubstr("did you mean load?"));
  EXPECT_THAT(error_with("energy: {profile: {clocks: [1]}}"), HasSubstr("energy.profile: \"clocks\" is not a setting"));
}

TEST(TrainConfig, NamesMissingSettings) {
  EXPECT_EQ(error_of([] { (void)parse("steps: 1\n"); }), "train.yaml:1:1: \"model\" is missing");
  EXPECT_EQ(error_when({"steps="}), "setting \"steps=\": steps: a value is missing");
  EXPECT_EQ(error_when({"model.layers="}), "setting \"model.layers=\": model.layers: a value is missing");
  EXPECT_EQ(error_with("checkpoint: {every: 3}"), "train.yaml:4:13: checkpoint: \"folder\" is missing");
  EXPECT_EQ(error_with("simulated_gpu: {load: 1}"), "train.yaml:4:16: simulated_gpu: \"layer_forward_s\" is missing");
  EXPECT_EQ(error_with("energy: {recording: r, profile: {iterations: 3}}"),
            "train.yaml:4:33: energy.profile: \"clocks_mhz\" is missing");
}

TEST(TrainConfig, ReadsWhatIsFrozen) {
  const auto parsed = [](const std::string& line) { return parse(std::string(kSmallest) + line + "\n").freeze; };
  EXPECT_EQ(parse(kSmallest).freeze.most_blocks(), 0);
  EXPECT_FALSE(parse(kSmallest).freeze.weight_gradient_budget);
  EXPECT_EQ(parsed("adapt: {freeze: {weight_gradients: {budget: 0.25}}}").weight_gradient_budget, 0.25);
  const FreezeConfig fixed = parsed("adapt: {freeze: {blocks: 1}}");
  EXPECT_EQ(fixed.blocks_at(0), 1);
  EXPECT_EQ(fixed.blocks_at(1000), 1);
  const FreezeConfig list = parsed("adapt: {freeze: {schedule: [{step: 2, blocks: 1}, {step: 5, blocks: 0}]}}");
  EXPECT_EQ(list.blocks_at(1), 0);
  EXPECT_EQ(list.blocks_at(2), 1);
  EXPECT_EQ(list.blocks_at(4), 1);
  EXPECT_EQ(list.blocks_at(5), 0);
  EXPECT_EQ(list.most_blocks(), 1);
}

TEST(TrainConfig, ReadsWhatDecidesWhatIsFrozen) {
  const TrainConfig config = parse(
      std::string(kSmallest) +
      "adapt:\n  freeze:\n    controller: {held_out: [a.bin, b.bin], window_steps: 20, cap: 0.5, loss_margin_pct: 1,\n"
      "                 log: freezing.jsonl}\n");
  ASSERT_TRUE(config.freeze.controller);
  const FreezeControllerConfig& controller = *config.freeze.controller;
  EXPECT_THAT(controller.held_out, ElementsAre("/jobs/a.bin", "/jobs/b.bin"));
  EXPECT_EQ(controller.window_steps, 20);
  EXPECT_EQ(controller.options.cap, 0.5);
  EXPECT_EQ(controller.options.loss_margin, 0.01);
  EXPECT_EQ(controller.options.dwell_windows, 5);
  EXPECT_EQ(controller.log, "/jobs/freezing.jsonl");
  EXPECT_EQ(config.freeze.most_blocks(), 2);
  EXPECT_TRUE(config.freeze.changes());
  EXPECT_THAT(error_with("adapt: {freeze: {controller: {cap: 0.5}}}"), HasSubstr("\"held_out\" is missing"));
  EXPECT_THAT(error_with("adapt: {freeze: {controller: {held_out: a, cap: 1}}}"),
              HasSubstr("adapt.freeze.controller.cap: expected a number from 0 to 0.99"));
  EXPECT_THAT(error_with("adapt: {freeze: {controller: {held_out: a, log: out/log}}}\nexport: out"),
              HasSubstr("adapt.freeze.controller.log, overlap"));
}

TEST(TrainConfig, ReadsWhenItIsEvaluated) {
  EXPECT_FALSE(parse(kSmallest).evaluation);
  const EvaluationConfig at_end = parse(std::string(kSmallest) + "evaluation: {held_out: a.bin}").evaluation.value();
  EXPECT_THAT(at_end.held_out, ElementsAre("/jobs/a.bin"));
  EXPECT_FALSE(at_end.is_due(9, 10));
  EXPECT_TRUE(at_end.is_due(10, 10));
  const EvaluationConfig often =
      parse(std::string(kSmallest) + "evaluation: {held_out: [a.bin, /b.bin], every: 4}").evaluation.value();
  EXPECT_THAT(often.held_out, ElementsAre("/jobs/a.bin", "/b.bin"));
  EXPECT_TRUE(often.is_due(4, 10));
  EXPECT_FALSE(often.is_due(5, 10));
  EXPECT_TRUE(often.is_due(10, 10));
  EXPECT_EQ(often.batches, 1);
  EXPECT_EQ(parse(std::string(kSmallest) + "evaluation: {held_out: a.bin, batches: 3}").evaluation->batches, 3);
  EXPECT_THAT(error_with("evaluation: {held_out: a.bin, batches: 0}"), HasSubstr("evaluation.batches"));
  EXPECT_THAT(error_with("evaluation: {every: 4}"), HasSubstr("\"held_out\" is missing"));
  EXPECT_THAT(error_with("evaluation: {held_out: a.bin, every: 0}"), HasSubstr("evaluation.every"));
}

TEST(TrainConfig, ReadsWhatMayChangeWhileItTrains) {
  const std::string policy = std::string(kSmallest) +
                             "adapt:\n  slowdown: {allowed_pct: 2, clocks_mhz: [1410, 1200]}\n"
                             "  freeze: {controller: {held_out: a.bin}}\n  trial: {block_s: 5, max_iterations: 40}\n"
                             "  placebo: true\n  log: adapt.jsonl\n";
  EXPECT_FALSE(parse(policy).adapt.is_on()) << "a policy without a technique";
  const AdaptConfig both = parse(policy, {"adapt.techniques=[freezing,slowdown]"}).adapt;
  EXPECT_TRUE(both.freezing && both.placebo);
  ASSERT_TRUE(both.slowdown);
  EXPECT_THAT(both.slowdown->names(), ElementsAre("1410 MHz", "1200 MHz"));
  EXPECT_EQ(both.trial.allowed_slowdown_pct, 2);
  EXPECT_EQ(both.trial.block_s, 5);
  EXPECT_EQ(both.trial.max_iterations, 40);
  EXPECT_EQ(both.log, "/jobs/adapt.jsonl");
  const TrainConfig plans = parse(
      kSmallest, {"adapt.slowdown={allowed_pct: 1, plans: [p/0.json, /q/7.json]}", "adapt.techniques=[slowdown]"});
  EXPECT_THAT(plans.adapt.slowdown->plans, ElementsAre("/jobs/p/0.json", "/q/7.json"));
  EXPECT_THAT(plans.adapt.slowdown->names(), ElementsAre("0.json", "7.json"));
  const TrainConfig limits = parse(
      kSmallest, {"adapt.slowdown={allowed_pct: 1, power_limits_w: [700, 612.5]}", "adapt.techniques=[slowdown]"});
  EXPECT_THAT(limits.adapt.slowdown->power_limits_w, ElementsAre(700, 612.5));
  EXPECT_THAT(limits.adapt.slowdown->names(), ElementsAre("700 W", "612.5 W"));
}

TEST(TrainConfig, HasProductsInFp8) {
  const TrainConfig config = parse(kSmallest, {"type=fp8", "device=cuda", "fp8={keep_first: 0, keep_last: 2}"});
  ASSERT_TRUE(config.fp8);
  EXPECT_TRUE(config.bf16) << "all else is in bf16";
  EXPECT_EQ(config.fp8->keep_first, 0);
  EXPECT_EQ(config.fp8->keep_last, 2);
  EXPECT_FALSE(config.fp8->bf16_weight_gradients);
  EXPECT_FALSE(config.fp8->probe);
  EXPECT_FALSE(parse(kSmallest, {"type=bf16"}).fp8);
  EXPECT_TRUE(parse(kSmallest, {"type=fp8", "device=cuda", "fp8={weight_gradients: bf16}"}).fp8->bf16_weight_gradients);
  const TrainConfig emulated = parse(kSmallest, {"type=auto", "fp8={emulate: true, probe: {pairs: 3, block_s: 2}}"});
  ASSERT_TRUE(emulated.fp8 && emulated.fp8->probe);
  EXPECT_EQ(emulated.fp8->keep_first, 1);
  EXPECT_EQ(emulated.fp8->keep_last, 1);
  EXPECT_EQ(emulated.fp8->probe->pairs, 3);
  EXPECT_EQ(emulated.fp8->probe->block_s, 2);
  EXPECT_EQ(emulated.fp8->probe->loss_margin_pct, 0.5);
}

TEST(TrainConfig, RefusesFp8WhereItCannotBe) {
  EXPECT_THAT(error_with("type: fp8"), AllOf(StartsWith("train.yaml:4:7: type: "), HasSubstr("CPUs have no fp8")));
  EXPECT_THAT(error_with("fp8: {emulate: true}"), HasSubstr("there are no products in fp8; set type: fp8"));
  EXPECT_THAT(error_with("type: fp8\nfp8: {probe: {pairs: 3}}"), HasSubstr("the type is given; set type: auto"));
  EXPECT_THAT(error_when({"type=fp8", "device=cuda", "fp8={emulate: true}"}), HasSubstr("GPUs compute in fp8"));
  EXPECT_THAT(error_when({"type=fp8", "device=cuda", "fp8={keep_first: 2, keep_last: 2}"}),
              HasSubstr("no block is left for fp8: of 4, the first 2 and the last 2 stay in bf16"));
  const auto with = [](const std::string& setting) { return error_when({"type=fp8", "device=cuda", setting}); };
  EXPECT_THAT(with("fp8={weight_gradients: fp16}"), HasSubstr("unknown type \"fp16\"; there are fp8, bf16"));
  EXPECT_THAT(with("model.hidden=72"), HasSubstr("model.hidden is 72, and fp8 needs multiples of 16"));
  EXPECT_THAT(with("model.intermediate=100"), HasSubstr("model.intermediate / parallel.tp is 100"));
  EXPECT_THAT(with("data.sequence_length=24"), HasSubstr("microbatch_size x data.sequence_length is 24"));
  EXPECT_THAT(error_when({"type=fp8", "device=cuda", "model.intermediate=96", "parallel.tp=4"}),
              HasSubstr("model.intermediate / parallel.tp is 24"));
  EXPECT_EQ(error_when({"type=fp8", "device=cuda", "data.sequence_length=24", "microbatch_size=2"}), "no error");
  EXPECT_THAT(error_with("type: auto\ndevice: cuda\nenergy: {plan: p.json}"),
              HasSubstr("energy.plan needs to know the type before the run; set type: bf16 or fp8"));
}

TEST(TrainConfig, RefusesWhatIsNoServersAddress) {
  EXPECT_EQ(parse(kSmallest, {"server.address=\"http://a:1,unix:/run/b.sock\""}).server->address,
            "http://a:1,unix:/run/b.sock");
  EXPECT_THAT(error_with("server: {address: \"file:///etc/passwd\"}"),
              HasSubstr("server.address: \"file:///etc/passwd\": this is not the address of a server; write http://"));
  for (const char* address : {"ftp://host", "host:7787", "http://", "http://host:0", "unix:relative"}) {
    EXPECT_THAT(error_when({fmt::format("server.address=\"{}\"", address)}), HasSubstr("server.address: ")) << address;
  }
}

TEST(TrainConfig, RefusesTechniquesThatCannotBe) {
  const auto refusal = [](const std::string& technique, const std::string& more = "") {
    return error_with("adapt: {techniques: [" + technique + "]" + more + "}");
  };
  EXPECT_THAT(refusal("precision"), HasSubstr("set type: auto, which tries bf16 and fp8"));
  EXPECT_THAT(refusal("sharing"), HasSubstr("unknown technique \"sharing\"; there are freezing, slowdown"));
  EXPECT_THAT(refusal("freezing"), HasSubstr("add adapt.freeze.controller"));
  EXPECT_THAT(refusal("freezing", ", freeze: {controller: {held_out: a, log: b}}"), HasSubstr("adapt.log has"));
  EXPECT_THAT(refusal("slowdown", ", freeze: {controller: {held_out: a, log: b}}"), HasSubstr("adapt.log has"));
  EXPECT_THAT(refusal("freezing", ", freeze: {controller: {held_out: a, window_steps: 1}}"),
              HasSubstr("no step would count"));
  EXPECT_THAT(refusal("slowdown"), HasSubstr("there are no operating points"));
  EXPECT_THAT(refusal("slowdown", ", slowdown: {clocks_mhz: [1, 2]}"), HasSubstr("\"allowed_pct\" is missing"));
  EXPECT_THAT(refusal("slowdown", ", slowdown: {allowed_pct: 1}"),
              HasSubstr("give one of clocks_mhz, plans, power_limits_w"));
  EXPECT_THAT(refusal("slowdown", ", slowdown: {allowed_pct: 1, clocks_mhz: [2, 1], power_limits_w: [700, 600]}"),
              HasSubstr("give one of"));
  EXPECT_THAT(refusal("slowdown", ", slowdown: {allowed_pct: 1, clocks_mhz: [1410]}"), HasSubstr("1 points; name 2"));
  const std::string policy = ", slowdown: {allowed_pct: 1, clocks_mhz: [1410, 1200]}";
  EXPECT_THAT(error_with("adapt: {techniques: [slowdown]" + policy + "}\nenergy: {plan: p.json}"),
              HasSubstr("energy.plan sets clocks, too; leave out energy.plan, or the technique slowdown"));
  EXPECT_THAT(error_with("adapt: {techniques: [slowdown]" + policy + "}\nserver: {address: \"unix:/s\"}"),
              HasSubstr("server sets clocks, too"));
  EXPECT_THAT(error_with("adapt: {techniques: [slowdown], log: out/log" + policy + "}\nexport: out"),
              HasSubstr("adapt.log, overlap"));
}

TEST(TrainConfig, RefusesToFreezeEverythingOrInNoOrder) {
  EXPECT_EQ(error_with("adapt: {freeze: {blocks: 4}}"),
            "train.yaml:4:26: adapt.freeze.blocks: expected a whole number from 0 to 3, not \"4\"");
  EXPECT_THAT(error_with("adapt: {freeze: {schedule: [{step: 3, blocks: 1}, {step: 3, blocks: 0}]}}"),
              HasSubstr("adapt.freeze.schedule[1].step: expected a whole number from 4"));
  EXPECT_THAT(error_with("adapt: {freeze: {blocks: 1, schedule: []}}"),
              HasSubstr("give one of blocks, schedule, controller, weight_gradients"));
  EXPECT_THAT(error_with("adapt: {freeze: {blocks: 1, weight_gradients: {budget: 0.1}}}"),
              HasSubstr("give one of blocks, schedule, controller, weight_gradients"));
  EXPECT_THAT(error_with("adapt: {freeze: {weight_gradients: {budget: 0.95}}}"),
              HasSubstr("adapt.freeze.weight_gradients.budget: expected a number from 0 to 0.9"));
  EXPECT_THAT(error_with("adapt: {freeze: {weight_gradients: {budgets: 0.1}}}"), HasSubstr("budget"));
  EXPECT_THAT(error_with("adapt: {freeze: {weight_gradients: {}}}"), HasSubstr("\"budget\" is missing"));
}

struct OutOfRange {
  const char* line;
  const char* error;
};

class TrainConfigRange : public testing::TestWithParam<OutOfRange> {};

TEST_P(TrainConfigRange, IsToldWithItsPlace) { EXPECT_EQ(error_with(GetParam().line), GetParam().error); }

INSTANTIATE_TEST_SUITE_P(
    Settings, TrainConfigRange,
    testing::Values(
        OutOfRange{"parallel: {pp: 0}",
                   "train.yaml:4:16: parallel.pp: expected a whole number from 1 to 65536, not \"0\""},
        OutOfRange{"parallel: {dp: two}",
                   "train.yaml:4:16: parallel.dp: expected a whole number from 1 to 65536, not \"two\""},
        OutOfRange{"parallel: {tp: 1.5}",
                   "train.yaml:4:16: parallel.tp: expected a whole number from 1 to 65536, not \"1.5\""},
        OutOfRange{
            "parallel: {gradient_bucket_mib: 0}",
            "train.yaml:4:33: parallel.gradient_bucket_mib: expected a whole number from 1 to 1048576, not \"0\""},
        OutOfRange{"parallel: [2, 1]", "train.yaml:4:11: parallel: expected a map, not a list"},
        OutOfRange{"microbatches: 0",
                   "train.yaml:4:15: microbatches: expected a whole number from 1 to 1000000, not \"0\""},
        OutOfRange{"microbatch_size: -1",
                   "train.yaml:4:18: microbatch_size: expected a whole number from 1 to 1000000, not \"-1\""},
        OutOfRange{"seed: -1", "train.yaml:4:7: seed: expected a whole number from 0 to 4503599627370496, not \"-1\""},
        OutOfRange{"type: int8", "train.yaml:4:7: type: unknown type \"int8\"; there are fp32, bf16, fp16, fp8, auto"},
        OutOfRange{"fp16: {loss_scale: 8}", "train.yaml:4:7: fp16: there is no loss to scale; set type: fp16"},
        OutOfRange{"type: fp16\nfp16: {loss_scale: 1000}",
                   "train.yaml:5:20: fp16.loss_scale: 1000 is no power of two; set 65536"},
        OutOfRange{"type: fp16\nfp16: {loss_scale: 0.5}",
                   "train.yaml:5:20: fp16.loss_scale: expected a number from 1 to 4294967296, not \"0.5\""},
        OutOfRange{
            "recompute: [none, full]",
            "train.yaml:4:12: recompute: 2 words for 1 pipeline ranks; give one of none, attention, full for each"},
        OutOfRange{"recompute: [some]",
                   "train.yaml:4:13: recompute[0]: expected none, attention, full, true or false, not \"some\""},
        OutOfRange{"device: gpu", "train.yaml:4:9: device: unknown device \"gpu\"; there are cpu, cuda"},
        OutOfRange{"recompute: 1",
                   "train.yaml:4:12: recompute: expected none, attention, full, true or false, not \"1\""},
        OutOfRange{"optimizer: {learning_rate: nan}",
                   "train.yaml:4:28: optimizer.learning_rate: expected a number from 0 to 1000, not \"nan\""},
        OutOfRange{"optimizer: {beta1: 1}",
                   "train.yaml:4:20: optimizer.beta1: expected a number from 0 to 0.999999, not \"1\""},
        OutOfRange{"optimizer: {epsilon: 0}",
                   "train.yaml:4:22: optimizer.epsilon: expected a number from 1e-30 to 1, not \"0\""},
        OutOfRange{
            "optimizer: {warmup_steps: 11}",
            "train.yaml:4:27: optimizer.warmup_steps: 11 steps of warm-up do not fit into the 10 steps of the job; "
            "add --set optimizer.warmup_steps=0"},
        OutOfRange{"optimizer: {min_learning_rate: 0.5}",
                   "train.yaml:4:32: optimizer.min_learning_rate: expected a number from 0 to 0.0003, not \"0.5\""},
        OutOfRange{"checkpoint: {folder: out, every: 0}",
                   "train.yaml:4:34: checkpoint.every: expected a whole number from 1 to 1000000000, not \"0\""},
        OutOfRange{"checkpoint: out", "train.yaml:4:13: checkpoint: expected a map, not \"out\""},
        OutOfRange{"simulated_gpu: {layer_forward_s: 0}",
                   "train.yaml:4:34: simulated_gpu.layer_forward_s: expected a number from 1e-06 to 3600, not \"0\""},
        OutOfRange{"simulated_gpu: {layer_forward_s: 1, load: 1.1}",
                   "train.yaml:4:43: simulated_gpu.load: expected a number from 0 to 1, not \"1.1\""},
        OutOfRange{
            "energy: {recording: r, profile: {clocks_mhz: [1410, fast]}}",
            "train.yaml:4:53: energy.profile.clocks_mhz[1]: expected a whole number from 1 to 100000, not \"fast\""},
        OutOfRange{"metrics: [a]", "train.yaml:4:10: metrics: expected a text, not a list"},
        OutOfRange{"metrics: ''", "train.yaml:4:10: metrics: expected a text, not \"\""}));

TEST(TrainConfig, RefusesModelsThatCannotBe) {
  EXPECT_EQ(error_when({"model.heads=5"}),
            "setting \"model.heads=5\": model.heads: 5 heads do not divide a hidden size of 64 into even parts");
  EXPECT_THAT(error_when({"model.heads=64"}), HasSubstr("64 heads do not divide a hidden size of 64 into even parts"));
  EXPECT_EQ(
      error_when({"model.kv_heads=3"}),
      "setting \"model.kv_heads=3\": model.kv_heads: 3 heads of keys do not divide 4 heads; give a divisor of the "
      "number of heads");
  EXPECT_THAT(error_when({"model.kv_heads=8"}), HasSubstr("expected a whole number from 1 to 4"));
  EXPECT_THAT(error_when({"model.architecture=bert"}),
              HasSubstr("unknown architecture \"bert\"; there are llama, gpt2"));
  EXPECT_THAT(error_when({"model.layers=1000000"}), HasSubstr("expected a whole number from 1 to 1024"));
  EXPECT_THAT(error_when({"model.vocabulary=99999999999"}), HasSubstr("model.vocabulary: expected a whole number"));
  EXPECT_THAT(error_when({"model.architecture=gpt2", "model.kv_heads=2"}), HasSubstr("GPT-2 has none; leave it out"));
}

TEST(TrainConfig, ReadsClocksOfSteps) {
  const TrainConfig config =
      parse(kSmallest, {"data.document_end=10", "energy.steps={profile: p.csv, clocks_per: replica}"});
  EXPECT_EQ(config.document_end, 10);
  ASSERT_TRUE(config.step_clocks);
  EXPECT_EQ(config.step_clocks->profile, "/jobs/p.csv");
  EXPECT_EQ(config.step_clocks->work, "/jobs/p.csv.work.json");
  EXPECT_EQ(config.step_clocks->clocks_per, steps::ClocksPer::replica);
  EXPECT_EQ(config.rows(), 1);
  EXPECT_THAT(error_when({"data.document_end=256"}), HasSubstr("from 0 to 255"));
  EXPECT_THAT(error_with("energy: {steps: {profile: p.csv, clocks_per: rank}}"), HasSubstr("expected unit or replica"));
  EXPECT_THAT(error_with("energy: {plan: p.json, steps: {profile: p.csv}}"),
              HasSubstr("energy.plan sets clocks or changes units, too; leave out energy.plan, or this"));
  EXPECT_THAT(error_with("energy: {steps: {profile: p.csv}}\nadapt: {freeze: {blocks: 1}}"), HasSubstr("adapt.freeze"));
  for (const char* const clocks : {"{steps: {profile: p.csv}}", "{policy: envpipe}"}) {
    EXPECT_THAT(error_with(fmt::format("energy: {}\nadapt: {{freeze: {{weight_gradients: {{budget: 0.5}}}}}}", clocks)),
                HasSubstr("adapt.freeze.weight_gradients sets clocks or changes units, too"));
  }
}

TEST(TrainConfig, RefusesContradictions) {
  EXPECT_EQ(error_when({"data.sequence_length=33", "model.max_positions=32"}),
            "setting \"data.sequence_length=33\": data.sequence_length: the model has 32 positions");
  EXPECT_EQ(
      error_when({"data.tokens=x.bin"}),
      "train.yaml:2:7: data: give either tokens or synthetic_tokens; tokens: FILE.bin, or synthetic_tokens: 1000000");
  EXPECT_THAT(error_when({"data.synthetic_tokens="}), HasSubstr("give either tokens or synthetic_tokens"));
  EXPECT_EQ(error_with("parallel: {pp: 5}"), "train.yaml:4:11: parallel: 5 stages are more than the model's 4 layers");
  EXPECT_EQ(error_with("parallel: {pp: 2, chunks: 3}"),
            "train.yaml:4:11: parallel: 6 stages are more than the model's 4 layers");
  EXPECT_EQ(error_with("parallel: {dp: 65536, tp: 2}"), "train.yaml:4:11: parallel: more than 65536 ranks");
  EXPECT_EQ(error_with("energy: {plan: p.json, recording: r, profile: {clocks_mhz: [1]}}"),
            "train.yaml:4:16: energy.plan: a run that profiles sets clocks itself; leave out plan or profile");
  EXPECT_EQ(error_with("energy: {profile: {clocks_mhz: [1]}}"),
            "train.yaml:4:9: energy: a run that profiles needs a recording; add recording: FOLDER");
  EXPECT_THAT(error_with("energy: {recording: r, profile: {clocks_mhz: []}}"), HasSubstr("name at least one clock"));
  EXPECT_EQ(error_with("energy: {recording: r, profile: {clocks_mhz: [2, 1]}}"),
            "train.yaml:4:33: energy.profile: 2 clocks take 12 steps, and there are 10; steps: 12");
}

TEST(TrainConfig, RefusesAnExportOverWhatElseTheRunWritesOrReads) {
  EXPECT_EQ(error_when({"export=out", "checkpoint.folder=out/ckpt"}),
            "setting \"export=out\": export: /jobs/out and /jobs/out/ckpt, which is checkpoint.folder, overlap; name a "
            "folder for the export alone");
  EXPECT_THAT(error_when({"export=out/", "checkpoint.folder=./out"}), HasSubstr("which is checkpoint.folder, overlap"));
  EXPECT_THAT(error_when({"export=ckpt/out", "checkpoint.folder=a/../ckpt"}), HasSubstr("which is checkpoint.folder"));
  EXPECT_THAT(error_when({"export=out", "metrics=out/metrics.jsonl"}), HasSubstr("which is metrics, overlap"));
  EXPECT_THAT(error_when({"export=out", "energy.recording=/jobs/out"}), HasSubstr("which is energy.recording"));
  EXPECT_THAT(error_when({"export=out", "model.weights=out/model.safetensors"}), HasSubstr("which is model.weights"));
  const TrainConfig config =
      parse(kSmallest, {"export=out", "checkpoint.folder=out2", "metrics=out.jsonl", "energy.recording=rec/out"});
  EXPECT_EQ(config.export_folder, "/jobs/out");
}

TEST(TrainConfig, RefusesAnExportThatALinkLeadsBackTo) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "ckpt");
  std::filesystem::create_directory_symlink(folder / "ckpt", folder / "link");
  EXPECT_THAT(
      error_when({"export=" + (folder / "link/out").string(), "checkpoint.folder=" + (folder / "ckpt").string()}),
      HasSubstr("which is checkpoint.folder, overlap"));
}

TEST(TrainConfig, RefusesAStepThatNoCounterHolds) {
  EXPECT_THAT(error_when({"microbatches=1000000", "microbatch_size=1000000", "parallel.dp=65536"}),
              HasSubstr("a step has more than 1e12 tokens"));
}

TEST(TrainConfig, ReadsAModelOfHuggingFace) {
  const TemporaryFolder folder;
  std::ofstream(folder / "config.json")
      << R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 64,
             "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
             "max_position_embeddings": 40, "hidden_act": "silu"})";
  const std::string rest = "data: {synthetic_tokens: 1000, sequence_length: 32}\nsteps: 10\n";
  const auto read = [&](const std::string& model) {
    return parse_train_config("model: " + model + "\n" + rest, "train.yaml", folder.path());
  };
  const TrainConfig config = read("{config: config.json, weights: model.safetensors}");
  EXPECT_EQ(config.model.vocabulary, 300);
  EXPECT_EQ(config.model.kv_heads, 2);
  EXPECT_EQ(config.weights, folder / "model.safetensors");
  EXPECT_EQ(error_of([&] { (void)read("{config: config.json, hidden: 8}"); }),
            "train.yaml:1:30: model: \"hidden\" is not a setting; there are config, weights");
  EXPECT_THAT(error_of([&] { (void)read("{config: absent.json}"); }), HasSubstr("absent.json"));
  std::ofstream(folder / "config.json") << "{";
  EXPECT_THAT(error_of([&] { (void)read("{config: config.json}"); }), HasSubstr("config.json:1:"));
}

TEST(TrainConfig, AFileThatIsMissingIsNamed) {
  EXPECT_THAT(error_of([] { (void)read_train_config("/nonexistent/train.yaml"); }),
              StartsWith("/nonexistent/train.yaml"));
}

TEST(TrainConfig, SaysWhichStepsAreRecorded) {
  const auto with = [](const std::string& line) { return parse(kSmallest + line + "\n"); };
  EXPECT_FALSE(with("energy: {recording: r}").recorded_steps);
  const RecordedSteps some =
      with("energy: {recording: r, recorded_steps: {first: 5, count: 3}}").recorded_steps.value();
  EXPECT_EQ(some.first, 5);
  EXPECT_EQ(some.count, 3);
  EXPECT_EQ(with("energy: {recording: r, recorded_steps: {}}").recorded_steps.value().count, 1);
  EXPECT_THAT(error_with("energy: {recording: r, recorded_steps: {first: 10}}"),
              HasSubstr("energy.recorded_steps.first: expected a whole number from 0 to 9"));
  EXPECT_THAT(error_with("energy: {recording: r, recorded_steps: {count: 0}}"), HasSubstr("recorded_steps.count"));
  EXPECT_THAT(error_with("energy: {recorded_steps: {count: 3}}"), HasSubstr("there is no recording"));
  EXPECT_THAT(error_with("energy: {recording: r, recorded_steps: {}, profile: {clocks_mhz: [1], iterations: 2}}"),
              HasSubstr("records all its steps"));
}

}  // namespace
}  // namespace lowgear::launcher
