#include "estimating/model/config_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "estimating/model/config_json.h"
#include "estimating/model/known_models.h"

namespace lowgear::model {
namespace {

using ::testing::HasSubstr;

/// A small model of the family, in which a change of each member can be seen.
Json config_of(const Family& family) {
  Json config = {{"model_type", family.model_type}, {"architectures", {family.architecture}}, {"vocab_size", 1000}};
  const auto add = [&config, &family](const Json& members) {
    for (const auto& member : members.items()) {
      const ConfigMember* const known = family.find(member.key());
      if (known != nullptr && !known->only_with_windows) config[member.key()] = member.value();
    }
  };
  for (const ConfigMember& member : family.members) {
    if (member.is.ends_with("dropout")) config[member.name] = 0.0;
    if (member.is == "balances_experts") config[member.name] = true;
  }
  if (family.model_type == "gpt2") {
    add({{"n_embd", 64}, {"n_layer", 4}, {"n_head", 4}, {"n_positions", 512}});
    return config;
  }
  if (family.model_type == "t5") {
    add({{"d_model", 64}, {"d_kv", 16}, {"d_ff", 96}, {"num_layers", 4}, {"num_decoder_layers", 3}, {"num_heads", 4}});
    add({{"feed_forward_proj", "gated-gelu"}, {"relative_attention_num_buckets", 16}});
    return config;
  }
  if (family.model_type == "bloom") {
    add({{"n_embed", 64}, {"n_layer", 4}, {"n_head", 4}, {"seq_length", 512}});
    return config;
  }
  add({{"hidden_size", 64},
       {"num_hidden_layers", 4},
       {"num_attention_heads", 4},
       {"num_key_value_heads", 2},
       {"intermediate_size", 96},
       {"ffn_dim", 96},
       {"max_position_embeddings", 512}});
  add({{"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}, {"shared_expert_intermediate_size", 32}});
  if (family.find("num_experts_per_tok") != nullptr) {
    config[family.model_type == "mixtral" ? "num_local_experts" : "num_experts"] = 8;
  }
  add({{"use_sliding_window", true}, {"sliding_window", 128}, {"max_window_layers", 2}});
  return config;
}

/// Another value of each member than that of config_of, and than a harmless one.
const std::map<std::string_view, Json>& other_values() {
  static const std::map<std::string_view, Json> values = {
      {"vocab_size", 2000},
      {"hidden_size", 128},
      {"n_embed", 128},
      {"n_embd", 128},
      {"num_hidden_layers", 6},
      {"n_layer", 6},
      {"num_attention_heads", 8},
      {"n_head", 8},
      {"num_key_value_heads", 4},
      {"head_dim", 32},
      {"intermediate_size", 192},
      {"ffn_dim", 192},
      {"word_embed_proj_dim", 32},
      {"do_layer_norm_before", false},
      {"_remove_final_layer_norm", true},
      {"enable_bias", false},
      {"layer_norm_elementwise_affine", false},
      {"dropout", 0.1},
      {"activation_dropout", 0.1},
      {"layerdrop", 0.1},
      {"init_std", 0.5},
      {"n_inner", 100},
      {"max_position_embeddings", 1024},
      {"n_positions", 1024},
      {"seq_length", 1024},
      {"attention_bias", true},
      {"mlp_bias", true},
      {"qkv_bias", false},
      {"use_parallel_residual", false},
      {"num_local_experts", 16},
      {"num_experts", 16},
      {"num_experts_per_tok", 4},
      {"moe_intermediate_size", 64},
      {"shared_expert_intermediate_size", 64},
      {"decoder_sparse_step", 2},
      {"mlp_only_layers", {0}},
      {"norm_topk_prob", true},
      {"output_router_logits", false},
      {"router_aux_loss_coef", 0.5},
      {"router_jitter_noise", 0.5},
      {"sliding_window", 64},
      {"use_sliding_window", false},
      {"max_window_layers", 3},
      {"layer_types", {"full_attention", "sliding_attention", "full_attention", "full_attention"}},
      {"rope_theta", 1e6},
      {"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4}}},
      {"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}},
      {"rope_interleaved", true},
      {"rotary_pct", 0.5},
      {"partial_rotary_factor", 0.5},
      {"gradient_checkpointing", true},
      {"_attn_implementation", "eager"},
      {"attn_implementation", "eager"},
      {"torch_dtype", "float32"},
      {"dtype", "float32"},
      {"rotary_emb_base", 1000},
      {"original_max_position_embeddings", 256},
      {"offset_alibi", 100},
      {"hidden_act", "tanh"},
      {"activation_function", "tanh"},
      {"rms_norm_eps", 1e-3},
      {"layer_norm_eps", 1e-3},
      {"layer_norm_epsilon", 1e-3},
      {"attention_dropout", 0.1},
      {"hidden_dropout", 0.1},
      {"hidden_dropout_prob", 0.1},
      {"dropout_rate", 0.1},
      {"d_model", 128},
      {"d_kv", 32},
      {"d_ff", 192},
      {"num_layers", 6},
      {"num_decoder_layers", 5},
      {"num_heads", 8},
      {"feed_forward_proj", "relu"},
      {"dense_act_fn", "relu"},
      {"is_gated_act", false},
      {"relative_attention_num_buckets", 32},
      {"relative_attention_max_distance", 64},
      {"scale_decoder_outputs", false},
      {"decoder_start_token_id", 1},
      {"initializer_factor", 0.5},
      {"output_past", true},
      {"attention_probs_dropout_prob", 0.1},
      {"type_vocab_size", 3},
      {"position_embedding_type", "relative_key"},
      {"resid_pdrop", 0.1},
      {"embd_pdrop", 0.1},
      {"attn_pdrop", 0.1},
      {"classifier_dropout", 0.5},
      {"scale_attn_weights", false},
      {"scale_attn_by_inverse_layer_idx", true},
      {"reorder_and_upcast_attn", true},
      {"apply_residual_connection_post_layernorm", true},
      {"attention_softmax_in_fp32", false},
      {"masked_softmax_fusion", false},
      {"bias_dropout_fusion", false},
      {"skip_bias_add", false},
      {"skip_bias_add_qkv", true},
      {"slow_but_exact", true},
      {"architectures", {"OtherForSequenceClassification"}},
      {"auto_map", {{"AutoModelForCausalLM", "modeling_own.Own"}}},
      {"is_decoder", true},
      {"is_encoder_decoder", true},
      {"tie_encoder_decoder", true},
      {"add_cross_attention", true},
      {"cross_attention_hidden_size", 64},
      {"per_layer_config", {{"0", {{"num_attention_heads", 2}}}}},
      {"pruned_heads", {{"0", {1}}}},
      {"quantization_config", {{"bits", 4}}},
      {"compression_config", {{"bits", 4}}},
  };
  return values;
}

/// As an estimate reads it.
ModelConfig read_config(const Json& json) {
  const ModelConfig config = parse_model_config(json.dump(), "config.json");
  estimable(config).require();
  ModelConfig read = for_estimates(config);
  read.notes = config.notes;
  return read;
}

/// Whether a member states a part that no estimate counts.
bool is_trained_alone(const ConfigMember& member) {
  static const std::set<std::string> parts = {
      "norm_epsilon",       "rope_theta",       "rope_scaling",   "rope_parameters", "rotary_interleaved", "activation",
      "normalised_experts", "balances_experts", "balance_weight", "scaled_head",     "start_token"};
  return parts.contains(member.is);
}

/// Without its notes.
ModelConfig bare(ModelConfig config) {
  config.notes.clear();
  return config;
}

std::string joined(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

/// Members that an estimate counts have changed what it reads, others are noted or refused as the file of the family
/// says.
void expect_read_as_stated(const ConfigMember& member, const Json& config, const Json& changed) {
  const ModelConfig before = read_config(config);
  EXPECT_EQ(before.notes, std::vector<std::string>()) << config;
  std::optional<ModelConfig> after;
  std::string error;
  try {
    after = read_config(changed);
  } catch (const InputError& refusal) {
    error = refusal.what();
  }
  if (member.refused) {
    EXPECT_THAT(error, HasSubstr(member.what));
  } else if (!member.note.empty()) {
    ASSERT_TRUE(after) << error;
    EXPECT_EQ(bare(*after), before);
    EXPECT_THAT(joined(after->notes), HasSubstr("config.json: " + member.name + " "));
    EXPECT_THAT(joined(after->notes), HasSubstr(member.note));
  } else if (member.is.empty() || is_trained_alone(member)) {
    ASSERT_TRUE(after) << error;
    EXPECT_EQ(*after, before);
  } else {
    EXPECT_TRUE(!after || *after != before);
    EXPECT_TRUE(!after || after->notes.empty());
  }
}

/// What the trainer computes: the parts that members state, and no other value of the others that change a result.
void expect_trained_as_stated(const ConfigMember& member, const Json& config, const Json& changed) {
  const ModelConfig before = parse_model_config(config.dump(), "config.json");
  EXPECT_TRUE(trainable(before)) << trainable(before).problem;
  std::optional<ModelConfig> after;
  try {
    after = parse_trainable_config(changed.dump(), "config.json");
  } catch (const InputError&) {
    return;
  }
  EXPECT_FALSE(member.only || member.refused);
  EXPECT_EQ(to_json(*after) != to_json(before), !member.is.empty());
  after->notes.clear();
  EXPECT_EQ(bare(parse_trainable_config(to_json(*after), "config.json")), *after) << to_json(*after);
}

TEST(ConfigMembers, ChangeNothingWhenTheyAreOfTheFileOrOfGeneration) {
  for (const char* const member :
       {"transformers_version", "tokenizer_class", "eos_token_id", "_name_or_path", "top_p"}) {
    EXPECT_TRUE(changes_nothing(member)) << member;
  }
  for (const char* const member :
       {"hidden_size", "sliding_window", "architectures", "auto_map", "hiden_size", "_own_rule", ""}) {
    EXPECT_FALSE(changes_nothing(member)) << member;
  }
}

TEST(ConfigMembers, AreReadAndRefusedAsTheFilesOfFamiliesSay) {
  for (const Family& family : families()) {
    const Json config = config_of(family);
    for (const ConfigMember& member : family.members) {
      SCOPED_TRACE(family.model_type + ": " + member.name);
      Json changed = config;
      if (member.name == "tie_word_embeddings") {
        changed["tie_word_embeddings"] = !read_config(config).tied_embeddings;
      } else if (member.name == "is_encoder_decoder") {
        changed["is_encoder_decoder"] = member.refused == "false";
      } else if (member.name == "attention_bias") {
        changed["attention_bias"] = !read_config(config).output_bias;
      } else {
        const auto other = other_values().find(member.name);
        ASSERT_NE(other, other_values().end()) << "the test needs a value of it";
        changed[member.name] = other->second;
      }
      expect_read_as_stated(member, config, changed);
      expect_trained_as_stated(member, config, changed);
    }
  }
}

TEST(ConfigMembers, AreHarmlessAtTheValuesThatTransformersWrites) {
  for (const Family& family : families()) {
    Json config = config_of(family);
    for (const auto& [member, value] : std::vector<std::pair<const char*, Json>>{{"attention_dropout", 0.0},
                                                                                 {"hidden_dropout", 0},
                                                                                 {"hidden_act", "silu"},
                                                                                 {"activation_function", "gelu_new"},
                                                                                 {"is_encoder_decoder", false},
                                                                                 {"add_cross_attention", false},
                                                                                 {"pruned_heads", Json::object()},
                                                                                 {"quantization_config", nullptr},
                                                                                 {"mlp_only_layers", Json::array()},
                                                                                 {"decoder_sparse_step", 1},
                                                                                 {"gradient_checkpointing", false},
                                                                                 {"_attn_implementation", "sdpa"},
                                                                                 {"torch_dtype", "bfloat16"},
                                                                                 {"n_inner", nullptr},
                                                                                 {"head_dim", nullptr}}) {
      const ConfigMember* const known = family.find(member);
      if (known != nullptr && known->refused != "true") config[member] = value;
    }
    EXPECT_EQ(read_config(config), read_config(config_of(family))) << family.model_type;
  }
}

TEST(ConfigMembers, ThatAreMissingMayMeanSomething) {
  Json config = config_of(*find_family("gpt2"));
  config.erase("resid_pdrop");
  config["attn_pdrop"] = nullptr;
  EXPECT_EQ(read_config(config).notes,
            std::vector<std::string>{
                "config.json: resid_pdrop 0.1 (the default), attn_pdrop 0.1 (the default): the dropout of "
                "the job counts instead (dropout, --dropout)"});
}

TEST(ConfigMembers, ThatNoListHasAreNamedAsIgnored) {
  for (const Family& family : families()) {
    Json config = config_of(family);
    const ModelConfig before = read_config(config);
    config["first_k_dense_replace"] = 3;
    config["hiden\nsize"] = 3;
    config["null_of_another"] = nullptr;
    config["transformers_version"] = "5.0.0";
    config["_attn_implementation"] = "sdpa";
    const ModelConfig model = read_config(config);
    EXPECT_EQ(bare(model), before);
    EXPECT_EQ(model.notes, std::vector<std::string>{"config.json: ignored, since " + family.model_type +
                                                    " does not have them: first_k_dense_replace, hiden\\x0asize"});
    config.erase("hiden\nsize");
    for (int i = 0; i < 40; ++i) config["member_" + std::to_string(i)] = i + 1;
    EXPECT_THAT(read_config(config).notes.at(0), testing::EndsWith("member_18 and 21 more"));
  }
}

TEST(ConfigMembers, ThatNoListHasAreNotNamedWhereTheySwitchSomethingOff) {
  for (const Family& family : families()) {
    Json config = config_of(family);
    const ModelConfig before = read_config(config);
    config["use_mrope"] = false;
    config["hidden_dropout_prob"] = 0.0;
    config["num_nextn_predict_layers"] = 0;
    config["vision_config"] = Json::object();
    config["attn_layer_indices"] = Json::array();
    config["rope_suffix"] = "";
    EXPECT_EQ(read_config(config), before) << family.model_type;
    config["use_mrope"] = true;
    config["_sliding_window_pattern"] = 6;
    EXPECT_THAT(joined(read_config(config).notes),
                HasSubstr("does not have them: use_mrope, _sliding_window_pattern\n"));
  }
}

/// Which layers are windowed is nothing that these families read: all are, or none.
TEST(ConfigMembers, ThatChooseWindowedLayersAreNamedWhereAllAreWindowed) {
  Json config = config_of(*find_family("qwen3_moe"));
  config["max_window_layers"] = 48;
  const ModelConfig model = read_config(config);
  EXPECT_EQ(std::ranges::count(model.windowed, true), 4);
  EXPECT_EQ(model.notes,
            std::vector<std::string>{"config.json: max_window_layers 48: transformers does not read it: all "
                                     "layers have the window"});
  config["use_sliding_window"] = false;
  EXPECT_EQ(read_config(config).notes, std::vector<std::string>()) << "as the published files are";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// Members of the configuration classes of transformers 4.30 to 5.0, by model type.
std::map<std::string, std::string> members_of_classes() {
  const std::string gated =
      "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads hidden_act num_key_value_heads "
      "initializer_range rms_norm_eps max_position_embeddings use_cache tie_word_embeddings rope_theta rope_scaling "
      "rope_parameters attention_dropout head_dim pad_token_id bos_token_id eos_token_id ";
  const std::string windows = "use_sliding_window sliding_window max_window_layers layer_types ";
  const std::string experts = "num_experts_per_tok output_router_logits router_aux_loss_coef ";
  const std::string qwen_experts =
      experts + "decoder_sparse_step moe_intermediate_size num_experts norm_topk_prob mlp_only_layers ";
  return {
      {"llama", gated + "pretraining_tp attention_bias mlp_bias"},
      {"mistral", gated + "sliding_window"},
      {"mixtral", gated + experts + "sliding_window num_local_experts router_jitter_noise"},
      {"qwen2", gated + windows},
      {"qwen2_moe", gated + windows + qwen_experts + "shared_expert_intermediate_size qkv_bias"},
      {"qwen3", gated + windows + "attention_bias"},
      {"qwen3_moe", gated + windows + qwen_experts + "attention_bias num_local_experts"},
      {"phi3", gated + "sliding_window partial_rotary_factor original_max_position_embeddings resid_pdrop embd_pdrop"},
      {"gpt2",
       "vocab_size n_positions n_ctx n_embd n_layer n_head n_inner activation_function resid_pdrop embd_pdrop "
       "attn_pdrop layer_norm_epsilon initializer_range summary_type summary_use_proj summary_activation "
       "summary_proj_to_labels summary_first_dropout scale_attn_weights use_cache bos_token_id eos_token_id "
       "pad_token_id scale_attn_by_inverse_layer_idx reorder_and_upcast_attn add_cross_attention tie_word_embeddings"},
      {"gpt_neox",
       "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act rotary_pct "
       "rotary_emb_base attention_dropout hidden_dropout classifier_dropout max_position_embeddings initializer_range "
       "layer_norm_eps use_cache bos_token_id eos_token_id tie_word_embeddings use_parallel_residual rope_scaling "
       "rope_theta rope_parameters attention_bias is_decoder"},
      {"t5",
       "vocab_size d_model d_kv d_ff num_layers num_decoder_layers num_heads relative_attention_num_buckets "
       "relative_attention_max_distance dropout_rate layer_norm_epsilon initializer_factor feed_forward_proj use_cache "
       "pad_token_id eos_token_id classifier_dropout tie_word_embeddings"},
      {"bert",
       "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act hidden_dropout_prob "
       "attention_probs_dropout_prob max_position_embeddings type_vocab_size initializer_range layer_norm_eps "
       "pad_token_id position_embedding_type use_cache classifier_dropout tie_word_embeddings"},
      {"opt",
       "vocab_size hidden_size num_hidden_layers ffn_dim max_position_embeddings do_layer_norm_before "
       "_remove_final_layer_norm word_embed_proj_dim dropout attention_dropout num_attention_heads activation_function "
       "layerdrop init_std use_cache pad_token_id bos_token_id eos_token_id enable_bias layer_norm_elementwise_affine "
       "tie_word_embeddings"},
      {"bloom",
       "vocab_size hidden_size n_embed n_layer n_head num_hidden_layers num_attention_heads n_inner "
       "masked_softmax_fusion layer_norm_epsilon initializer_range use_cache bos_token_id eos_token_id "
       "apply_residual_connection_post_layernorm bias_dropout_fusion hidden_dropout attention_dropout "
       "attention_softmax_in_fp32 pretraining_tp dtype gradient_checkpointing slow_but_exact skip_bias_add "
       "skip_bias_add_qkv offset_alibi seq_length unk_token_id"},
  };
}

TEST(ConfigMembers, CoverTheClassesOfTransformers) {
  const std::map<std::string, std::string> classes = members_of_classes();
  const std::string every =
      " is_encoder_decoder is_decoder tie_encoder_decoder pruned_heads cross_attention_hidden_size add_cross_attention "
      "per_layer_config chunk_size_feed_forward output_hidden_states problem_type architectures id2label torch_dtype "
      "quantization_config";
  for (const Family& family : families()) {
    const auto found = classes.find(family.model_type);
    ASSERT_NE(found, classes.end()) << family.model_type << ": list the members of its configuration class";
    for (const std::string& member : words_of(found->second + every)) {
      EXPECT_TRUE(family.find(member) != nullptr || changes_nothing(member)) << family.model_type << ": " << member;
    }
  }
}

/// Remembers which members a reader asked for the values of.
class RecordingMembers final : public ConfigMembers {
 public:
  explicit RecordingMembers(Json config) : config_(std::move(config)) {}

  [[nodiscard]] std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const auto& member : config_.items()) keys.push_back(member.key());
    return keys;
  }
  [[nodiscard]] bool has(std::string_view key) const override { return view().has(key); }
  [[nodiscard]] std::int64_t integer(std::string_view key) const override { return asked(key).integer(); }
  [[nodiscard]] std::string text(std::string_view key) const override { return asked(key).text(); }
  [[nodiscard]] bool boolean(std::string_view key) const override { return asked(key).boolean(); }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const override {
    return asked(key).json().get<std::vector<std::string>>();
  }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const override {
    return asked(key).json().get<std::vector<std::int64_t>>();
  }
  [[nodiscard]] double number(std::string_view key) const override { return asked(key).number(); }
  [[nodiscard]] std::unique_ptr<ConfigMembers> object(std::string_view key) const override {
    return std::make_unique<RecordingMembers>(asked(key).json());
  }
  [[nodiscard]] std::string written(std::string_view /*key*/) const override { return ""; }
  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string_view fix) const override {
    view().at(key).fail(what, fix);
  }

  [[nodiscard]] const std::set<std::string>& asked() const { return asked_; }

 private:
  [[nodiscard]] JsonView view() const { return {config_, "config.json"}; }
  [[nodiscard]] JsonView asked(std::string_view key) const {
    asked_.insert(std::string(key));
    return view().at(key);
  }

  Json config_;
  mutable std::set<std::string> asked_;
};

TEST(ConfigMembers, ThatAreReadAreThoseThatStateAPart) {
  for (const Family& family : families()) {
    Json config = config_of(family);
    config.erase("architectures");
    const RecordingMembers members(config);
    (void)read_model_config(members, "config.json");
    for (const std::string& name : members.asked()) {
      if (name == "model_type") continue;
      const ConfigMember* const member = family.find(name);
      ASSERT_NE(member, nullptr) << family.model_type << ": " << name;
      EXPECT_FALSE(member->is.empty()) << family.model_type << ": " << name;
    }
  }
}

}  // namespace
}  // namespace lowgear::model
