#include "estimating/model/config_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/core/error.h"
#include "base/core/numbers/number.h"

namespace lowgear::model {
namespace {

constexpr unsigned kLlama = 1U << 0U;
constexpr unsigned kMistral = 1U << 1U;
constexpr unsigned kMixtral = 1U << 2U;
constexpr unsigned kQwen2 = 1U << 3U;
constexpr unsigned kQwen2Moe = 1U << 4U;
constexpr unsigned kQwen3 = 1U << 5U;
constexpr unsigned kQwen3Moe = 1U << 6U;
constexpr unsigned kGpt2 = 1U << 7U;
constexpr unsigned kNeox = 1U << 8U;
constexpr unsigned kBloom = 1U << 9U;
constexpr unsigned kPhi3 = 1U << 10U;

constexpr unsigned kQwenMoe = kQwen2Moe | kQwen3Moe;
constexpr unsigned kQwen = kQwen2 | kQwen3 | kQwenMoe;
constexpr unsigned kMoe = kMixtral | kQwenMoe;
constexpr unsigned kWindowed = kMistral | kMixtral | kQwen | kPhi3;
/// Those after Llama: RMS norms, gated MLPs, grouped queries.
constexpr unsigned kGated = kLlama | kWindowed;
constexpr unsigned kRotary = kGated | kNeox;
/// Those of which transformers windows every layer, or none.
constexpr unsigned kAllWindowed = kMistral | kMixtral | kQwen3Moe | kPhi3;
constexpr unsigned kAll = kGated | kGpt2 | kNeox | kBloom;

constexpr auto kFamilies = std::to_array<TransformerFamily>({
    {"llama", kLlama, "LlamaForCausalLM", true},
    {"mistral", kMistral, "MistralForCausalLM", true},
    {"mixtral", kMixtral, "MixtralForCausalLM"},
    {"qwen2", kQwen2, "Qwen2ForCausalLM"},
    {"qwen2_moe", kQwen2Moe, "Qwen2MoeForCausalLM"},
    {"qwen3", kQwen3, "Qwen3ForCausalLM"},
    {"qwen3_moe", kQwen3Moe, "Qwen3MoeForCausalLM"},
    {"phi3", kPhi3, "Phi3ForCausalLM"},
    {"gpt2", kGpt2, "GPT2LMHeadModel", true},
    {"gpt_neox", kNeox, "GPTNeoXForCausalLM"},
    {"bloom", kBloom, "BloomForCausalLM"},
});

/// Each is one pass over the elements inside the MLP.
constexpr std::string_view kActivations =
    "silu|swish|gelu|gelu_new|gelu_fast|gelu_python|gelu_pytorch_tanh|quick_gelu|relu";
constexpr std::string_view kOfAnotherActivation = "the activation is estimated as SiLU or GELU";
constexpr std::string_view kOfDropout = "the dropout of the job counts instead (dropout, --dropout)";
constexpr std::string_view kOfAllWindowed = "transformers does not read it: all layers have the window";
constexpr std::string_view kFusedAttention =
    "sdpa|flash_attention_2|flash_attention_3|flash_attention_4|flex_attention";
constexpr std::string_view kOfAttention = "the attention of the job counts instead (attention, --attention)";
constexpr std::string_view kHalfTypes = "bfloat16|float16|auto";
constexpr std::string_view kOfType = "the type of the job counts instead (dtype, --dtype)";
constexpr std::string_view kOfQuantised = "quantised weights are not supported; give the config.json of the originals";

using enum MemberVerdict;

constexpr auto kMembers = std::to_array<ConfigMember>({
    // Sizes.
    {"vocab_size", kAll, modelled},
    {"hidden_size", kRotary | kBloom, modelled},
    {"n_embed", kBloom, modelled},
    {"n_embd", kGpt2, modelled},
    {"num_hidden_layers", kRotary | kBloom, modelled},
    {"n_layer", kGpt2 | kBloom, modelled},
    {"num_attention_heads", kRotary | kBloom, modelled},
    {"n_head", kGpt2 | kBloom, modelled},
    {"num_key_value_heads", kGated, modelled},
    {"head_dim", kGated, modelled},
    {"intermediate_size", kRotary, modelled},
    {"n_inner", kGpt2 | kBloom, modelled},
    {"max_position_embeddings", kRotary, modelled},
    {"n_positions", kGpt2, modelled},
    {"seq_length", kBloom, modelled},
    {"tie_word_embeddings", kAll, modelled},
    {"attention_bias", kLlama | kQwen3 | kQwen3Moe | kNeox, modelled},
    {"mlp_bias", kLlama, modelled},
    {"qkv_bias", kQwen2Moe, modelled},
    {"use_parallel_residual", kNeox, modelled},
    // Experts.
    {"num_local_experts", kMixtral | kQwen3Moe, modelled},
    {"num_experts", kMoe, modelled},
    {"num_experts_per_tok", kMoe, modelled},
    {"moe_intermediate_size", kQwenMoe, modelled},
    {"shared_expert_intermediate_size", kQwen2Moe, modelled},
    {"decoder_sparse_step", kQwenMoe, refused, "1", "layers without experts among those with them are not supported"},
    {"mlp_only_layers", kQwenMoe, refused, "[]", "layers without experts among those with them are not supported"},
    {"norm_topk_prob", kQwenMoe, without_effect},
    {"output_router_logits", kMoe, without_effect},
    {"router_aux_loss_coef", kMoe, without_effect},
    {"router_jitter_noise", kMixtral, without_effect},
    // Attention within windows.
    {"sliding_window", kWindowed, modelled},
    {"use_sliding_window", kQwen, modelled},
    {"max_window_layers", kQwen & ~kQwen3Moe, modelled},
    {"max_window_layers", kQwen3Moe, noted_with_windows, {}, kOfAllWindowed},
    {"layer_types", kWindowed & ~kAllWindowed, modelled},
    {"layer_types", kAllWindowed, noted_with_windows, {}, kOfAllWindowed},
    // Positions. Rotary embeddings of a part of a head copy the rest of it.
    {"rope_theta", kRotary, without_effect},
    {"rope_scaling", kRotary, without_effect},
    {"rope_parameters", kRotary, without_effect},
    {"rope_interleaved", kLlama, without_effect},
    {"partial_rotary_factor", kRotary, without_effect},
    {"rotary_pct", kNeox, without_effect},
    {"rotary_emb_base", kNeox, without_effect},
    {"original_max_position_embeddings", kPhi3, without_effect},
    {"offset_alibi", kBloom, without_effect},
    // Within a layer.
    {"hidden_act", kRotary, noted, kActivations, kOfAnotherActivation},
    {"activation_function", kGpt2, noted, kActivations, kOfAnotherActivation},
    {"rms_norm_eps", kGated, without_effect},
    {"layer_norm_eps", kNeox, without_effect},
    {"layer_norm_epsilon", kGpt2 | kBloom, without_effect},
    {"attention_dropout", kRotary | kBloom, noted, "0", kOfDropout},
    {"hidden_dropout", kNeox | kBloom, noted, "0", kOfDropout},
    {"resid_pdrop", kGpt2, noted, "0", kOfDropout, "0.1"},
    {"embd_pdrop", kGpt2, noted, "0", kOfDropout, "0.1"},
    {"attn_pdrop", kGpt2, noted, "0", kOfDropout, "0.1"},
    {"resid_pdrop", kPhi3, noted, "0", kOfDropout},
    {"embd_pdrop", kPhi3, noted, "0", kOfDropout},
    {"classifier_dropout", kNeox, without_effect},
    {"scale_attn_weights", kGpt2, without_effect},
    {"scale_attn_by_inverse_layer_idx", kGpt2, without_effect},
    {"reorder_and_upcast_attn", kGpt2, noted, "false", "attention is estimated in the type of the job, not in fp32"},
    {"apply_residual_connection_post_layernorm", kBloom, without_effect},
    {"attention_softmax_in_fp32", kBloom, without_effect},
    {"masked_softmax_fusion", kBloom, without_effect},
    {"bias_dropout_fusion", kBloom, without_effect},
    {"skip_bias_add", kBloom, without_effect},
    {"skip_bias_add_qkv", kBloom, without_effect},
    {"slow_but_exact", kBloom, without_effect},
    // The job states these.
    {"gradient_checkpointing", kAll, noted, "false",
     "the recompute of the job counts instead (recompute, --recompute)"},
    {"_attn_implementation", kAll, noted, kFusedAttention, kOfAttention},
    {"attn_implementation", kAll, noted, kFusedAttention, kOfAttention},
    {"torch_dtype", kAll, noted, kHalfTypes, kOfType},
    {"dtype", kAll, noted, kHalfTypes, kOfType},
    // Another model than a decoder whose layers are alike.
    {"architectures", kAll, noted, {}, "a language model with an output matrix is estimated"},
    {"auto_map", kAll, noted, "{}", "the model's own code, which is not read, may compute something else"},
    {"is_decoder", kAll, without_effect},
    {"is_encoder_decoder", kAll, refused, "false", "encoders are not supported"},
    {"tie_encoder_decoder", kAll, without_effect},
    {"add_cross_attention", kAll, refused, "false", "attention to an encoder is not supported"},
    {"cross_attention_hidden_size", kAll, without_effect},
    {"per_layer_config", kAll, refused, "{}", "layers with settings of their own are not supported"},
    {"pruned_heads", kAll, refused, "{}", "layers without some of their heads are not supported"},
    {"quantization_config", kAll, refused, "{}", kOfQuantised},
    {"compression_config", kAll, refused, "{}", kOfQuantised},
});

/// A member of which the trainer computes some values alone.
struct TrainedMember {
  std::string_view name;
  unsigned families = 0;
  std::string_view values = {};  ///< as they are written, separated by `|`
  std::string_view what = {};    ///< of another value; empty: that only these are supported
  std::string_view fix = {};
};

constexpr unsigned kTrainedLlama = kLlama | kMistral;
constexpr unsigned kTrained = kTrainedLlama | kGpt2;
constexpr std::string_view kNoDropout = "dropout is not supported in training";
constexpr std::string_view kDropoutFix = "set it to 0";

constexpr auto kTrainedMembers = std::to_array<TrainedMember>({
    {"architectures", kTrained, {}, {}, "give the config.json of a language model"},
    {"auto_map", kTrained, "{}", "the model's own code may compute something else", "remove it if it does not"},
    {"hidden_act", kTrainedLlama, "silu|swish"},
    {"activation_function", kGpt2, "gelu_new"},
    {"attention_dropout", kTrainedLlama, "0", kNoDropout, kDropoutFix},
    {"resid_pdrop", kGpt2, "0", kNoDropout, kDropoutFix},
    {"embd_pdrop", kGpt2, "0", kNoDropout, kDropoutFix},
    {"attn_pdrop", kGpt2, "0", kNoDropout, kDropoutFix},
    {"rope_interleaved", kLlama, "false"},
    {"partial_rotary_factor", kTrainedLlama, "1"},
    {"scale_attn_weights", kGpt2, "true"},
    {"scale_attn_by_inverse_layer_idx", kGpt2, "false"},
    {"reorder_and_upcast_attn", kGpt2, "false"},
});

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

bool same_value(std::string_view written, std::string_view harmless) {
  if (written == harmless) return true;
  const std::optional<double> number = parse_number(written);
  return number && number == parse_number(harmless);
}

bool is_one_of(std::string_view written, std::string_view harmless) {
  while (true) {
    const std::size_t bar = harmless.find('|');
    if (same_value(written, harmless.substr(0, bar))) return true;
    if (bar == std::string_view::npos) return false;
    harmless.remove_prefix(bar + 1);
  }
}

/// `silu|swish` as `silu or swish`.
std::string any_of(std::string_view values) {
  std::string text(values);
  for (std::size_t bar = text.find('|'); bar != std::string::npos; bar = text.find('|')) text.replace(bar, 1, " or ");
  return text;
}

bool is_harmless(const ConfigMembers& members, const TransformerFamily& family, const ConfigMember& member) {
  const std::string_view harmless = member.name == "architectures" ? family.architecture : member.harmless;
  if (members.has(member.name)) return is_one_of(members.written(member.name), harmless);
  return member.missing.empty();
}

/// Names and values of members, by the text that their common note says of them.
using Notes = std::map<std::string_view, std::vector<std::string>>;

void take_note(const ConfigMembers& members, const TransformerFamily& family, const ConfigMember& member,
               Notes& notes) {
  if (is_harmless(members, family, member)) return;
  const bool given = members.has(member.name);
  notes[member.what].push_back(
      fmt::format("{} {}", member.name,
                  given ? printable(members.written(member.name)) : fmt::format("{} (missing)", member.missing)));
}

/// Whether a member switches off something that the family does not have anyway.
bool is_off(const ConfigMembers& members, std::string_view key) {
  return !members.has(key) || is_one_of(members.written(key), "false|0|[]|{}|");
}

/// Members in no list. A file with many of them describes something else; the note names only the first ones.
std::optional<std::string> note_on_others(const ConfigMembers& members, const TransformerFamily& family) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> others;
  std::size_t more = 0;
  for (const std::string& key : members.keys()) {
    if (is_off(members, key) || changes_nothing(key) || find_member(family, key) != nullptr) continue;
    if (others.size() < kMost) {
      others.push_back(printable(key));
    } else {
      ++more;
    }
  }
  if (others.empty()) return std::nullopt;
  return fmt::format("ignored, since {} does not have {}: {}{}", family.model_type,
                     others.size() + more == 1 ? "it" : "them", fmt::join(others, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

void require_trained_value(const ConfigMembers& members, const TransformerFamily& family, const TrainedMember& member) {
  const std::string_view values = member.name == "architectures" ? family.architecture : member.values;
  if (members.has(member.name)) {
    const std::string written = members.written(member.name);
    if (is_one_of(written, values)) return;
    members.fail(member.name,
                 member.what.empty()
                     ? fmt::format("{} is not supported in training, only {}", quote(written), any_of(values))
                     : std::string(member.what),
                 member.fix);
  }
  const ConfigMember* const known = find_member(family, member.name);
  if (known->missing.empty() || is_one_of(known->missing, values)) return;
  members.fail("model_type", fmt::format("{} is missing, which means {}: {}", member.name, known->missing, member.what),
               member.fix);
}

}  // namespace

std::span<const TransformerFamily> transformer_families() { return kFamilies; }

std::span<const ConfigMember> config_members() { return kMembers; }

const ConfigMember* find_member(const TransformerFamily& family, std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kMembers, [&](const ConfigMember& member) { return (member.families & family.bit) != 0 && member.name == name; });
  return found == kMembers.end() ? nullptr : found;
}

bool changes_nothing(std::string_view member) {
  return member.starts_with("summary_") || std::ranges::find(kWithoutEffect, member) != kWithoutEffect.end();
}

std::vector<std::string> estimate_notes(const ConfigMembers& members, const TransformerFamily& family, bool windowed) {
  Notes notes;
  for (const ConfigMember& member : kMembers) {
    if ((member.families & family.bit) == 0) continue;
    const bool noted =
        member.verdict == MemberVerdict::noted || (member.verdict == MemberVerdict::noted_with_windows && windowed);
    if (noted) take_note(members, family, member, notes);
  }
  std::vector<std::string> texts;
  for (const auto& [what, names] : notes) texts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), what));
  if (std::optional<std::string> others = note_on_others(members, family)) texts.push_back(std::move(*others));
  return texts;
}

void require_supported_members(const ConfigMembers& members, const TransformerFamily& family) {
  for (const ConfigMember& member : kMembers) {
    if ((member.families & family.bit) == 0 || member.verdict != MemberVerdict::refused) continue;
    if (!is_harmless(members, family, member)) members.fail(member.name, member.what);
  }
}

void require_trained_members(const ConfigMembers& members, const TransformerFamily& family) {
  for (const TrainedMember& member : kTrainedMembers) {
    if ((member.families & family.bit) != 0) require_trained_value(members, family, member);
  }
  for (const std::string& key : members.keys()) {
    if (!members.has(key) || changes_nothing(key) || find_member(family, key) != nullptr) continue;
    members.fail(key, fmt::format("{} is not known, and might change the result", quote(key)),
                 "remove it if it does not");
  }
}

bool is_eadt_config(const YamlView& root) {
  if (root.has("model")) return false;
  const auto has_section = [&root](std::string_view key) { return root.has(key) && root.at(key).is_map(); };
  return has_section("training") || has_section("deepspeed") || has_section("mps") || root.has("model_name_or_path");
}

}  // namespace lowgear::model
