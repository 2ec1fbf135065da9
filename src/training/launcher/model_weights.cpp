#include "training/launcher/model_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>

#include "base/core/error.h"
#include "estimating/model/parameters.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

/// What transformers has saved besides the parameters: masks and rotary frequencies, which follow from the model.
constexpr std::array<std::string_view, 3> kBuffers = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};

[[noreturn]] void fail_tensor(const fs::path& path, std::string_view tensor, std::string_view what) {
  throw_input_error({path.string(), 0, 0}, fmt::format("tensor {}: {}", quote(tensor), what),
                    "give the weights of the model that the config.json describes");
}

std::string_view without_prefix(std::string_view name, Architecture architecture) {
  const std::string_view prefix = base_prefix(architecture);
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

bool is_buffer(std::string_view name) {
  return std::ranges::any_of(kBuffers, [name](std::string_view ending) { return name.ends_with(ending); });
}

/// Files of another model may hold all that is asked for, and more.
void require_no_others(const fs::path& path, const WeightFiles& files, const ModelConfig& config,
                       const std::vector<ParameterSpec>& specs) {
  std::set<std::string, std::less<>> known;
  for (const ParameterSpec& spec : specs) known.emplace(without_prefix(spec.name, config.architecture));
  if (config.tied_embeddings) known.emplace("lm_head.weight");
  for (const auto& [name, tensor] : files.tensors()) {
    if (is_buffer(name) || known.contains(without_prefix(name, config.architecture))) continue;
    fail_tensor(path, name, "the model has none of this name");
  }
}

const TensorView& find(const WeightFiles& files, const std::string& name, const ModelConfig& config) {
  const TensorView* const bare = files.find(without_prefix(name, config.architecture));
  return bare != nullptr ? *bare : files.at(name);
}

void require_fits(const fs::path& path, const TensorView& tensor, const ParameterSpec& spec) {
  const TensorType type = tensor.type;
  if (type != TensorType::f32 && type != TensorType::bf16 && type != TensorType::f16) {
    fail_tensor(path, tensor.name, fmt::format("expected F32, BF16 or F16, not {}", name(type)));
  }
  if (tensor.shape != spec.shape) {
    fail_tensor(
        path, tensor.name,
        fmt::format("expected the shape [{}], not [{}]", fmt::join(spec.shape, ", "), fmt::join(tensor.shape, ", ")));
  }
}

}  // namespace

ModelWeights::ModelWeights(WeightFiles files, std::map<std::string, const TensorView*, std::less<>> tensors)
    : files_(std::move(files)), tensors_(std::move(tensors)) {}

ModelWeights ModelWeights::open(const fs::path& path, const ModelConfig& config) {
  WeightFiles files = WeightFiles::open(path);
  const std::vector<ParameterSpec> specs = parameters(config);
  require_no_others(path, files, config, specs);
  std::map<std::string, const TensorView*, std::less<>> tensors;
  for (const ParameterSpec& spec : specs) {
    const TensorView& tensor = find(files, spec.name, config);
    require_fits(path, tensor, spec);
    tensors.emplace(spec.name, &tensor);
  }
  return {std::move(files), std::move(tensors)};
}

const TensorView& ModelWeights::at(std::string_view parameter) const {
  const auto found = tensors_.find(parameter);
  if (found == tensors_.end()) throw Error(fmt::format("the model has no parameter {}", quote(parameter)));
  return *found->second;
}

}  // namespace lowgear
