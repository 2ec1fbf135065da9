#pragma once

#include <string>
#include <string_view>

#include "estimating/model/config_members.h"
#include "estimating/model/model_config.h"

namespace lowgear::model {

/// Reads the config.json of Hugging Face transformers of the families in `families/`. Their files say for each member
/// what of the description it states, and whether it is noted, or refused by `estimable` or `trainable`. Missing
/// members have the defaults of transformers. Sizes must be given. Throws InputError with line and column on text that
/// is no JSON, and with the JSON path on a size that is missing, of the wrong type or out of bounds, on members that
/// contradict each other, and on an unknown model type.
[[nodiscard]] ModelConfig parse_model_config(std::string_view json, const std::string& source);

/// The same; throws InputError also if the model is not trainable.
[[nodiscard]] ModelConfig parse_trainable_config(std::string_view json, const std::string& source);

/// The same from members in any format. `name` is the name of the model.
[[nodiscard]] ModelConfig read_model_config(const ConfigMembers& members, std::string name);

/// A config.json of a trainable model that parse_model_config and transformers read as the same model.
[[nodiscard]] std::string to_json(const ModelConfig& config);

}  // namespace lowgear::model
