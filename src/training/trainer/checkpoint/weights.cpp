#include "training/trainer/checkpoint/weights.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/files/folder_manifest.h"
#include "base/core/formats/json.h"
#include "estimating/model/config_json.h"
#include "training/launcher/model_weights.h"
#include "training/launcher/output_paths.h"
#include "training/tensorfile/safetensors.h"
#include "training/trainer/checkpoint/job_folder.h"

namespace lowgear::trainer {

namespace {

namespace fs = std::filesystem;
using torch::autograd::AutoGradMode;

/// Of the types that ModelWeights takes.
at::ScalarType scalar_type(tensorfile::TensorType type) {
  if (type == tensorfile::TensorType::bf16) return at::kBFloat16;
  return type == tensorfile::TensorType::f16 ? at::kHalf : at::kFloat;
}

/// As files have it.
std::vector<std::int64_t> file_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape = whole_shape(parameter);
  if (parameter.transposed) std::swap(shape.at(0), shape.at(1));
  return shape;
}

/// The whole tensor as the computation has it, in the type of the file.
at::Tensor whole_tensor(const tensorfile::TensorView& tensor, const Parameter& parameter) {
  const at::Tensor values = at::empty(tensor.shape, at::TensorOptions(scalar_type(tensor.type)));
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

std::vector<tensorfile::TensorSpec> tensors_of(const ParameterStore& store) {
  const at::ScalarType type = store.values().scalar_type();
  const auto file_type = type == at::kBFloat16 ? tensorfile::TensorType::bf16
                         : type == at::kHalf   ? tensorfile::TensorType::f16
                                               : tensorfile::TensorType::f32;
  std::vector<tensorfile::TensorSpec> specs;
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.tied_copy) continue;
    specs.push_back({parameter.name, file_type, file_shape(parameter)});
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
  std::optional<tensorfile::SafetensorsWriter> writer;
  attempt([&] { writer.emplace(path, tensors_of(store), tensorfile::TensorMetadata{{"format", "pt"}}); });
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

/// Which tensor is in which file, from the files themselves.
std::string index_text(const fs::path& folder, int count) {
  Json map = Json::object();
  std::size_t bytes = 0;
  for (int position = 0; position < count; ++position) {
    const std::string name = launcher::export_file_name({position, count});
    const tensorfile::SafetensorsFile file = tensorfile::SafetensorsFile::open(folder / name);
    for (const tensorfile::TensorView& tensor : file.tensors()) {
      map[tensor.name] = name;
      bytes += tensor.data.size();
    }
  }
  return Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", std::move(map)}}.dump(2) + "\n";
}

}  // namespace

void load_weights(const fs::path& path, const model::ModelConfig& config, ParameterStore& store) {
  const AutoGradMode no_gradient(false);
  const launcher::ModelWeights weights = launcher::ModelWeights::open(path, config);
  for (Parameter& parameter : store.parameters()) {
    parameter.value.copy_(part_of(whole_tensor(weights.at(parameter.name), parameter), parameter.shard));
  }
}

void export_weights(const fs::path& folder, const model::ModelConfig& config, const ParameterStore& store,
                    launcher::PipelinePosition position, const Communicators& ranks) {
  const AutoGradMode no_gradient(false);
  const auto write = [&](const fs::path& temporary) {
    if (ranks.data->rank() != 0) return;
    write_part(temporary / export_file_name(position), store, *ranks.tensor);
  };
  const auto finish = [&](const fs::path& temporary) {
    if (position.count > 1) {
      write_file_atomically(temporary / launcher::kExportIndexName, index_text(temporary, position.count));
    }
    write_file_atomically(temporary / launcher::kExportConfigName, to_json(config));
    write_file_atomically(temporary / kFolderManifestName, write_folder_manifest(all_files(temporary)));
  };
  // The folder goes as a whole: what has come to stand there while the job trained must not go with it.
  const auto require_replaceable = [&] { launcher::require_export_folder(folder); };
  write_together(*ranks.world,
                 {.target = folder, .write = write, .finish = finish, .require_replaceable = require_replaceable});
}

void prepare_export(const fs::path& folder, Collective& world) {
  together(world, [&] {
    if (world.rank() != 0) return;
    launcher::require_export_folder(folder);
    // Makes and removes its parents, too.
    const StagedDirectory probe(folder, std::string(launcher::kExportConfigName));
    prepare_target(folder);
  });
}

namespace {

constexpr double kDeviation = 0.02;

/// FNV-1a: the same on every machine.
std::uint64_t hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t value = 14695981039346656037ULL ^ seed;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return value;
}

at::Tensor initial_values(const Parameter& parameter, std::int64_t layers, std::uint64_t seed) {
  const std::vector<std::int64_t> shape = whole_shape(parameter);
  if (!parameter.decays) return parameter.name.ends_with(".bias") ? at::zeros(shape) : at::ones(shape);
  const bool residual = parameter.linear == BlockLinear::attention_out || parameter.linear == BlockLinear::mlp_out;
  const double deviation = residual ? kDeviation / std::sqrt(2.0 * static_cast<double>(layers)) : kDeviation;
  return at::empty(shape).normal_(0, deviation, at::detail::createCPUGenerator(hash(parameter.name, seed)));
}

}  // namespace

std::vector<std::int64_t> whole_shape(const Parameter& parameter) {
  std::vector<std::int64_t> shape = parameter.shape;
  if (parameter.shard.split()) shape[static_cast<std::size_t>(parameter.shard.dimension)] *= parameter.shard.ranks;
  return shape;
}

at::Tensor part_of(const at::Tensor& whole, const TensorShard& shard) {
  if (!shard.split()) return whole;
  const std::int64_t group = whole.size(shard.dimension) / shard.groups;
  const std::int64_t width = group / shard.ranks;
  std::vector<at::Tensor> pieces;
  pieces.reserve(static_cast<std::size_t>(shard.groups));
  for (int i = 0; i < shard.groups; ++i) {
    pieces.push_back(whole.narrow(shard.dimension, i * group + shard.rank * width, width));
  }
  return at::cat(pieces, shard.dimension);
}

at::Tensor whole_of(const std::vector<at::Tensor>& parts, const TensorShard& shard) {
  if (!shard.split()) return parts.front();
  std::vector<at::Tensor> pieces;
  for (int i = 0; i < shard.groups; ++i) {
    for (const at::Tensor& part : parts) {
      const std::int64_t width = part.size(shard.dimension) / shard.groups;
      pieces.push_back(part.narrow(shard.dimension, i * width, width));
    }
  }
  return at::cat(pieces, shard.dimension);
}

void initialize(ParameterStore& store, std::int64_t layers, std::uint64_t seed) {
  const torch::autograd::AutoGradMode no_gradient(false);
  for (Parameter& parameter : store.parameters()) {
    parameter.value.copy_(part_of(initial_values(parameter, layers, seed), parameter.shard));
  }
}

}  // namespace lowgear::trainer
