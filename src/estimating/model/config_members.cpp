#include "estimating/model/config_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace lowgear::model {

namespace {

constexpr auto kMembers = std::to_array<std::string_view>({
    // What the file was made with, and for which library.
    "model_type",
    "transformers_version",
    "_name_or_path",
    "_commit_hash",
    "_from_model_config",
    "_diffusers_version",
    "_comment",
    "name_or_path",
    "tokenizer_class",
    "torch_dtype",
    "dtype",
    "use_bfloat16",
    "torchscript",
    "tf_legacy_loss",
    "finetuning_task",
    "is_llama_config",
    "n_ctx",
    // How the same is computed.
    "attn_implementation",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_attn_implementation_internal",
    "_flash_attn_2_enabled",
    "_experts_implementation",
    "chunk_size_feed_forward",
    "gradient_checkpointing",
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

}  // namespace

bool changes_nothing(std::string_view member) {
  return member.starts_with("summary_") || std::ranges::find(kMembers, member) != kMembers.end();
}

std::string_view language_part(const std::function<bool(std::string_view)>& has) {
  constexpr auto kParts = std::to_array<std::string_view>({"text_config", "llm_config", "language_config"});
  const auto* const found = std::ranges::find_if(kParts, has);
  return found == kParts.end() ? "" : *found;
}

std::string fix_of_model_type(const std::function<bool(std::string_view)>& has, std::string_view known) {
  if (const std::string_view language = language_part(has); !language.empty()) {
    return fmt::format(
        "it has several parts, and {} describes its language model: write that object to a file of its own", language);
  }
  const bool parts = has("vision_config") || has("audio_config");
  return fmt::format("{}there are {}", parts ? "it has more parts than a language model; " : "", known);
}

bool is_eadt_config(const YamlView& root) {
  if (root.has("model")) return false;
  const auto has_section = [&root](std::string_view key) { return root.has(key) && root.at(key).is_map(); };
  return has_section("training") || has_section("deepspeed") || has_section("mps") || root.has("model_name_or_path");
}

}  // namespace lowgear::model
