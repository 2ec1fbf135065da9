#pragma once

#include "base/core/formats/yaml.h"

namespace lowgear::launcher {

struct TrainConfig;

/// Reads `type` and the sections `fp16` and `fp8` of the YAML file of `lowgear train` (docs/training.md). `config` has
/// its model, data, parallelism, microbatches and device. Throws InputError as parse_train_config.
void read_precision(const YamlView& root, TrainConfig& config);

}  // namespace lowgear::launcher
