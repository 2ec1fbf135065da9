#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/core/error_of.h"
#include "estimating/model/config_json.h"

namespace lowgear::model {
namespace {

ModelConfig parse_config(std::string_view json) { return parse_model_config(json, "config.json"); }

std::string config_error_of(std::string_view json) {
  return lowgear::error_of([&] { (void)parse_config(json); });
}

TEST(ParseModelConfig, SaysWhereWhatIsWrong) {
  EXPECT_THAT(config_error_of("{"), testing::StartsWith("config.json:1:2: "));
  EXPECT_THAT(config_error_of("[]"), testing::StartsWith("config.json: $"));
  EXPECT_EQ(config_error_of(R"({"model_type": "lama"})"),
            "config.json:1:2: $.model_type: \"lama\" is not supported; there are bert, bloom, gpt2, gpt_neox, llama, "
            "mistral, mixtral, opt, phi3, qwen2, qwen2_moe, qwen3, qwen3_moe, t5; for estimates of other decoders "
            "write a config.json of "
            "llama (gated MLPs) or gpt2 (plain ones) with the same sizes");
  EXPECT_THAT(config_error_of(R"({"model_type": "mistral3", "text_config": {"model_type": "mistral"}})"),
              testing::EndsWith("it has several parts, and text_config describes its language model: write that object "
                                "to a file of its own"));
  EXPECT_THAT(config_error_of(R"({"model_type": "mamba"})"), testing::HasSubstr("there are bert, bloom, gpt2"));
  EXPECT_THAT(config_error_of(R"({"model_type": "llama"})"), testing::HasSubstr("vocab_size"));
  EXPECT_EQ(config_error_of(R"({"model_type": "llama", "vocab_size": 0})"),
            "config.json:1:25: $.vocab_size: 0 is not from 1 to 16777216");
  EXPECT_THAT(config_error_of(R"({"model_type": "llama", "vocab_size": "many"})"), testing::HasSubstr("$.vocab_size"));
  EXPECT_THAT(config_error_of(R"({"model_type": "gpt2", "vocab_size": 9, "n_embd": 10, "n_layer": 1, "n_head": 3,
    "n_positions": 9})"),
              testing::HasSubstr("$.n_head: 3 heads do not divide the width of 10"));
  EXPECT_THAT(config_error_of(R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 64, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 3, "max_position_embeddings": 9})"),
              testing::HasSubstr("$.num_key_value_heads: 3 heads of keys do not divide 8 heads"));
}

TEST(ParseModelConfig, ReadsEachBiasByItself) {
  const auto llama_with = [](const std::string& more) {
    return parse_config(R"({"model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512)" +
                        more + "}");
  };
  const std::int64_t none = parameter_count(llama_with(""));
  constexpr std::int64_t kAttention = 64 + 2 * 32 + 64;  // queries, keys and values, output
  constexpr std::int64_t kMlp = 2 * 96 + 64;
  EXPECT_EQ(parameter_count(llama_with(R"(, "attention_bias": true)")), none + 4 * kAttention);
  EXPECT_EQ(parameter_count(llama_with(R"(, "mlp_bias": true)")), none + 4 * kMlp);
  EXPECT_EQ(parameter_count(llama_with(R"(, "attention_bias": true, "mlp_bias": true)")),
            none + 4 * (kAttention + kMlp));
}

TEST(ParseModelConfig, ReadsPhi3AsLayersOfLlama) {
  const std::string sizes = R"("vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "max_position_embeddings": 512, "original_max_position_embeddings": 256,)";
  ModelConfig phi = parse_config(R"({"model_type": "phi3", "attention_bias": false, )" + sizes + R"("rope_scaling":
    {"type": "longrope", "short_factor": [1], "long_factor": [4]}})");
  EXPECT_TRUE(estimable(phi));
  EXPECT_THAT(phi.notes, testing::IsEmpty());
  EXPECT_THAT(trainable(phi).problem, testing::HasSubstr("RoPE type \"longrope\" is not supported in training"));
  EXPECT_EQ(phi.kv_heads, 4) << "of all heads, where none are given";
  const ModelConfig llama = parse_config(R"({"model_type": "llama", )" + sizes + R"("rope_theta": 1e4})");
  EXPECT_EQ(parameter_count(phi), parameter_count(llama));
  EXPECT_EQ(training_flops_per_token(phi, 512), training_flops_per_token(llama, 512));
}

/// A model of six layers whose members are `more`, and which of its layers are windowed, as in `..ww..`.
std::string windows_of(const std::string& type, const std::string& more) {
  const ModelConfig config =
      parse_config(R"({"model_type": ")" + type + R"(", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
      "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32, ")" +
                   (type == "mixtral" ? "num_local_experts" : "num_experts") + R"(": 8)" + more + "}");
  std::string text = config.window == 0 ? "" : std::to_string(config.window) + " ";
  for (const bool windowed : config.windowed) text += windowed ? 'w' : '.';
  return text;
}

TEST(ParseModelConfig, ReadsWindowsOfAttentionByTheRuleOfTheFamily) {
  EXPECT_EQ(windows_of("mistral", R"(, "sliding_window": 128)"), "128 wwwwww");
  EXPECT_EQ(windows_of("mistral", ""), "4096 wwwwww") << "what transformers takes";
  EXPECT_EQ(windows_of("mistral", R"(, "sliding_window": null)"), "");
  EXPECT_EQ(windows_of("mixtral", ""), "");
  EXPECT_EQ(windows_of("mixtral", R"(, "sliding_window": 128)"), "128 wwwwww");
  EXPECT_EQ(windows_of("phi3", ""), "");
  EXPECT_EQ(windows_of("phi3", R"(, "sliding_window": 128)"), "128 wwwwww");
  const std::string used = R"(, "sliding_window": 128, "use_sliding_window": true)";
  for (const char* const type : {"qwen2", "qwen2_moe", "qwen3", "qwen3_moe"}) {
    EXPECT_EQ(windows_of(type, R"(, "sliding_window": 128, "max_window_layers": 0)"), "") << "is not used";
    EXPECT_EQ(windows_of(type, R"(, "use_sliding_window": true, "sliding_window": null)"), "");
    EXPECT_EQ(windows_of(type, used + R"(, "layer_types": ["full_attention", "sliding_attention", "full_attention",
      "full_attention", "full_attention", "sliding_attention"])"),
              type == std::string_view("qwen3_moe") ? "128 wwwwww" : "128 .w...w");
  }
  for (const char* const type : {"qwen2", "qwen3"}) {
    EXPECT_EQ(windows_of(type, used + R"(, "max_window_layers": 4)"), "128 ....ww");
    EXPECT_EQ(windows_of(type, used + R"(, "max_window_layers": 28)"), "");
  }
  EXPECT_EQ(windows_of("qwen2", used), "") << "28 layers are full";
  EXPECT_EQ(windows_of("qwen3_moe", used), "128 wwwwww");
  EXPECT_EQ(windows_of("qwen3_moe", used + R"(, "max_window_layers": 4)"), "128 wwwwww")
      << "it does not have the member";
  EXPECT_EQ(windows_of("qwen2_moe", used + R"(, "max_window_layers": 4)"), "128 w.w...") << "every other of the first";
}

TEST(ParseModelConfig, RefusesLayersThatItDoesNotKnow) {
  const auto error_of_types = [](const std::string& types) {
    return lowgear::error_of(
        [&] { (void)windows_of("qwen2", R"(, "use_sliding_window": true, "layer_types": )" + types); });
  };
  EXPECT_THAT(error_of_types(R"(["full_attention"])"),
              testing::HasSubstr("$.layer_types: has 1 elements for 6 layers"));
  EXPECT_THAT(error_of_types(R"(["linear_attention"])"),
              testing::HasSubstr("\"linear_attention\" is not supported, only full_attention and sliding_attention"));
  EXPECT_THAT(error_of_types("3"), testing::HasSubstr("$.layer_types: expected"));
  EXPECT_THAT(lowgear::error_of([] {
                (void)windows_of("qwen3", R"(, "layer_types": ["full_attention", "sliding_attention", "full_attention",
                  "full_attention", "full_attention", "full_attention"])");
              }),
              testing::HasSubstr("layers of sliding_attention need a sliding_window, and there is none"));
}

TEST(ParseModelConfig, ReadsDenseLayersAmongThoseWithExperts) {
  const auto dense_of = [](const std::string& more) {
    const ModelConfig config = parse_config(
        R"({"model_type": "qwen3_moe", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96,
      "num_hidden_layers": 6, "num_attention_heads": 4, "max_position_embeddings": 512, "num_experts": 8,
      "num_experts_per_tok": 2, "moe_intermediate_size": 32)" +
        more + "}");
    std::string text;
    for (std::int64_t layer = 0; layer < config.layers; ++layer) text += has_experts(config, layer) ? 'e' : '.';
    return text;
  };
  EXPECT_EQ(dense_of(""), "eeeeee");
  EXPECT_EQ(dense_of(R"(, "decoder_sparse_step": 2)"), ".e.e.e") << "as transformers counts them";
  EXPECT_EQ(dense_of(R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3])"), ".e...e");
  EXPECT_THAT(lowgear::error_of([&] { (void)dense_of(R"(, "mlp_only_layers": [6])"); }),
              testing::HasSubstr("$.mlp_only_layers: there is no layer 6 among 6"));
}

TEST(ParseModelConfig, NamesTheLanguageModelOfSeveralParts) {
  EXPECT_THAT(lowgear::error_of([] { (void)parse_config(R"({"text_config": {"model_type": "llama"}})"); }),
              testing::EndsWith("$.text_config: belongs to a model of several parts, which has no model_type; "
                                "write this object to a file of its own"));
}

TEST(ParseModelConfig, SaysOfAModelWithOtherPartsThatItHasThem) {
  EXPECT_THAT(config_error_of(R"({"model_type": "qwen2_vl", "vision_config": {}})"),
              testing::HasSubstr("it has more parts than a language model; there are bert, bloom, gpt2"));
}

TEST(ParseModelConfig, RefusesTwoNamesOfOneThingThatDiffer) {
  EXPECT_THAT(
      lowgear::error_of([] { (void)windows_of("qwen3_moe", R"(, "num_local_experts": 16)"); }),
      testing::HasSubstr("$.num_local_experts: contradicts num_experts, another name of it; remove one of them"));
  EXPECT_EQ(windows_of("qwen3_moe", R"(, "num_local_experts": 8)"), "");
}

}  // namespace
}  // namespace lowgear::model
