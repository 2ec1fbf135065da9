#include "estimating/model/family.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "estimating/model/activation_name.h"

namespace lowgear::model {
namespace {

/// Members of all families without any effect.
constexpr auto kWithoutEffect = std::to_array<std::string_view>({
    // Origin of the file and its library.
    "model_type",
    "transformers_version",
    "_name_or_path",
    "_commit_hash",
    "_from_model_config",
    "_diffusers_version",
    "_comment",
    "name_or_path",
    "tokenizer_class",
    "use_bfloat16",
    "torchscript",
    "tf_legacy_loss",
    "finetuning_task",
    "is_llama_config",
    "n_ctx",
    // How the same is computed.
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_flash_attn_2_enabled",
    "_experts_implementation",
    "chunk_size_feed_forward",
    "pretraining_tp",
    "use_cache",
    "return_dict",
    "output_attentions",
    "output_hidden_states",
    "initializer_range",
    // Special tokens.
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "unk_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    // Heads for other tasks.
    "id2label",
    "label2id",
    "num_labels",
    "problem_type",
    "task_specific_params",
    "predict_special_tokens",
    // Generation.
    "prefix",
    "max_length",
    "max_new_tokens",
    "min_length",
    "do_sample",
    "early_stopping",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "output_scores",
    "return_dict_in_generate",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
});

Json parsed_file(std::string_view name) { return parse_json(family_file(name), std::string(name)); }

/// The file after those that it is like.
Json merged_file(std::string_view name) {
  Json own = parsed_file(name);
  if (!own.contains("like")) return own;
  Json whole = merged_file(own.at("like").get<std::string>() + ".json");
  own.erase("like");
  whole.merge_patch(own);
  return whole;
}

std::string text_or(const Json& object, const char* key, std::string otherwise = {}) {
  return object.contains(key) ? object.at(key).get<std::string>() : std::move(otherwise);
}

std::optional<std::string> text_if(const Json& object, const char* key) {
  return object.contains(key) ? std::optional(object.at(key).get<std::string>()) : std::nullopt;
}

ConfigMember read_member(const std::string& name, const Json& value, const Json& notes) {
  ConfigMember member{.name = name};
  if (value.is_string()) {
    member.is = value.get<std::string>();
    return member;
  }
  member.is = text_or(value, "is");
  member.alias = value.value("alias", false);
  member.missing = text_if(value, "missing");
  member.only = text_if(value, "only");
  member.refused = text_if(value, "refused");
  member.what = text_or(value, "what");
  member.fix = text_or(value, "fix");
  member.only_with_windows = value.contains("note_with_windows");
  if (const auto note = text_if(value, member.only_with_windows ? "note_with_windows" : "note")) {
    const Json& known = notes.at(*note);
    member.note = known.at("text").get<std::string>();
    member.harmless = text_or(known, "harmless");
  } else if (member.only) {
    member.note = fmt::format("estimated as {}", *member.only);
    member.harmless = *member.only;
  }
  return member;
}

ModelConfig read_blocks(const Json& blocks, const std::string& model_type) {
  ModelConfig config;
  config.family = model_type;
  config.norm = blocks.at("norm") == "layer" ? NormKind::layer_norm : NormKind::rms_norm;
  config.mlp = blocks.at("mlp") == "plain" ? MlpKind::plain : MlpKind::gated;
  config.activation = activation_named(blocks.at("activation").get<std::string>()).value();
  const std::string positions = blocks.at("positions").get<std::string>();
  config.positions = positions == "learned"    ? PositionKind::learned
                     : positions == "alibi"    ? PositionKind::alibi
                     : positions == "relative" ? PositionKind::relative
                                               : PositionKind::rotary;
  config.position_offset = blocks.value("position_offset", 0);
  if (blocks.value("encoder", false)) config.encoder_layers = kMaxModelLayers;  // all that there are
  if (blocks.value("norms_after", false)) config.norm_place = NormPlace::after;
  config.scaled_scores = blocks.value("scaled_scores", true);
  config.head_transform = blocks.value("head_transform", false);
  config.qkv_biases = blocks.value("qkv_biases", false);
  config.output_bias = blocks.value("output_bias", false);
  config.mlp_biases = blocks.value("mlp_biases", false);
  config.qk_norms = blocks.value("qk_norms", false);
  config.embedding_norm = blocks.value("embedding_norm", false);
  config.normalised_experts = blocks.value("normalised_experts", false);
  return config;
}

WindowRule read_window_rule(const Json& blocks) {
  const std::string rule = text_or(blocks, "window_rule", "none");
  if (rule == "all") return WindowRule::all;
  if (rule == "from") return WindowRule::from;
  return rule == "every_other_below" ? WindowRule::every_other_below : WindowRule::none;
}

std::vector<std::string> texts_of(const Json& object, const char* key) {
  return object.contains(key) ? object.at(key).get<std::vector<std::string>>() : std::vector<std::string>();
}

TensorNames read_tensors(const Json& names) {
  const auto text = [&names](const char* key) { return text_or(names, key); };
  return {.transposed = names.value("transposed", false),
          .qkv_by_head = names.value("qkv_by_head", false),
          .prefix = text("prefix"),
          .embedding = text("embedding"),
          .token_types = text("token_types"),
          .positions = text("positions"),
          .embedding_norm = text("embedding_norm"),
          .relative_positions = text("relative_positions"),
          .project_in = text("project_in"),
          .layer = text("layer"),
          .attention_norm = text("attention_norm"),
          .qkv = texts_of(names, "qkv"),
          .query_norm = text("query_norm"),
          .key_norm = text("key_norm"),
          .attention_out = text("attention_out"),
          .cross_norm = text("cross_norm"),
          .cross_query = text("cross_query"),
          .cross_keys = texts_of(names, "cross_keys"),
          .cross_out = text("cross_out"),
          .mlp_norm = text("mlp_norm"),
          .mlp_in = texts_of(names, "mlp_in"),
          .gated_in = texts_of(names, "gated_in"),
          .mlp_out = text("mlp_out"),
          .router = text("router"),
          .expert = text("expert"),
          .expert_in = texts_of(names, "expert_in"),
          .expert_out = text("expert_out"),
          .shared_in = texts_of(names, "shared_in"),
          .shared_out = text("shared_out"),
          .shared_router = text("shared_router"),
          .head_transform = text("head_transform"),
          .final_norm = text("final_norm"),
          .project_out = text("project_out"),
          .output = text("output"),
          .output_bias = text("output_bias"),
          .others = texts_of(names, "others")};
}

Family read_family(std::string_view file, const Json& common) {
  const Json json = merged_file(file);
  Family family;
  family.model_type = json.at("model_type").get<std::string>();
  family.architecture = json.at("architecture").get<std::string>();
  family.blocks = read_blocks(json.at("blocks"), family.model_type);
  family.window_rule = read_window_rule(json.at("blocks"));
  for (const Json* const members : {&json.at("members"), &common.at("members")}) {
    for (const auto& member : members->items()) {
      if (family.find(member.key()) != nullptr) continue;
      family.members.push_back(read_member(member.key(), member.value(), common.at("notes")));
      ConfigMember& read = family.members.back();
      if (read.name == "architectures") read.harmless = *(read.only = family.architecture);
    }
  }
  Json names = json.at("tensors");
  family.tensors = read_tensors(names);
  if (names.contains("decoder")) names.merge_patch(Json(names.at("decoder")));
  family.decoder_tensors = read_tensors(names);
  return family;
}

std::vector<Family> read_families() {
  const Json common = parsed_file("common.json");
  std::vector<Family> families;
  std::string_view names = family_file("families.txt");
  while (!names.empty()) {
    const std::size_t end = names.find('\n');
    families.push_back(read_family(names.substr(0, end), common));
    names.remove_prefix(end + 1);
  }
  return families;
}

}  // namespace

const ConfigMember* Family::find(std::string_view member) const {
  const auto found = std::ranges::find(members, member, &ConfigMember::name);
  return found == members.end() ? nullptr : &*found;
}

const std::vector<Family>& families() {
  static const std::vector<Family> all = read_families();
  return all;
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(families(), model_type, &Family::model_type);
  return found == families().end() ? nullptr : &*found;
}

const Family& family_of(const ModelConfig& config) {
  const Family* const family = find_family(config.family);
  if (family == nullptr) throw Error(fmt::format("there is no family of models {}", quote(config.family)));
  return *family;
}

const TensorNames& layer_names(const ModelConfig& config, std::int64_t layer) {
  const Family& family = family_of(config);
  return attends_to_encoder(config, layer) ? family.decoder_tensors : family.tensors;
}

bool changes_nothing(std::string_view member) {
  return member.starts_with("summary_") || std::ranges::find(kWithoutEffect, member) != kWithoutEffect.end();
}

}  // namespace lowgear::model
