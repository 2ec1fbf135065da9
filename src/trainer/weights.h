#pragma once

#include <filesystem>

#include "model/model_config.h"
#include "trainer/parameter_store.h"
#include "trainer/transport.h"

namespace lowgear {

/// Gives the store the weights of a model that Hugging Face transformers has saved as safetensors: a folder or a file
/// (see WeightFiles), fp32, bf16 or fp16. Names may lack the prefix of the base model, as GPT-2's files do; buffers
/// that some files hold beside the parameters are passed over. Throws InputError naming file and tensor when one is
/// missing, of another type or shape than the model's, or none of the model's.
void load_weights(const std::filesystem::path& path, const ModelConfig& config, ParameterStore& store);

/// A position in a pipeline.
struct PipelinePosition {
  int index = 0;
  int count = 1;
};

/// Writes the weights of all ranks, in the store's type, as a folder that Hugging Face transformers loads: a
/// config.json and a model.safetensors, or with several pipeline ranks a file of each and an index. An earlier export
/// is replaced; the folder is complete or what it was. A meeting of all ranks; all throw Error when one cannot write,
/// and what require_export_folder throws.
void export_weights(const std::filesystem::path& folder, const ModelConfig& config, const ParameterStore& store,
                    PipelinePosition position, const Communicators& ranks);

/// Throws InputError when `folder` is there and is neither empty nor an earlier export: a config.json and weights, as
/// export_weights names them, and nothing else.
void require_export_folder(const std::filesystem::path& folder);

}  // namespace lowgear
