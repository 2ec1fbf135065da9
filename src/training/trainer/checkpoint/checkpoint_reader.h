#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "training/launcher/checkpoint_manifest.h"
#include "training/tensorfile/safetensors.h"
#include "training/trainer/model/parameter_store.h"

namespace lowgear::trainer {

/// The member of a file's metadata that lists its pieces.
inline constexpr std::string_view kPiecesKey = "lowgear.pieces";

/// The name of a parameter in a checkpoint. The copy of a tied embedding, which is saved too as rounding may have made
/// it another, has that of the output matrix.
[[nodiscard]] std::string saved_name(const Parameter& parameter);
/// The tensor of a piece: `mean.model.norm.weight`.
[[nodiscard]] std::string tensor_name(std::string_view moment, std::string_view parameter);

/// The tensors of a checkpoint, put together from the pieces in its files.
class CheckpointReader {
 public:
  /// Throws InputError naming the file that is damaged.
  CheckpointReader(std::filesystem::path path, const launcher::CheckpointManifest& manifest);

  /// Elements `begin` to `end` of this rank's part of the parameter, flattened, fp32. `moment` is `master`, `mean` or
  /// `variance`. Throws InputError when the checkpoint lacks some of them or has another shape.
  [[nodiscard]] at::Tensor read(const Parameter& parameter, std::string_view moment, std::int64_t begin,
                                std::int64_t end) const;

 private:
  struct Source {
    launcher::CheckpointPiece piece;
    const tensorfile::SafetensorsFile* file = nullptr;
  };
  using Sources = std::vector<Source>;  ///< by part, and then by place in it

  [[nodiscard]] const Sources& sources_of(const Parameter& parameter) const;
  [[nodiscard]] at::Tensor read_part(const Sources& sources, int part, std::string_view moment, std::int64_t begin,
                                     std::int64_t end) const;
  [[noreturn]] void fail(const std::string& file, std::string_view what) const;

  std::filesystem::path path_;
  std::vector<tensorfile::SafetensorsFile> files_;
  std::map<std::string, Sources, std::less<>> sources_;
};

}  // namespace lowgear::trainer
