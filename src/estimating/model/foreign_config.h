#pragma once

#include "base/core/formats/yaml.h"

namespace lowgear::model {

/// Whether a document is a configuration of *Energy-Adaptive Distributed Training* (`training_config.yaml`): it has a
/// section `training`, `deepspeed` or `mps`, or Hugging Face's `model_name_or_path`, and no `model`.
[[nodiscard]] bool is_eadt_config(const YamlView& root);

}  // namespace lowgear::model
