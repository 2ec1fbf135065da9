#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "estimating/model/model_config.h"
#include "training/launcher/output_paths.h"
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

/// The shape of the whole parameter, as the computation has it.
[[nodiscard]] std::vector<std::int64_t> whole_shape(const Parameter& parameter);
/// This rank's part of a whole tensor.
[[nodiscard]] at::Tensor part_of(const at::Tensor& whole, const TensorShard& shard);
/// The inverse: the whole tensor from the parts of all ranks, in their order.
[[nodiscard]] at::Tensor whole_of(const std::vector<at::Tensor>& parts, const TensorShard& shard);

/// Random values as GPT-2 has them: matrices normal with deviation 0.02, divided by sqrt(2 layers) where a layer adds
/// to the residual stream; norms 1, biases 0. A parameter's values follow from seed and name alone, so that every
/// layout of ranks begins with the same model.
void initialize(ParameterStore& store, std::int64_t layers, std::uint64_t seed);

}  // namespace lowgear::trainer
