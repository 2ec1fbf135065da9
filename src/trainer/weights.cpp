#include "trainer/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "model/parameters.h"
#include "tensorfile/safetensors_writer.h"
#include "tensorfile/weight_files.h"
#include "trainer/job_folder.h"
#include "trainer/sharding.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;
using torch::autograd::AutoGradMode;

constexpr std::string_view kConfigName = "config.json";
constexpr std::string_view kWholeName = "model.safetensors";
constexpr std::string_view kIndexName = "model.safetensors.index.json";

/// What transformers has saved beside the parameters: masks and rotary frequencies, which follow from the model.
constexpr std::array<std::string_view, 3> kBuffers = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};

[[noreturn]] void fail(const fs::path& path, std::string_view tensor, std::string_view what) {
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
void require_no_others(const fs::path& path, const WeightFiles& files, const ModelConfig& config) {
  std::set<std::string, std::less<>> known;
  for (const ParameterSpec& spec : parameters(config)) {
    known.emplace(without_prefix(spec.name, config.architecture));
  }
  if (config.tied_embeddings) known.emplace("lm_head.weight");
  for (const auto& [name, tensor] : files.tensors()) {
    if (is_buffer(name) || known.contains(without_prefix(name, config.architecture))) continue;
    fail(path, name, "the model has none of this name");
  }
}

const TensorView& find(const WeightFiles& files, const std::string& name, const ModelConfig& config) {
  const TensorView* const bare = files.find(without_prefix(name, config.architecture));
  return bare != nullptr ? *bare : files.at(name);
}

std::optional<at::ScalarType> scalar_type(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return at::kFloat;
    case TensorType::f16:
      return at::kHalf;
    case TensorType::bf16:
      return at::kBFloat16;
    default:
      return std::nullopt;
  }
}

/// As files have it.
std::vector<std::int64_t> file_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape = whole_shape(parameter);
  if (parameter.transposed) std::swap(shape.at(0), shape.at(1));
  return shape;
}

/// The whole tensor as the computation has it, in the type of the file.
at::Tensor whole_tensor(const fs::path& path, const TensorView& tensor, const Parameter& parameter) {
  const auto type = scalar_type(tensor.type);
  if (!type) fail(path, tensor.name, fmt::format("expected F32, BF16 or F16, not {}", name(tensor.type)));
  const std::vector<std::int64_t> expected = file_shape(parameter);
  if (tensor.shape != expected) {
    fail(path, tensor.name,
         fmt::format("expected the shape [{}], not [{}]", fmt::join(expected, ", "), fmt::join(tensor.shape, ", ")));
  }
  const at::Tensor values = at::empty(expected, at::TensorOptions(*type));
  std::memcpy(values.data_ptr(), tensor.data.data(), tensor.data.size());
  return parameter.transposed ? values.t() : values;
}

/// The whole tensor of which tensor-parallel ranks hold parts, as files have it. A meeting of these ranks.
at::Tensor gathered(const Parameter& parameter, Collective& group) {
  at::Tensor whole = parameter.value.detach();
  if (parameter.shard.split()) {
    const at::Tensor all = at::empty({parameter.count() * group.size()}, whole.options());
    group.all_gather(all, whole.flatten());
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : all.chunk(group.size())) parts.push_back(part.view(parameter.shape));
    whole = whole_of(parts, parameter.shard);
  }
  return (parameter.transposed ? whole.t() : whole).to(at::kCPU).contiguous();
}

std::string file_name(const PipelinePosition& position) {
  if (position.count == 1) return std::string(kWholeName);
  return fmt::format("model-{:05}-of-{:05}.safetensors", position.index + 1, position.count);
}

std::vector<TensorSpec> tensors_of(const ParameterStore& store) {
  const bool narrow = store.values().scalar_type() == at::kBFloat16;
  std::vector<TensorSpec> specs;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.tied_copy) continue;
    specs.push_back({parameter.name, narrow ? TensorType::bf16 : TensorType::f32, file_shape(parameter)});
  }
  return specs;
}

/// One file of weights. Ranks of the tensor-parallel group meet for every parameter, whether or not the first one,
/// which writes, can do so.
void write_part(const fs::path& path, const ParameterStore& store, Collective& group) {
  const bool writes = group.rank() == 0;
  std::exception_ptr failure;
  const auto attempt = [&](const std::function<void()>& action) {
    if (failure || !writes) return;
    try {
      action();
    } catch (...) {
      failure = std::current_exception();
    }
  };
  std::optional<SafetensorsWriter> writer;
  attempt([&] { writer.emplace(path, tensors_of(store), TensorMetadata{{"format", "pt"}}); });
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.tied_copy) continue;
    const at::Tensor values = gathered(parameter, group);
    attempt([&] {
      writer->write(parameter.name, {static_cast<const std::byte*>(values.data_ptr()), values.nbytes()});
    });
  }
  attempt([&] { writer->commit(); });
  if (failure) std::rethrow_exception(failure);
}

/// Whether it is a name that file_name gives with several pipeline ranks.
bool is_part_name(std::string_view name) {
  constexpr std::string_view kPattern = "model-00000-of-00000.safetensors";
  return std::ranges::equal(name, kPattern, [](char actual, char expected) {
    return expected == '0' ? '0' <= actual && actual <= '9' : actual == expected;
  });
}

/// Whether an export of any number of pipeline ranks may have written it.
bool is_of_an_export(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  std::error_code error;
  if (entry.symlink_status(error).type() != fs::file_type::regular) return false;
  return name == kConfigName || name == kWholeName || name == kIndexName || is_part_name(name);
}

/// Which tensor is in which file, from the files themselves.
std::string index_text(const fs::path& folder, int count) {
  Json map = Json::object();
  std::size_t bytes = 0;
  for (int position = 0; position < count; ++position) {
    const std::string name = file_name({position, count});
    const SafetensorsFile file = SafetensorsFile::open(folder / name);
    for (const TensorView& tensor : file.tensors()) {
      map[tensor.name] = name;
      bytes += tensor.data.size();
    }
  }
  return Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}}.dump(2) + "\n";
}

}  // namespace

void load_weights(const fs::path& path, const ModelConfig& config, ParameterStore& store) {
  const AutoGradMode no_gradient(false);
  const WeightFiles files = WeightFiles::open(path);
  require_no_others(path, files, config);
  for (Parameter& parameter : store.parameters()) {
    const TensorView& tensor = find(files, parameter.name, config);
    parameter.value.copy_(part_of(whole_tensor(path, tensor, parameter), parameter.shard));
  }
}

void export_weights(const fs::path& folder, const ModelConfig& config, const ParameterStore& store,
                    PipelinePosition position, const Communicators& ranks) {
  const AutoGradMode no_gradient(false);
  const auto write = [&](const fs::path& temporary) {
    if (ranks.data->rank() != 0) return;
    write_part(temporary / file_name(position), store, *ranks.tensor);
  };
  const auto finish = [&](const fs::path& temporary) {
    if (position.count > 1) {
      write_file_atomically(temporary / kIndexName, index_text(temporary, position.count));
    }
    write_file_atomically(temporary / kConfigName, to_json(config));
    // The folder goes as a whole: what has come to stand there while the job trained must not go with it.
    require_export_folder(folder);
  };
  write_together(*ranks.world, {.target = folder, .write = write, .finish = finish});
}

void require_export_folder(const fs::path& folder) {
  std::error_code error;
  const SourceLocation where{folder.string(), 0, 0};
  if (!fs::exists(folder, error)) return;
  if (!fs::is_directory(folder, error)) throw_input_error(where, "is there and is no folder", "name a folder");
  bool has_weights = false;
  bool has_config = false;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!is_of_an_export(*entry)) {
      throw_input_error(where, fmt::format("holds {}, which is no export's, so that it is not replaced", quote(name)),
                        "name a new or an empty folder");
    }
    has_config = has_config || name == kConfigName;
    has_weights = has_weights || name != kConfigName;
  }
  if (error) throw_input_error(where, fmt::format("cannot be read: {}", error.message()), "name another folder");
  if (has_weights == has_config) return;
  throw_input_error(
      where, fmt::format("holds {} alone, so that it is no earlier export", has_config ? "a config.json" : "weights"),
      "name a new or an empty folder");
}

}  // namespace lowgear
