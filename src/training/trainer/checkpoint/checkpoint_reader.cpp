#include "training/trainer/checkpoint/checkpoint_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "training/trainer/checkpoint/sharding.h"

namespace lowgear::trainer {
namespace {

constexpr std::string_view kTiedCopy = "lm_head.weight";

TensorShard shard_of(const launcher::CheckpointPiece& piece, int part) {
  return {.dimension = piece.dimension, .rank = part, .ranks = piece.parts, .groups = piece.groups};
}

std::vector<std::int64_t> part_shape(const launcher::CheckpointPiece& piece) {
  std::vector<std::int64_t> shape = piece.shape;
  if (piece.parts > 1) shape[static_cast<std::size_t>(piece.dimension)] /= piece.parts;
  return shape;
}

/// Whether pieces were cut from one parameter in the same way.
bool cut_alike(const launcher::CheckpointPiece& a, const launcher::CheckpointPiece& b) {
  return a.shape == b.shape && a.dimension == b.dimension && a.groups == b.groups && a.parts == b.parts;
}

}  // namespace

std::string saved_name(const Parameter& parameter) {
  return parameter.tied_copy ? std::string(kTiedCopy) : parameter.name;
}

std::string tensor_name(std::string_view moment, std::string_view parameter) {
  return fmt::format("{}.{}", moment, parameter);
}

CheckpointReader::CheckpointReader(std::filesystem::path path, const launcher::CheckpointManifest& manifest)
    : path_(std::move(path)) {
  files_.reserve(manifest.files.size());  // sources point to them
  for (const auto& listed : manifest.files) {
    const tensorfile::SafetensorsFile& file =
        files_.emplace_back(tensorfile::SafetensorsFile::open(path_ / listed.name));
    const auto pieces = file.metadata().find(std::string(kPiecesKey));
    if (pieces == file.metadata().end()) fail(file.path().string(), "it is not a file of a checkpoint");
    for (launcher::CheckpointPiece& piece : launcher::parse_pieces(pieces->second, file.path().string() + ": pieces")) {
      Sources& sources = sources_[piece.name];
      sources.push_back({std::move(piece), &file});
    }
  }
  for (auto& [name, sources] : sources_) {
    std::ranges::sort(sources, {},
                      [](const Source& source) { return std::pair(source.piece.part, source.piece.begin); });
    for (const Source& source : sources) {
      if (!cut_alike(source.piece, sources.front().piece)) {
        fail(source.file->path().string(),
             fmt::format("parameter {} is split differently in another file", quote(name)));
      }
    }
  }
}

at::Tensor CheckpointReader::read(const Parameter& parameter, std::string_view moment, std::int64_t begin,
                                  std::int64_t end) const {
  const Sources& sources = sources_of(parameter);
  const launcher::CheckpointPiece& cut = sources.front().piece;
  const bool split = parameter.shard.split();
  if (cut.parts == (split ? parameter.shard.ranks : 1)) {
    return read_part(sources, split ? parameter.shard.rank : 0, moment, begin, end);
  }
  std::vector<at::Tensor> parts;
  parts.reserve(static_cast<std::size_t>(cut.parts));
  const std::vector<std::int64_t> shape = part_shape(cut);
  for (int part = 0; part < cut.parts; ++part) {
    parts.push_back(read_part(sources, part, moment, 0, part_elements(cut, path_.string())).view(shape));
  }
  return part_of(whole_of(parts, shard_of(cut, 0)), parameter.shard).flatten().narrow(0, begin, end - begin);
}

/// Those of a parameter, which has the shape that the model gives it.
const CheckpointReader::Sources& CheckpointReader::sources_of(const Parameter& parameter) const {
  const auto found = sources_.find(saved_name(parameter));
  if (found == sources_.end()) fail(path_.string(), fmt::format("parameter {} is missing", quote(parameter.name)));
  const launcher::CheckpointPiece& cut = found->second.front().piece;
  const std::vector<std::int64_t> shape = whole_shape(parameter);
  const bool split_alike =
      cut.parts == 1 || (cut.dimension == parameter.shard.dimension && cut.groups == parameter.shard.groups);
  if (cut.shape != shape || !split_alike) {
    fail(found->second.front().file->path().string(),
         fmt::format("parameter {} is [{}] split along dimension {}, where the model has [{}]", quote(parameter.name),
                     fmt::join(cut.shape, ", "), cut.dimension, fmt::join(shape, ", ")));
  }
  return found->second;
}

/// Elements of a part, of which the pieces may be in several files.
at::Tensor CheckpointReader::read_part(const Sources& sources, int part, std::string_view moment, std::int64_t begin,
                                       std::int64_t end) const {
  at::Tensor values = at::empty({end - begin}, at::kFloat);
  std::int64_t done = begin;
  for (const auto& [piece, file] : sources) {
    if (piece.part != part || piece.end <= done || done == end) continue;
    if (piece.begin > done) break;
    const std::string name = tensor_name(moment, piece.name);
    const tensorfile::TensorView* const tensor = file->find(name);
    if (tensor == nullptr || tensor->type != tensorfile::TensorType::f32 ||
        tensor->data.size() != static_cast<std::size_t>(piece.end - piece.begin) * sizeof(float)) {
      fail(file->path().string(),
           fmt::format("tensor {} is missing or not {} elements of F32", quote(name), piece.end - piece.begin));
    }
    const std::int64_t stop = std::min(end, piece.end);
    const auto bytes = tensor->data.subspan(static_cast<std::size_t>(done - piece.begin) * sizeof(float),
                                            static_cast<std::size_t>(stop - done) * sizeof(float));
    std::memcpy(static_cast<float*>(values.data_ptr()) + (done - begin), bytes.data(), bytes.size());
    done = stop;
  }
  if (done < end) {
    fail(path_.string(), fmt::format("parameter {}: elements {} to {} of part {} are missing",
                                     quote(sources.front().piece.name), done, end, part));
  }
  return values;
}

void CheckpointReader::fail(const std::string& file, std::string_view what) const {
  throw_input_error({file, 0, 0}, what,
                    fmt::format("delete the checkpoint {} to continue from an earlier one", path_.filename().string()));
}

}  // namespace lowgear::trainer
