#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"

namespace lowgear::estimator {

/// A model of the catalogue by name, as `llama-3-70b`, `gpt3-175b`, `mixtral-8x7b`; case, `-`, `_` and spaces are
/// ignored. Names of sizes in papers are known, too (`gpt3-xl`). Sizes come from the published config.json or paper of
/// each model (model_catalogue.cpp names the source). Throws InputError with the nearest names.
[[nodiscard]] model::ModelConfig named_model(std::string_view name);
[[nodiscard]] bool is_model_name(std::string_view name);

/// The names of the catalogue that another name may mean, such as a name on Hugging Face (`Meta-Llama-3-8B`).
[[nodiscard]] std::vector<std::string> models_meant_by(std::string_view name);

/// Names of the catalogue, by family, then size: for the tests, which check each.
[[nodiscard]] std::vector<std::string> model_names();

}  // namespace lowgear::estimator
