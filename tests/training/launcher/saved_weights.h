#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "estimating/model/parameters.h"
#include "training/tensorfile/safetensors.h"

namespace lowgear::launcher {

inline model::ModelConfig small_gpt2() {
  model::ModelConfig model = model::gpt_model(8, 2, 2, 256, 16);
  model.tied_embeddings = true;
  return model;
}

/// Types and shapes of tensors by name.
using SavedTensors = std::map<std::string, tensorfile::TensorSpec>;

inline SavedTensors tensors_of(const model::ModelConfig& model) {
  SavedTensors tensors;
  for (const model::ParameterSpec& spec : parameters(model))
    tensors[spec.name] = {spec.name, tensorfile::TensorType::f32, spec.shape};
  return tensors;
}

/// A file of them, all zeros.
inline void save(const std::filesystem::path& path, const SavedTensors& tensors) {
  std::vector<std::vector<std::byte>> zeros;
  std::vector<tensorfile::TensorView> views;
  for (const auto& [name, spec] : tensors) {
    zeros.emplace_back(tensor_bytes(spec.type, spec.shape).value());
    views.push_back({name, spec.type, spec.shape, zeros.back()});
  }
  write_safetensors(path, views);
}

}  // namespace lowgear::launcher
