#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/train_config.h"
#include "model/model_config.h"

namespace lowgear {

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
/// Throws InputError with the JSON path on anything else than what `write_pieces` writes.
[[nodiscard]] std::vector<CheckpointPiece> parse_pieces(std::string_view text, const std::string& source);

/// The file that makes a folder a checkpoint.
inline constexpr std::string_view kManifestName = "checkpoint.json";

/// What a checkpoint is of, and which files make it up: what kManifestName says.
struct CheckpointManifest {
  struct File {
    std::string name;
    std::int64_t bytes = 0;

    friend bool operator==(const File&, const File&) = default;
  };
  std::int64_t step = 0;  ///< steps done
  std::int64_t optimizer_steps = 0;
  std::uint64_t seed = 0;
  ModelConfig model;
  ParallelConfig parallel;  ///< of the ranks that wrote it
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

}  // namespace lowgear
