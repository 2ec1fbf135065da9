#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "estimating/model/model_config.h"
#include "training/tensorfile/weight_files.h"

namespace lowgear::launcher {

/// The weights of a model that Hugging Face transformers has saved as safetensors: a folder or a file (see
/// WeightFiles), fp32, bf16 or fp16. Names may lack the prefix of the base model, as GPT-2's files do; buffers that
/// some files hold besides the parameters are ignored.
class ModelWeights {
 public:
  /// Reads the headers of the files alone. Throws InputError as WeightFiles, and naming files and tensor when one is
  /// missing, of another type or shape than the model's, or none of the model's.
  [[nodiscard]] static ModelWeights open(const std::filesystem::path& path, const model::ModelConfig& config);

  /// A parameter by the name that `parameters` gives it, as this object lives. Throws Error when the model has none of
  /// this name.
  [[nodiscard]] const tensorfile::TensorView& at(std::string_view parameter) const;

  /// The first parameter that holds NaN or infinity, by its name; empty when none does. Reads all of them.
  [[nodiscard]] std::string non_finite_parameter() const;

 private:
  ModelWeights(tensorfile::WeightFiles files,
               std::map<std::string, const tensorfile::TensorView*, std::less<>> tensors);

  tensorfile::WeightFiles files_;
  std::map<std::string, const tensorfile::TensorView*, std::less<>> tensors_;
};

}  // namespace lowgear::launcher
