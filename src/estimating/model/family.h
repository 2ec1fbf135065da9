#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::model {

/// A member of the config.json of a family. Values are as they are written; sets of them are separated by `|`.
struct ConfigMember {
  std::string name;
  std::string is = {};  ///< the part of the description that it states (config_reader.cpp); empty: none
  bool alias = false;   ///< another name of a member with the same part
  std::optional<std::string> missing = {};  ///< the value that transformers takes where it is missing

  std::string harmless = {};       ///< values that an estimate counts, or that change no costs
  std::string note = {};           ///< what an estimate does with other values; empty: it counts them all
  bool only_with_windows = false;  ///< the note is for models with windowed layers

  std::optional<std::string> only = {};     ///< values that the trainer computes; empty: all
  std::optional<std::string> refused = {};  ///< the only values that neither trainer nor estimator refuses
  std::string what = {};                    ///< of the refusal
  std::string fix = {};
};

/// Layers of a family that have its window.
enum class WindowRule : unsigned char {
  none,              ///< without layer_types
  all,               ///< whatever other members say
  from,              ///< from `max_window_layers` on
  every_other_below  ///< the first, third, ... before it
};

/// Names of a model's tensors in its files, without `.weight` and `.bias`; those of layers follow `layer`, those of
/// experts follow `expert`.
struct TensorNames {
  bool transposed = false;   ///< matrices of layers are [inputs, outputs]
  bool qkv_by_head = false;  ///< rows of `qkv` are a query, a key and a value of each head in turn
  std::string prefix;        ///< of the model without its head
  std::string embedding;
  std::string token_types;
  std::string positions;
  std::string embedding_norm;
  std::string relative_positions;
  std::string project_in;  ///< from the embedding's width to the layers'
  std::string layer;       ///< `{}` is its number
  std::string attention_norm;
  std::vector<std::string> qkv;  ///< three, or all in one
  std::string query_norm;
  std::string key_norm;
  std::string attention_out;
  std::string cross_norm;               ///< before attention to an encoder's output
  std::string cross_query;              ///< of what attends
  std::vector<std::string> cross_keys;  ///< keys and values, of what it attends to
  std::string cross_out;
  std::string mlp_norm;
  std::vector<std::string> mlp_in;    ///< gate and up, both in one, or up alone
  std::vector<std::string> gated_in;  ///< instead, where `mlp_in` is of a plain MLP, and members choose
  std::string mlp_out;
  std::string router;
  std::string expert;  ///< `{}` is its number
  std::vector<std::string> expert_in;
  std::string expert_out;
  std::vector<std::string> shared_in;
  std::string shared_out;
  std::string shared_router;
  std::string head_transform;
  std::string final_norm;
  std::string project_out;
  std::string output;
  std::string output_bias;          ///< with `.bias`; empty: none
  std::vector<std::string> others;  ///< beginnings of names in files that are not of the language model
};

/// A family of transformers: a file of `families/`, which may begin with the contents of another one (`like`).
struct Family {
  std::string model_type;
  std::string architecture;  ///< the class that is a language model
  ModelConfig blocks;        ///< the description without what its members state
  WindowRule window_rule = WindowRule::none;
  std::vector<ConfigMember> members;
  TensorNames tensors;
  TensorNames decoder_tensors;  ///< of the layers after an encoder and the head; else the same

  /// The member of this name, or null.
  [[nodiscard]] const ConfigMember* find(std::string_view member) const;
};

/// All families, by model_type.
[[nodiscard]] const std::vector<Family>& families();

/// Null where there is none.
[[nodiscard]] const Family* find_family(std::string_view model_type);

/// That of a description.
[[nodiscard]] const Family& family_of(const ModelConfig& config);

/// The names of a layer's tensors.
[[nodiscard]] const TensorNames& layer_names(const ModelConfig& config, std::int64_t layer);

/// Whether a member changes nothing that training computes, whatever its value, in all families: who made the file,
/// special tokens, generation, initial weights, options that save memory.
[[nodiscard]] bool changes_nothing(std::string_view member);

/// A file of `families/`, embedded when the module was built, or `families.txt`, the names of all others. Throws
/// std::out_of_range when there is none of that name.
[[nodiscard]] std::string_view family_file(std::string_view name);

}  // namespace lowgear::model
