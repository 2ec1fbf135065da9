#include "training/launcher/model_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "base/core/error.h"
#include "estimating/model/parameters.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

/// What transformers has saved besides the parameters: masks and rotary frequencies, which follow from the model.
constexpr auto kBuffers = std::to_array<std::string_view>(
    {".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"});

[[noreturn]] void fail_tensor(const fs::path& path, std::string_view tensor, std::string_view what) {
  throw_input_error({path.string(), 0, 0}, fmt::format("tensor {}: {}", quote(tensor), what),
                    "give the weights of the model that the config.json describes");
}

std::string_view without_prefix(std::string_view name, const model::ModelConfig& config) {
  const std::string_view prefix = base_prefix(config);
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

/// The name of a parameter in files that were made from TensorFlow's (the published ones of BERT); else itself.
std::string old_name(std::string_view name) {
  constexpr std::string_view kNorm = "LayerNorm.";
  for (const auto& [ending, old] :
       {std::pair<std::string_view, std::string_view>{"weight", "gamma"}, {"bias", "beta"}}) {
    if (name.ends_with(fmt::format("{}{}", kNorm, ending))) {
      return fmt::format("{}{}", name.substr(0, name.size() - ending.size()), old);
    }
  }
  return std::string(name);
}

/// Of no parameter of the language model, or a copy of one.
bool is_besides(std::string_view name, const model::ModelConfig& config) {
  return std::ranges::any_of(kBuffers, [name](std::string_view ending) { return name.ends_with(ending); }) ||
         std::ranges::any_of(family_of(config).tensors.others,
                             [name](const std::string& beginning) { return name.starts_with(beginning); });
}

/// Files of another model may hold all that is asked for, and more.
void require_no_others(const fs::path& path, const tensorfile::WeightFiles& files, const model::ModelConfig& config,
                       const std::vector<model::ParameterSpec>& specs) {
  std::set<std::string, std::less<>> known;
  for (const model::ParameterSpec& spec : specs) {
    known.emplace(without_prefix(spec.name, config));
    known.emplace(without_prefix(old_name(spec.name), config));
  }
  if (config.tied_embeddings) known.emplace(family_of(config).tensors.output + ".weight");
  for (const auto& [name, tensor] : files.tensors()) {
    if (is_besides(name, config) || known.contains(without_prefix(name, config))) continue;
    fail_tensor(path, name, "the model has none of this name");
  }
}

const tensorfile::TensorView& find(const fs::path& path, const tensorfile::WeightFiles& files, const std::string& name,
                                   const model::ModelConfig& config) {
  const std::string_view bare_name = without_prefix(name, config);
  const tensorfile::TensorView* const bare = files.find(bare_name);
  if (bare != nullptr && bare_name != name && files.find(name) != nullptr) {
    fail_tensor(path, bare_name, fmt::format("is there as {}, too, which is another name of it", quote(name)));
  }
  if (bare != nullptr) return *bare;
  const tensorfile::TensorView* const old = files.find(old_name(name));
  return old != nullptr ? *old : files.at(name);
}

void require_fits(const fs::path& path, const tensorfile::TensorView& tensor, const model::ParameterSpec& spec) {
  const tensorfile::TensorType type = tensor.type;
  if (type != tensorfile::TensorType::f32 && type != tensorfile::TensorType::bf16 &&
      type != tensorfile::TensorType::f16) {
    fail_tensor(path, tensor.name, fmt::format("expected F32, BF16 or F16, not {}", name(type)));
  }
  if (tensor.shape != spec.shape) {
    fail_tensor(
        path, tensor.name,
        fmt::format("expected the shape [{}], not [{}]", fmt::join(spec.shape, ", "), fmt::join(tensor.shape, ", ")));
  }
}

/// Whether a number has an exponent of ones, as NaN and infinity have.
template <typename Word>
bool has_number_with(std::span<const std::byte> data, Word exponent) {
  for (std::size_t i = 0; i + sizeof(Word) <= data.size(); i += sizeof(Word)) {
    Word word;
    std::memcpy(&word, data.data() + i, sizeof word);
    if ((word & exponent) == exponent) return true;
  }
  return false;
}

bool is_finite(const tensorfile::TensorView& tensor) {
  if (tensor.type == tensorfile::TensorType::f32) return !has_number_with<std::uint32_t>(tensor.data, 0x7F800000U);
  const bool narrow = tensor.type == tensorfile::TensorType::f16;
  return !has_number_with<std::uint16_t>(tensor.data, narrow ? 0x7C00U : 0x7F80U);
}

}  // namespace

ModelWeights::ModelWeights(tensorfile::WeightFiles files,
                           std::map<std::string, const tensorfile::TensorView*, std::less<>> tensors)
    : files_(std::move(files)), tensors_(std::move(tensors)) {}

ModelWeights ModelWeights::open(const fs::path& path, const model::ModelConfig& config) {
  tensorfile::WeightFiles files = tensorfile::WeightFiles::open(path);
  const std::vector<model::ParameterSpec> specs = parameters(config);
  require_no_others(path, files, config, specs);
  std::map<std::string, const tensorfile::TensorView*, std::less<>> tensors;
  for (const model::ParameterSpec& spec : specs) {
    const tensorfile::TensorView& tensor = find(path, files, spec.name, config);
    require_fits(path, tensor, spec);
    tensors.emplace(spec.name, &tensor);
  }
  return {std::move(files), std::move(tensors)};
}

const tensorfile::TensorView& ModelWeights::at(std::string_view parameter) const {
  const auto found = tensors_.find(parameter);
  if (found == tensors_.end()) throw Error(fmt::format("the model has no parameter {}", quote(parameter)));
  return *found->second;
}

std::string ModelWeights::non_finite_parameter() const {
  const auto found = std::ranges::find_if(tensors_, [](const auto& entry) { return !is_finite(*entry.second); });
  return found == tensors_.end() ? "" : found->first;
}

}  // namespace lowgear::launcher
