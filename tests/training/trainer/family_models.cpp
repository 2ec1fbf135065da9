#include "training/trainer/family_models.h"

#include "base/core/formats/json.h"
#include "estimating/model/config_json.h"

namespace lowgear::trainer {
namespace {

/// Members of most families, with those of one.
Json config_of(const std::string& type, const Json& own) {
  Json config = {{"model_type", type},       {"vocab_size", 64},
                 {"hidden_size", 16},        {"intermediate_size", 24},
                 {"num_hidden_layers", 4},   {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}, {"max_position_embeddings", 64},
                 {"attention_dropout", 0.1}};
  config.merge_patch(own);
  return config;
}

const Json kExperts = {{"num_experts", 4}, {"num_experts_per_tok", 2}, {"moe_intermediate_size", 12}};

Json with_experts(Json own) {
  own.merge_patch(kExperts);
  return own;
}

std::vector<FamilyModel> make_models() {
  std::vector<FamilyModel> models;
  const auto add = [&models](const std::string& name, const Json& config) { models.push_back({name, config.dump()}); };
  add("llama", config_of("llama", {{"head_dim", 8},
                                   {"attention_bias", true},
                                   {"rope_interleaved", true},
                                   {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}}}));
  add("mistral", config_of("mistral", {{"sliding_window", 5}}));
  add("qwen2", config_of("qwen2", {{"use_sliding_window", true},
                                   {"sliding_window", 5},
                                   {"max_window_layers", 2},
                                   {"tie_word_embeddings", true}}));
  add("qwen3", config_of("qwen3", {{"head_dim", 8}}));
  add("phi3", config_of("phi3", {{"num_key_value_heads", 4}, {"resid_pdrop", 0.2}, {"partial_rotary_factor", 0.5}}));
  add("mixtral", config_of("mixtral", {{"num_local_experts", 4},
                                       {"num_experts_per_tok", 2},
                                       {"output_router_logits", true},
                                       {"router_aux_loss_coef", 0.2}}));
  add("qwen2_moe", config_of("qwen2_moe", with_experts({{"shared_expert_intermediate_size", 20},
                                                        {"decoder_sparse_step", 2},
                                                        {"output_router_logits", true}})));
  add("qwen3_moe", config_of("qwen3_moe", with_experts({{"head_dim", 8}, {"mlp_only_layers", {1}}})));
  add("gpt2",
      {{"model_type", "gpt2"}, {"vocab_size", 64}, {"n_embd", 16}, {"n_layer", 4}, {"n_head", 4}, {"n_positions", 32}});
  add("gpt_neox",
      config_of("gpt_neox", {{"hidden_dropout", 0.2}, {"rotary_pct", 0.5}, {"num_key_value_heads", nullptr}}));
  add("bloom", {{"model_type", "bloom"},
                {"vocab_size", 64},
                {"hidden_size", 24},
                {"n_layer", 4},
                {"n_head", 6},
                {"hidden_dropout", 0.2},
                {"attention_dropout", 0.1}});
  add("bert", {{"model_type", "bert"},
               {"vocab_size", 64},
               {"hidden_size", 16},
               {"intermediate_size", 24},
               {"num_hidden_layers", 4},
               {"num_attention_heads", 4},
               {"max_position_embeddings", 64}});
  const Json t5 = {{"model_type", "t5"},
                   {"vocab_size", 64},
                   {"d_model", 16},
                   {"d_kv", 4},
                   {"d_ff", 24},
                   {"num_layers", 2},
                   {"num_heads", 4},
                   {"relative_attention_num_buckets", 8},
                   {"relative_attention_max_distance", 10}};
  add("t5", t5);
  Json gated = t5;
  gated.merge_patch({{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}, {"num_decoder_layers", 3}});
  add("t5_gated", gated);
  const Json opt = {{"ffn_dim", 24}, {"intermediate_size", nullptr}, {"num_key_value_heads", nullptr}};
  add("opt", config_of("opt", opt));
  Json after = opt;
  after.merge_patch({{"do_layer_norm_before", false}, {"word_embed_proj_dim", 12}});
  add("opt_after", config_of("opt", after));
  return models;
}

}  // namespace

model::ModelConfig FamilyModel::read() const { return model::parse_trainable_config(config, name); }

const std::vector<FamilyModel>& family_models() {
  static const std::vector<FamilyModel> models = make_models();
  return models;
}

}  // namespace lowgear::trainer
