#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace lowgear::model {

/// Whether a member of a config.json changes nothing that training computes, whatever its value, in models of every
/// type: what the files were made with, special tokens, generation, how new weights are drawn, options that save
/// memory.
[[nodiscard]] bool changes_nothing(std::string_view member);

/// What to do about a model type that a reader does not have. `has` says whether the config.json has a member: models
/// of several parts keep that of their language in one of their own. `known` lists the types that there are.
[[nodiscard]] std::string fix_of_model_type(const std::function<bool(std::string_view)>& has, std::string_view known);

}  // namespace lowgear::model
