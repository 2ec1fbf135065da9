#pragma once

#include <filesystem>

#include "estimating/model/model_config.h"
#include "training/launcher/export_folder.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// Gives the store the weights at `path`. Throws InputError as ModelWeights.
void load_weights(const std::filesystem::path& path, const model::ModelConfig& config, ParameterStore& store);

/// Writes the weights of all ranks, in the store's type, as a folder that Hugging Face transformers loads: a
/// config.json and a model.safetensors, or with several pipeline ranks a file of each and an index. An earlier export
/// is replaced; the folder is complete or what it was. A meeting of all ranks; all throw Error when one cannot write,
/// and what require_export_folder throws.
void export_weights(const std::filesystem::path& folder, const model::ModelConfig& config, const ParameterStore& store,
                    launcher::PipelinePosition position, const Communicators& ranks);

/// Proves before a training that export_weights will be able to write to `folder`; leaves nothing behind. A meeting of
/// all ranks; all throw InputError when the folders above it cannot be made or written to, when nothing can be renamed
/// over it, and what require_export_folder throws.
void prepare_export(const std::filesystem::path& folder, Collective& world);

}  // namespace lowgear::trainer
