#include "training/trainer/checkpoint/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <system_error>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/tensorfile/safetensors.h"
#include "training/trainer/checkpoint/job_folder.h"
#include "training/trainer/checkpoint/weights.h"

namespace lowgear::trainer {

namespace {

namespace fs = std::filesystem;
using torch::autograd::AutoGradMode;

/// Saved values of a parameter, with their name in OptimizerState.
struct Moment {
  std::string_view name;
  at::Tensor values;  ///< of the state's stretch
};

constexpr std::array<std::string_view, 3> kMoments = {"master", "mean", "variance"};

std::array<Moment, 3> moments_of(OptimizerState& state) {
  return {{{kMoments[0], state.master}, {kMoments[1], state.mean}, {kMoments[2], state.variance}}};
}

/// Part of a parameter, and where it is in the buffers.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The state of one part of the buffers, and where the part is.
struct StatePart {
  OptimizerState* state = nullptr;
  Stretch place;
};

/// Trained and frozen parameters.
std::array<StatePart, 2> parts_of(const TrainingState& state) {
  const std::int64_t trained = state.store().trained();
  return {{{&state.optimizer->state(), {0, trained}},
           {&state.optimizer->frozen_state(), {trained, state.store().values().numel()}}}};
}

/// What this rank saves of a part of the buffers: its share among the replicas.
Stretch own_share(const StatePart& part, const Collective& replicas) {
  const std::int64_t held = part.state->master.numel();
  const std::int64_t all = part.place.end - part.place.begin;
  if (held < all) return {part.state->begin, part.state->begin + held};
  return {part.place.begin + all * replicas.rank() / replicas.size(),
          part.place.begin + all * (replicas.rank() + 1) / replicas.size()};
}

launcher::CheckpointPiece piece_of(const Parameter& parameter, const Stretch& stretch) {
  const TensorShard& shard = parameter.shard;
  return {.name = saved_name(parameter),
          .shape = whole_shape(parameter),
          .dimension = shard.split() ? static_cast<int>(shard.dimension) : -1,
          .groups = shard.split() ? shard.groups : 1,
          .part = shard.split() ? shard.rank : 0,
          .parts = shard.split() ? shard.ranks : 1,
          .begin = stretch.begin - parameter.offset,
          .end = stretch.end - parameter.offset};
}

/// A rank's file: which pieces, and from where in which state.
struct RankFile {
  std::vector<launcher::CheckpointPiece> pieces;
  std::vector<StatePart> places;
};

RankFile rank_file(const TrainingState& state, const Communicators& ranks) {
  RankFile file;
  for (const StatePart& part : parts_of(state)) {
    const Stretch share = own_share(part, *ranks.data);
    for (const Parameter& parameter : state.store().parameters()) {
      const Stretch place{std::max(parameter.offset, share.begin),
                          std::min(parameter.offset + parameter.count(), share.end)};
      // What tensor-parallel ranks hold alike is the first one's to save.
      const bool own = parameter.shard.split() || ranks.tensor->rank() == 0;
      if (!own || place.begin >= place.end) continue;
      file.pieces.push_back(piece_of(parameter, place));
      file.places.push_back({part.state, place});
    }
  }
  return file;
}

void write_rank_file(const fs::path& path, const RankFile& file) {
  std::vector<tensorfile::TensorSpec> specs;
  for (const std::string_view moment : kMoments) {
    for (const launcher::CheckpointPiece& piece : file.pieces) {
      specs.push_back({tensor_name(moment, piece.name), tensorfile::TensorType::f32, {piece.end - piece.begin}});
    }
  }
  tensorfile::SafetensorsWriter writer(path, specs, {{std::string(kPiecesKey), write_pieces(file.pieces)}});
  auto spec = specs.begin();
  for (std::size_t moment = 0; moment < kMoments.size(); ++moment) {
    for (const auto& [state, place] : file.places) {
      const at::Tensor values =
          moments_of(*state)[moment].values.narrow(0, place.begin - state->begin, place.end - place.begin).to(at::kCPU);
      writer.write((spec++)->name, {static_cast<const std::byte*>(values.data_ptr()), values.nbytes()});
    }
  }
  writer.commit();
}

void require_numbers(const TrainingState& state) {
  for (const StatePart& part : parts_of(state)) {
    for (const Moment& moment : moments_of(*part.state)) {
      if (std::isfinite(moment.values.sum().item<double>())) continue;
      throw Error("some values are not finite numbers: they are not saved");
    }
  }
}

std::string rank_file_name(int rank) { return fmt::format("rank-{:05}.safetensors", rank); }

std::string manifest_text(const fs::path& folder, const launcher::CheckpointManifest& base, int ranks) {
  launcher::CheckpointManifest manifest = base;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = rank_file_name(rank);
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(folder / name, error);
    if (error) {
      throw Error(
          fmt::format("{}: rank {} has written it, and it is not here: the ranks' machines must share the folder",
                      (folder / name).string(), rank));
    }
    manifest.files.push_back({name, static_cast<std::int64_t>(bytes)});
  }
  return write_manifest(manifest);
}

void read_state(const CheckpointReader& reader, const TrainingState& to) {
  for (const StatePart& part : parts_of(to)) {
    OptimizerState& state = *part.state;
    const std::int64_t end = state.begin + state.master.numel();
    for (const Parameter& parameter : to.store().parameters()) {
      const std::int64_t first = std::max(parameter.offset, state.begin);
      const std::int64_t last = std::min(parameter.offset + parameter.count(), end);
      if (first >= last) continue;
      for (const Moment& moment : moments_of(state)) {
        moment.values.narrow(0, first - state.begin, last - first)
            .copy_(reader.read(parameter, moment.name, first - parameter.offset, last - parameter.offset));
      }
    }
  }
}

/// Samples continue after those that a checkpoint has taken.
void go_on_behind(const launcher::CheckpointManifest& manifest, const fs::path& path, dataset::BatchSampler& sampler) {
  if (!manifest.data) return;
  require_same_data(*manifest.data, launcher::checkpoint_data(sampler, manifest.data->samples), path);
  sampler.go_on_from({.step = manifest.step, .samples = manifest.data->samples});
}

/// Steps of the newest checkpoint as rank 0 finds it, so that all agree; -1 when there is none.
std::int64_t newest_of(const fs::path& folder, Collective& world) {
  const at::Tensor step = at::full({1}, -1, at::kLong);
  together(world, [&] {
    if (world.rank() != 0) return;
    const std::vector<std::int64_t> steps = launcher::complete_checkpoints(folder);
    if (!steps.empty()) step.fill_(steps.back());
  });
  world.broadcast(step, 0);
  return step.item<std::int64_t>();
}

/// Makes the folder, takes it for this job, proves that it can be written to, and removes half-written checkpoints.
FolderLock prepare(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_input_error({folder.string(), 0, 0}, fmt::format("cannot be made: {}", error.message()),
                      "name another folder for checkpoints");
  }
  FolderLock lock(folder);
  const StagedFile probe(folder / "probe");
  clean_up_targets(folder);
  return lock;
}

}  // namespace

void save_checkpoint(const fs::path& folder, std::int64_t step, const launcher::TrainConfig& config,
                     const TrainingState& state, const Communicators& ranks) {
  const AutoGradMode no_gradient(false);
  launcher::CheckpointManifest manifest;
  manifest.step = step;
  manifest.optimizer_steps = state.optimizer->steps();
  manifest.seed = config.seed;
  manifest.model = config.model;
  manifest.parallel = config.parallel;
  manifest.frozen_blocks = state.store().frozen_blocks();
  if (state.changes != nullptr) manifest.freezing = state.changes->save();
  if (state.loss_scale != nullptr) manifest.loss_scale = state.loss_scale->state();
  manifest.data = launcher::checkpoint_data(*state.sampler, state.sampler->samples_done(step));
  Collective& world = *ranks.world;
  together(world, [&] { require_numbers(state); });
  write_together(world, {.target = folder / launcher::checkpoint_folder_name(step),
                         .write =
                             [&](const fs::path& temporary) {
                               write_rank_file(temporary / rank_file_name(world.rank()), rank_file(state, ranks));
                             },
                         .finish =
                             [&](const fs::path& temporary) {
                               write_file_atomically(temporary / launcher::kManifestName,
                                                     manifest_text(temporary, manifest, world.size()));
                             }});
}

std::int64_t load_checkpoint(const fs::path& path, const launcher::TrainConfig& config, const TrainingState& state,
                             const Communicators& ranks) {
  const AutoGradMode no_gradient(false);
  launcher::CheckpointManifest manifest;
  together(*ranks.world, [&] {
    manifest = launcher::read_manifest(path);
    require_same_training(manifest, config, path);
    go_on_behind(manifest, path, *state.sampler);
    if (state.changes != nullptr && !manifest.freezing.empty()) {
      state.changes->restore(manifest.freezing, (path / launcher::kManifestName).string());
    }
    read_state(CheckpointReader(path, manifest), state);
  });
  if (state.loss_scale != nullptr && manifest.loss_scale) state.loss_scale->restore(*manifest.loss_scale);
  state.optimizer->set_steps(manifest.optimizer_steps);
  state.optimizer->publish();
  return manifest.step;
}

CheckpointFolder::CheckpointFolder(const launcher::TrainConfig& config, const TrainingState& state,
                                   const Communicators& ranks)
    : config_(&config), state_(state), ranks_(&ranks), folder_(*config.checkpoint) {
  together(*ranks_->world, [this] {
    if (ranks_->world->rank() == 0) lock_.emplace(prepare(folder_));
  });
}

std::int64_t CheckpointFolder::resume() {
  const std::int64_t step = newest_of(folder_, *ranks_->world);
  if (step < 0) return 0;
  saved_ = load_checkpoint(folder_ / launcher::checkpoint_folder_name(step), *config_, state_, *ranks_);
  return *saved_;
}

void CheckpointFolder::after_step(std::int64_t steps_done, bool last) {
  const bool due = config_->checkpoint_every > 0 && steps_done % config_->checkpoint_every == 0;
  if ((!due && !last) || saved_ == steps_done) return;
  try {
    save_checkpoint(folder_, steps_done, *config_, state_, *ranks_);
  } catch (const PeerLost&) {
    throw;
  } catch (const Error& error) {
    throw Error(fmt::format("{}; {}", error.what(), newest_text()));
  }
  saved_ = steps_done;
  if (ranks_->world->rank() == 0) delete_old();
}

std::string CheckpointFolder::newest_text() const {
  if (!saved_) return "there is no checkpoint yet";
  return fmt::format("the last good checkpoint is {}", (folder_ / launcher::checkpoint_folder_name(*saved_)).string());
}

/// What cannot be deleted stays: that is no reason to stop training.
void CheckpointFolder::delete_old() const {
  std::vector<std::int64_t> steps = launcher::complete_checkpoints(folder_);
  const auto keep = static_cast<std::size_t>(config_->checkpoint_keep);
  if (steps.size() <= keep) return;
  steps.resize(steps.size() - keep);
  for (const std::int64_t step : steps) {
    // Renamed first: one that is killed while it deletes leaves no half checkpoint.
    const fs::path path = folder_ / launcher::checkpoint_folder_name(step);
    std::error_code error;
    fs::rename(path, temporary_of(path), error);
    if (!error) fs::remove_all(temporary_of(path), error);
  }
}

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
