#include "training/launcher/checkpoint_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/number.h"
#include "estimating/model/config_json.h"
#include "estimating/model/parameters.h"

namespace lowgear::launcher {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "lowgear.checkpoint/1";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::size_t kMaxDimensions = 8;
/// Of a parameter, so that no count of elements or bytes overflows.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;

std::int64_t integer_at(const JsonView& map, std::string_view key, std::int64_t low, std::int64_t high) {
  const JsonView view = map.at(key);
  const std::int64_t value = view.integer();
  if (value < low || value > high) view.fail(fmt::format("{} is not from {} to {}", value, low, high));
  return value;
}

int int_at(const JsonView& map, std::string_view key, int low, int high) { return map.at(key).integer_in(low, high); }

std::vector<std::int64_t> shape_at(const JsonView& map, std::string_view key) {
  const JsonView view = map.at(key);
  if (view.size() == 0 || view.size() > kMaxDimensions) view.fail("expected 1 to 8 dimensions");
  std::vector<std::int64_t> shape;
  std::int64_t left = kMaxElements;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const std::int64_t size = view.at(i).integer();
    if (size < 1 || size > left) view.at(i).fail(fmt::format("{} is not a size of a parameter", size));
    left /= size;
    shape.push_back(size);
  }
  return shape;
}

CheckpointPiece read_piece(const JsonView& view) {
  CheckpointPiece piece;
  piece.name = view.at("name").text();
  piece.shape = shape_at(view, "shape");
  piece.dimension = int_at(view, "dimension", -1, static_cast<int>(piece.shape.size()) - 1);
  piece.groups = int_at(view, "groups", 1, kMaxRanks);
  piece.parts = int_at(view, "parts", 1, kMaxRanks);
  piece.part = int_at(view, "part", 0, piece.parts - 1);
  piece.begin = integer_at(view, "begin", 0, kMaxElements);
  piece.end = integer_at(view, "end", piece.begin, kMaxElements);
  return piece;
}

/// A file next to the manifest, not one elsewhere.
void require_plain_name(const JsonView& view, const std::string& name) {
  if (name.empty() || name.starts_with('.') || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    view.fail(fmt::format("{} is not a file of a checkpoint", quote(name)));
  }
}

std::vector<CheckpointManifest::File> read_files(const JsonView& list) {
  std::vector<CheckpointManifest::File> files;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView view = list.at(i);
    CheckpointManifest::File file;
    file.name = view.at("name").text();
    require_plain_name(view.at("name"), file.name);
    file.bytes = integer_at(view, "bytes", 0, std::numeric_limits<std::int64_t>::max());
    files.push_back(std::move(file));
  }
  return files;
}

CheckpointData read_data(const JsonView& map) {
  // Far beyond any training, and far from overflow when further samples are counted.
  constexpr std::int64_t kMaxSamples = std::int64_t{1} << 62;
  constexpr std::int64_t kMaxTokens = std::int64_t{1} << 52;
  CheckpointData data;
  data.samples = integer_at(map, "samples", 0, kMaxSamples);
  data.sequence_length = integer_at(map, "sequence_length", 1, model::kMaxPositions);
  data.tokens = integer_at(map, "tokens", 1, kMaxTokens);
  data.fingerprint =
      static_cast<std::uint32_t>(integer_at(map, "fingerprint", 0, std::numeric_limits<std::uint32_t>::max()));
  return data;
}

Json data_json(const CheckpointData& data) {
  return {{"samples", data.samples},
          {"sequence_length", data.sequence_length},
          {"tokens", data.tokens},
          {"fingerprint", data.fingerprint}};
}

/// The step that a folder is named for; empty when it is no checkpoint's name.
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const auto step = parse_integer(std::string_view(name).substr(kStepPrefix.size()));
  if (!step || *step < 0 || name != checkpoint_folder_name(*step)) return std::nullopt;
  return *step;
}

[[noreturn]] void fail(const fs::path& path, std::string_view what, std::string_view fix) {
  throw_input_error({path.string(), 0, 0}, what, fix);
}

}  // namespace

std::int64_t part_elements(const CheckpointPiece& piece, const std::string& source) {
  std::int64_t elements = model::element_count(piece.shape);
  if (piece.parts > 1) {
    const std::int64_t split = piece.dimension < 0 ? 1 : piece.shape[static_cast<std::size_t>(piece.dimension)];
    const std::int64_t pieces = std::int64_t{piece.groups} * piece.parts;
    if (split % pieces != 0) {
      throw_input_error({source, 0, 0}, fmt::format("parameter {}: {} rows are not {} groups of {} parts",
                                                    quote(piece.name), split, piece.groups, piece.parts));
    }
    elements /= piece.parts;
  }
  if (piece.begin < 0 || piece.begin > piece.end || piece.end > elements) {
    throw_input_error({source, 0, 0}, fmt::format("parameter {}: elements {} to {} of a part that has {}",
                                                  quote(piece.name), piece.begin, piece.end, elements));
  }
  return elements;
}

std::string write_pieces(const std::vector<CheckpointPiece>& pieces) {
  Json list = Json::array();
  for (const CheckpointPiece& piece : pieces) {
    list.push_back({{"name", piece.name},
                    {"shape", piece.shape},
                    {"dimension", piece.dimension},
                    {"groups", piece.groups},
                    {"part", piece.part},
                    {"parts", piece.parts},
                    {"begin", piece.begin},
                    {"end", piece.end}});
  }
  return list.dump();
}

std::vector<CheckpointPiece> parse_pieces(std::string_view text, const std::string& source) {
  const Json document = parse_json(text, source);
  const JsonView list(document, source);
  std::vector<CheckpointPiece> pieces;
  for (std::size_t i = 0; i < list.size(); ++i) {
    pieces.push_back(read_piece(list.at(i)));
    (void)part_elements(pieces.back(), source);
  }
  return pieces;
}

std::string write_manifest(const CheckpointManifest& manifest) {
  Json files = Json::array();
  for (const auto& file : manifest.files) files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  const protocol::JobParallel& parallel = manifest.parallel;
  Json document = {
      {"format", kFormat},
      {"step", manifest.step},
      {"optimizer_steps", manifest.optimizer_steps},
      {"seed", manifest.seed},
      {"parallel", {{"pp", parallel.pp}, {"dp", parallel.dp}, {"tp", parallel.tp}, {"chunks", parallel.chunks}}},
      {"model", Json::parse(to_json(manifest.model))},
      {"files", std::move(files)}};
  if (manifest.frozen_blocks > 0) document["frozen_blocks"] = manifest.frozen_blocks;
  if (!manifest.freezing.empty()) document["freezing"] = Json::parse(manifest.freezing);
  if (manifest.data) document["data"] = data_json(*manifest.data);
  if (const auto& loss = manifest.loss_scale) {
    document["loss_scale"] = {{"scale", loss->scale}, {"good_steps", loss->good_steps}};
  }
  return document.dump(2) + "\n";
}

CheckpointManifest parse_manifest(std::string_view text, const std::string& source) {
  constexpr std::int64_t kMaxSteps = std::int64_t{1} << 52;
  const Json document = parse_json(text, source);
  const JsonView root(document, source);
  require_format(root, kFormat);
  CheckpointManifest manifest;
  manifest.step = integer_at(root, "step", 0, kMaxSteps);
  manifest.optimizer_steps = integer_at(root, "optimizer_steps", 0, kMaxSteps);
  manifest.seed = static_cast<std::uint64_t>(integer_at(root, "seed", 0, kMaxSteps));
  const JsonView parallel = root.at("parallel");
  manifest.parallel = {.pp = int_at(parallel, "pp", 1, kMaxRanks),
                       .dp = int_at(parallel, "dp", 1, kMaxRanks),
                       .tp = int_at(parallel, "tp", 1, kMaxRanks),
                       .chunks = int_at(parallel, "chunks", 1, kMaxRanks)};
  if (root.has("data")) manifest.data = read_data(root.at("data"));
  if (root.has("loss_scale")) {
    const JsonView loss = root.at("loss_scale");
    manifest.loss_scale = LossScaleState{.scale = number_in(loss.at("scale"), kLowestLossScale, kHighestLossScale),
                                         .good_steps = integer_at(loss, "good_steps", 0, kMaxSteps)};
  }
  manifest.model = model::parse_trainable_config(root.at("model").json().dump(), source + ": $.model");
  if (root.has("frozen_blocks")) {
    manifest.frozen_blocks = integer_at(root, "frozen_blocks", 0, manifest.model.layers);
  }
  if (root.has("freezing")) manifest.freezing = root.at("freezing").json().dump();
  manifest.files = read_files(root.at("files"));
  return manifest;
}

std::string checkpoint_folder_name(std::int64_t step) { return fmt::format("{}{:08}", kStepPrefix, step); }

std::vector<std::int64_t> complete_checkpoints(const fs::path& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error == std::errc::no_such_file_or_directory) return steps;
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const auto step = step_of(entries->path().filename().string());
    std::error_code ignored;
    if (step && fs::exists(entries->path() / kManifestName, ignored)) steps.push_back(*step);
  }
  if (error) fail(folder, fmt::format("cannot be read: {}", error.message()), "name a folder for checkpoints");
  std::ranges::sort(steps);
  return steps;
}

CheckpointManifest read_manifest(const fs::path& path) {
  const fs::path file = path / kManifestName;
  CheckpointManifest manifest = parse_manifest(read_file(file), file.string());
  for (const auto& part : manifest.files) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path / part.name, error);
    if (error) {
      fail(path / part.name, fmt::format("cannot be read: {}", error.message()),
           "delete this checkpoint to continue from an earlier one");
    }
    if (bytes != static_cast<std::uintmax_t>(part.bytes)) {
      fail(path / part.name, fmt::format("has {} bytes, and {} when it was written", bytes, part.bytes),
           "delete this checkpoint to continue from an earlier one");
    }
  }
  return manifest;
}

void require_same_training(const CheckpointManifest& manifest, const TrainConfig& config, const fs::path& path) {
  constexpr std::string_view kFix = "name another folder for the checkpoints of this training";
  model::ModelConfig saved = manifest.model;
  // Without a table of positions, the longest sequence is no part of what was trained.
  if (config.model.positions != model::PositionKind::learned) saved.max_positions = config.model.max_positions;
  const Json theirs = Json::parse(to_json(saved));
  const Json ours = Json::parse(to_json(config.model));
  for (const auto& [key, value] : ours.items()) {
    const auto other = theirs.find(key);
    if (other != theirs.end() && *other == value) continue;
    const std::string there = other == theirs.end() ? "not given" : other->dump();
    fail(path, fmt::format("is of another model: {} is {} there, and {} here", key, there, value.dump()), kFix);
  }
  if (manifest.seed != config.seed) {
    fail(path, fmt::format("was begun with seed {}, and the configuration has {}", manifest.seed, config.seed), kFix);
  }
}

CheckpointData checkpoint_data(const dataset::BatchSampler& sampler, std::int64_t samples) {
  return {.samples = samples,
          .sequence_length = sampler.options().sequence_length,
          .tokens = sampler.text().token_count(),
          .fingerprint = sampler.text().fingerprint()};
}

void require_same_data(const CheckpointData& saved, const CheckpointData& here, const fs::path& path) {
  constexpr std::string_view kFix =
      "continue with the data that it was trained on, or begin another training with its weights (see "
      "docs/training.md)";
  if (saved.sequence_length != here.sequence_length) {
    fail(path,
         fmt::format("was trained on sequences of {} tokens, and the configuration has {}", saved.sequence_length,
                     here.sequence_length),
         kFix);
  }
  if (saved.tokens != here.tokens) {
    fail(path,
         fmt::format("was trained on a text of {} tokens, and the configuration's has {}", saved.tokens, here.tokens),
         kFix);
  }
  if (saved.fingerprint != here.fingerprint) {
    fail(path, "was trained on another text than the configuration's, of as many tokens", kFix);
  }
}

}  // namespace lowgear::launcher
