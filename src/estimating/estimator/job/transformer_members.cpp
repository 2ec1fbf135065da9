#include "estimating/estimator/job/transformer_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "base/core/error.h"
#include "base/core/numbers/number.h"
#include "estimating/model/config_members.h"

namespace lowgear::estimator {
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

constexpr unsigned kQwenMoe = kQwen2Moe | kQwen3Moe;
constexpr unsigned kQwen = kQwen2 | kQwen3 | kQwenMoe;
constexpr unsigned kMoe = kMixtral | kQwenMoe;
constexpr unsigned kWindowed = kMistral | kMixtral | kQwen;
/// Those after Llama: RMS norms, gated MLPs, grouped queries.
constexpr unsigned kGated = kLlama | kWindowed;
constexpr unsigned kRotary = kGated | kNeox;
/// Those of which transformers windows every layer, or none.
constexpr unsigned kAllWindowed = kMistral | kMixtral | kQwen3Moe;
constexpr unsigned kAll = kGated | kGpt2 | kNeox | kBloom;

constexpr auto kFamilies = std::to_array<TransformerFamily>({
    {"llama", kLlama, "LlamaForCausalLM"},
    {"mistral", kMistral, "MistralForCausalLM"},
    {"mixtral", kMixtral, "MixtralForCausalLM"},
    {"qwen2", kQwen2, "Qwen2ForCausalLM"},
    {"qwen2_moe", kQwen2Moe, "Qwen2MoeForCausalLM"},
    {"qwen3", kQwen3, "Qwen3ForCausalLM"},
    {"qwen3_moe", kQwen3Moe, "Qwen3MoeForCausalLM"},
    {"gpt2", kGpt2, "GPT2LMHeadModel"},
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
    // What the job says.
    {"gradient_checkpointing", kAll, noted, "false",
     "the recompute of the job counts instead (recompute, --recompute)"},
    {"_attn_implementation", kAll, noted, kFusedAttention, kOfAttention},
    {"attn_implementation", kAll, noted, kFusedAttention, kOfAttention},
    {"torch_dtype", kAll, noted, kHalfTypes, kOfType},
    {"dtype", kAll, noted, kHalfTypes, kOfType},
    // Another model than a decoder whose layers are alike.
    {"architectures", kAll, noted, {}, "a language model with an output matrix is estimated"},
    {"auto_map", kAll, noted, "{}", "code of its own, which is not looked at, may compute another model"},
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

bool is_harmless(const ConfigMembers& members, const TransformerFamily& family, const ConfigMember& member) {
  const std::string_view harmless = member.name == "architectures" ? family.architecture : member.harmless;
  if (members.has(member.name)) return is_one_of(members.written(member.name), harmless);
  return member.missing.empty();
}

/// What is noted alike is one note, of all members that it is about.
using Notes = std::map<std::string_view, std::vector<std::string>>;

void check(const ConfigMembers& members, const TransformerFamily& family, bool windowed, const ConfigMember& member,
           Notes& notes) {
  const bool says_something =
      member.verdict == refused || member.verdict == noted || (member.verdict == noted_with_windows && windowed);
  if (!says_something || is_harmless(members, family, member)) return;
  if (member.verdict == refused) members.fail(member.name, member.what);
  const bool there = members.has(member.name);
  notes[member.what].push_back(
      fmt::format("{} {}", member.name,
                  there ? printable(members.written(member.name)) : fmt::format("{} (missing)", member.missing)));
}

/// What switches off something that the family does not have anyway.
bool is_off(const ConfigMembers& members, std::string_view key) {
  return !members.has(key) || is_one_of(members.written(key), "false|0|[]|{}|");
}

/// Those that are in no list. A file with many of them is of something else, and need not be repeated.
std::optional<std::string> note_on_others(const ConfigMembers& members, const TransformerFamily& family) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> others;
  std::size_t more = 0;
  for (const std::string& key : members.keys()) {
    if (is_off(members, key) || model::changes_nothing(key) || find_member(family, key) != nullptr) continue;
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

}  // namespace

std::span<const TransformerFamily> transformer_families() { return kFamilies; }

std::span<const ConfigMember> config_members() { return kMembers; }

const ConfigMember* find_member(const TransformerFamily& family, std::string_view name) {
  const auto* const found = std::ranges::find_if(
      kMembers, [&](const ConfigMember& member) { return (member.families & family.bit) != 0 && member.name == name; });
  return found == kMembers.end() ? nullptr : found;
}

std::vector<std::string> check_members(const ConfigMembers& members, const TransformerFamily& family, bool windowed) {
  Notes notes;
  for (const ConfigMember& member : kMembers) {
    if ((member.families & family.bit) != 0) check(members, family, windowed, member, notes);
  }
  std::vector<std::string> texts;
  for (const auto& [what, names] : notes) texts.push_back(fmt::format("{}: {}", fmt::join(names, ", "), what));
  if (std::optional<std::string> others = note_on_others(members, family)) texts.push_back(std::move(*others));
  return texts;
}

}  // namespace lowgear::estimator
