#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimating/model/model_config.h"
#include "training/dataset/batch_sampler.h"
#include "training/launcher/config/train_config.h"

namespace lowgear::launcher {

/// A stretch of one parameter's tensor-parallel part, as a file of a checkpoint holds it. The whole parameter is
/// `groups` equal groups along `dimension`, each split evenly among `parts` ranks; a part is flattened row by row.
struct CheckpointPiece {
  std::string name;                 ///< of the parameter
  std::vector<std::int64_t> shape;  ///< of the whole parameter, as the computation has it
  std::int64_t dimension = -1;      ///< along which it is split; -1: there is one part
  int groups = 1;
  int part = 0;
  int parts = 1;
  std::int64_t begin = 0;  ///< elements of the part
  std::int64_t end = 0;

  friend bool operator==(const CheckpointPiece&, const CheckpointPiece&) = default;
};

/// The elements of a part of the parameter that the piece is of. Throws InputError naming `source` unless the shape can
/// be split so and the piece lies within the part.
[[nodiscard]] std::int64_t part_elements(const CheckpointPiece& piece, const std::string& source);

/// Pieces as JSON, which a file of a checkpoint carries in its metadata.
[[nodiscard]] std::string write_pieces(const std::vector<CheckpointPiece>& pieces);
/// Reads the text of `write_pieces`. Throws InputError with the JSON path on anything else.
[[nodiscard]] std::vector<CheckpointPiece> parse_pieces(std::string_view text, const std::string& source);

/// The file that makes a folder a checkpoint.
inline constexpr std::string_view kManifestName = "checkpoint.json";

/// How far a training has come in its text, and which text that is.
struct CheckpointData {
  std::int64_t samples = 0;          ///< taken so far, by all replicas
  std::int64_t sequence_length = 0;  ///< tokens of a sample
  std::int64_t tokens = 0;           ///< of the whole text
  std::uint32_t fingerprint = 0;     ///< of the text, see TokenText

  friend bool operator==(const CheckpointData&, const CheckpointData&) = default;
};

/// The loss scale of fp16, and the steps in a row without one that was not finite.
struct LossScaleState {
  double scale = 1;
  std::int64_t good_steps = 0;

  friend bool operator==(const LossScaleState&, const LossScaleState&) = default;
};

/// The content of kManifestName: the training that a checkpoint belongs to, and its files.
struct CheckpointManifest {
  struct File {
    std::string name;
    std::int64_t bytes = 0;

    friend bool operator==(const File&, const File&) = default;
  };
  std::int64_t step = 0;  ///< steps done
  std::int64_t optimizer_steps = 0;
  std::uint64_t seed = 0;
  model::ModelConfig model;
  protocol::JobParallel parallel;                 ///< of the ranks that wrote it
  std::int64_t frozen_blocks = 0;                 ///< first blocks that the last step did not train
  std::string freezing = {};                      ///< state of everything that changes, as JSON; empty: none
  std::optional<CheckpointData> data = {};        ///< empty: every step before took as many samples as the next will
  std::optional<LossScaleState> loss_scale = {};  ///< empty: not in fp16
  std::vector<File> files;
};

[[nodiscard]] std::string write_manifest(const CheckpointManifest& manifest);
/// Throws InputError with the JSON path on a missing, wrong or out of range member.
[[nodiscard]] CheckpointManifest parse_manifest(std::string_view text, const std::string& source);

/// `step-00000100`.
[[nodiscard]] std::string checkpoint_folder_name(std::int64_t step);
/// The steps at which `folder` holds a complete checkpoint, rising. None when there is no such folder. Throws
/// InputError when it cannot be read.
[[nodiscard]] std::vector<std::int64_t> complete_checkpoints(const std::filesystem::path& folder);
/// Reads the manifest of the checkpoint `path`. Throws InputError as parse_manifest, and when one of its files is
/// missing or not as long as it was.
[[nodiscard]] CheckpointManifest read_manifest(const std::filesystem::path& path);

/// Throws InputError when the checkpoint `path` is of another model or another seed than `config` asks for, naming the
/// first difference.
void require_same_training(const CheckpointManifest& manifest, const TrainConfig& config,
                           const std::filesystem::path& path);
/// The data of a training that has taken `samples` samples.
[[nodiscard]] CheckpointData checkpoint_data(const dataset::BatchSampler& sampler, std::int64_t samples);
/// Throws InputError when the checkpoint `path`, which `saved` is of, was trained on another text or in other samples
/// than `here`. The number of samples taken is ignored.
void require_same_data(const CheckpointData& saved, const CheckpointData& here, const std::filesystem::path& path);

}  // namespace lowgear::launcher
