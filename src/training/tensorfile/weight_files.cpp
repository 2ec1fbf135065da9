#include "training/tensorfile/weight_files.h"

#include <fmt/format.h>

#include <string>
#include <system_error>
#include <unordered_map>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"

namespace lowgear::tensorfile {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingleName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";
/// Of an index: a line for each tensor.
constexpr std::size_t kMaxIndexBytes = 100'000'000;
constexpr std::size_t kMaxIndexValues = std::size_t{1} << 20;
/// Files of one model: each is kept open as a mapping.
constexpr std::size_t kMaxFiles = 4096;

fs::path file_in(const fs::path& folder) {
  for (const std::string_view name : {kSingleName, kIndexName}) {
    std::error_code error;
    if (fs::exists(folder / name, error)) return folder / name;
  }
  throw_input_error({folder.string(), 0, 0}, fmt::format("holds neither {} nor {}", kSingleName, kIndexName),
                    "name the folder of a model whose weights are saved as safetensors");
}

/// The index may only name files in its folder: it is often someone else's.
void require_plain_name(const JsonView& value, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    value.fail(fmt::format("{} is not a file in the folder of the index", quote(name)),
               "name a file in the same folder");
  }
}

}  // namespace

WeightFiles WeightFiles::open(const fs::path& path) {
  WeightFiles weights;
  std::error_code error;
  weights.path_ = fs::is_directory(path, error) ? file_in(path) : path;
  if (weights.path_.extension() == ".json") {
    weights.read_index();
  } else {
    weights.files_.push_back(SafetensorsFile::open(weights.path_));
    for (const TensorView& tensor : weights.files_.back().tensors()) weights.tensors_.emplace(tensor.name, &tensor);
  }
  return weights;
}

void WeightFiles::read_index() {
  const std::string source = path_.string();
  const Json document = parse_json(read_file(path_, kMaxIndexBytes), source, kMaxIndexValues);
  const JsonView map = JsonView(document, source).at("weight_map");
  if (!map.json().is_object()) map.fail("expected an object of tensors and their files");
  std::unordered_map<std::string, std::size_t> opened;
  for (const auto& [name, json] : map.json().get_ref<const Json::object_t&>()) {
    const JsonView value(json, source, fmt::format("$.weight_map[{}]", quote(name)));
    const std::string file = value.text();
    const auto [place, is_new] = opened.emplace(file, files_.size());
    if (is_new) {
      require_plain_name(value, file);
      if (files_.size() == kMaxFiles) value.fail(fmt::format("more than {} files", kMaxFiles));
      files_.push_back(SafetensorsFile::open(path_.parent_path() / file));
    }
    const TensorView* const tensor = files_[place->second].find(name);
    if (tensor == nullptr) {
      value.fail(fmt::format("{} has no such tensor", quote(file)), "copy all files of the model again");
    }
    tensors_.emplace(name, tensor);
  }
  // transformers loads the files whole: what the index leaves out is of another model, or of another place.
  for (const SafetensorsFile& file : files_) {
    for (const TensorView& tensor : file.tensors()) {
      const auto [known, is_new] = tensors_.emplace(tensor.name, &tensor);
      if (is_new || known->second == &tensor) continue;
      throw_input_error({file.path().string(), 0, 0},
                        fmt::format("the tensor {} is in another file, as {} says", quote(tensor.name), source),
                        "copy all files of the model again");
    }
  }
}

const TensorView* WeightFiles::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

const TensorView& WeightFiles::at(std::string_view name) const {
  const TensorView* const tensor = find(name);
  if (tensor == nullptr) {
    throw_input_error({path_.string(), 0, 0}, fmt::format("the tensor {} is missing", quote(name)),
                      "give the weights of the model that the config.json describes");
  }
  return *tensor;
}

}  // namespace lowgear::tensorfile
