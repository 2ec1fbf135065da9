#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/core/formats/yaml.h"

namespace lowgear::model {

/// Whether a member of a config.json changes nothing that training computes, whatever its value, in models of every
/// type: what the files were made with, special tokens, generation, how new weights are drawn, options that save
/// memory.
[[nodiscard]] bool changes_nothing(std::string_view member);

/// The member that describes the language model, of a model of several parts; empty where there is none. `has` says
/// whether the config.json has a member.
[[nodiscard]] std::string_view language_part(const std::function<bool(std::string_view)>& has);

/// Of that member, where no model_type stands next to it.
inline constexpr std::string_view kOfLanguagePart = "the language model of one with several parts, of no model_type";
inline constexpr std::string_view kFixOfLanguagePart = "write this object to a file of its own";

/// What to do about a model type that a reader does not have. `has` is that of language_part, `known` lists the types
/// that there are.
[[nodiscard]] std::string fix_of_model_type(const std::function<bool(std::string_view)>& has, std::string_view known);

/// Whether a document is a configuration of *Energy-Adaptive Distributed Training* (`training_config.yaml`): it has a
/// section `training`, `deepspeed` or `mps`, or Hugging Face's `model_name_or_path`, and no `model`.
[[nodiscard]] bool is_eadt_config(const YamlView& root);

}  // namespace lowgear::model
