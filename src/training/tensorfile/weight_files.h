#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "training/tensorfile/safetensors.h"

namespace lowgear::tensorfile {

/// The weights of a model as Hugging Face transformers saves them: one safetensors file, or several with an index
/// (`model.safetensors.index.json`) of the tensors of each.
class WeightFiles {
 public:
  /// `path` is a folder with `model.safetensors` or `model.safetensors.index.json` (the first is taken when both are
  /// there), or such a file itself; a file whose name ends with `.json` is read as an index. Throws InputError when
  /// there is none, when the index names a file outside its own folder or a tensor that its file does not have, when
  /// two files have one tensor, or as SafetensorsFile.
  [[nodiscard]] static WeightFiles open(const std::filesystem::path& path);

  /// Null when there is no such tensor. Valid as long as this object, also when it is moved.
  [[nodiscard]] const TensorView* find(std::string_view name) const;
  /// As `find`; throws InputError naming the files when there is no such tensor.
  [[nodiscard]] const TensorView& at(std::string_view name) const;
  /// All tensors by name, also those that an index leaves out: the reader knows whether they belong to the model.
  [[nodiscard]] const std::map<std::string, const TensorView*, std::less<>>& tensors() const { return tensors_; }

 private:
  void read_index();

  std::filesystem::path path_;  ///< of the file or the index
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const TensorView*, std::less<>> tensors_;
};

}  // namespace lowgear::tensorfile
