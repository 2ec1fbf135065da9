#include "estimating/estimator/job/transformer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::estimator {
namespace {

TransformerShape parse_config(std::string_view json) { return parse_transformer_shape(json, "config.json"); }

/// But for its name, which is that of the file.
TransformerShape catalogued(std::string_view name) {
  TransformerShape shape = named_transformer(name);
  shape.name = "config.json";
  return shape;
}

TEST(ParseTransformerShape, ReadsEveryFamilyAsTheCatalogueHasIt) {
  EXPECT_EQ(
      parse_config(R"({"model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 8192,
    "rope_scaling": {"anything": [1, 2]}, "attention_dropout": 0.5})"),
      catalogued("llama-3-70b"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "mistral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 32768, "sliding_window": 4096})"),
      catalogued("mistral-7b"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
    "num_local_experts": 8, "num_experts_per_tok": 2})"),
      catalogued("mixtral-8x7b"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072})"),
      catalogued("qwen2-7b"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "qwen2_moe", "vocab_size": 151936, "hidden_size": 3584, "intermediate_size": 18944,
    "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "max_position_embeddings": 131072,
    "num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 2560,
    "shared_expert_intermediate_size": 20480, "decoder_sparse_step": 1})"),
      catalogued("qwen2-57b-a14b"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "qwen3", "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288,
    "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
    "max_position_embeddings": 40960})"),
      catalogued("qwen3-8b"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "qwen3_moe", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "max_position_embeddings": 40960, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768})"),
      catalogued("qwen3-30b-a3b"));
  EXPECT_EQ(parse_config(R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 1600, "n_layer": 48, "n_head": 25,
    "n_positions": 1024, "resid_pdrop": 0.1})"),
            catalogued("gpt2-xl"));
  EXPECT_EQ(
      parse_config(R"({"model_type": "gpt_neox", "vocab_size": 50688, "hidden_size": 5120, "intermediate_size": 20480,
    "num_hidden_layers": 36, "num_attention_heads": 40, "max_position_embeddings": 2048})"),
      catalogued("pythia-12b"));
  EXPECT_EQ(parse_config(R"({"model_type": "bloom", "vocab_size": 250880, "n_embed": 14336, "n_layer": 70,
    "num_attention_heads": 112, "seq_length": 2048})"),
            catalogued("bloom-176b"));
}

std::string config_error_of(std::string_view json) {
  return lowgear::error_of([&] { (void)parse_config(json); });
}

TEST(ParseTransformerShape, SaysWhereWhatIsWrong) {
  EXPECT_THAT(config_error_of("{"), testing::StartsWith("config.json:1:2: "));
  EXPECT_THAT(config_error_of("[]"), testing::StartsWith("config.json: $"));
  EXPECT_EQ(config_error_of(R"({"model_type": "lama"})"),
            "config.json: $.model_type: \"lama\" is not supported; did you mean llama?");
  EXPECT_THAT(config_error_of(R"({"model_type": "t5"})"), testing::HasSubstr("there are llama, mistral, mixtral"));
  EXPECT_THAT(config_error_of(R"({"model_type": "llama"})"), testing::HasSubstr("vocab_size"));
  EXPECT_EQ(config_error_of(R"({"model_type": "llama", "vocab_size": 0})"),
            "config.json: $.vocab_size: 0 is not from 1 to 16777216");
  EXPECT_THAT(config_error_of(R"({"model_type": "llama", "vocab_size": "many"})"), testing::HasSubstr("$.vocab_size"));
  EXPECT_THAT(config_error_of(R"({"model_type": "gpt2", "vocab_size": 9, "n_embd": 10, "n_layer": 1, "n_head": 3,
    "n_positions": 9})"),
              testing::StartsWith("config.json: $.n_head: 3 heads do not divide the width of 10"));
  EXPECT_THAT(config_error_of(R"({"model_type": "llama", "vocab_size": 9, "hidden_size": 64, "intermediate_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 3, "max_position_embeddings": 9})"),
              testing::StartsWith("config.json: $.num_key_value_heads: 3 heads of keys do not divide 8 heads"));
}

}  // namespace
}  // namespace lowgear::estimator
