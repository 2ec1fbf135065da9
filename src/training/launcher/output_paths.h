#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lowgear::launcher {

/// Files of an export: the weights of a job at its end, as a folder in the format of Hugging Face transformers.
inline constexpr std::string_view kExportConfigName = "config.json";
/// Lists the tensors of several files of weights.
inline constexpr std::string_view kExportIndexName = "model.safetensors.index.json";

/// A position in a pipeline.
struct PipelinePosition {
  int index = 0;
  int count = 1;
};

/// The file with the weights of a pipeline rank: `model.safetensors`, with several `model-00001-of-00004.safetensors`.
[[nodiscard]] std::string export_file_name(const PipelinePosition& position);

/// Throws InputError when `folder` is there and is neither empty nor an earlier export: a config.json and weights, as
/// an export of any number of pipeline ranks names them, all listed in the folder's manifest
/// (base/core/files/folder_manifest.h), and nothing else. Links are followed.
void require_export_folder(const std::filesystem::path& folder);

/// Whether `path` leads to a regular file that is the metrics' own: continuing from a checkpoint replaces it, and a new
/// training empties it. No file is one that a process has open and that is named through that (/dev/stdout, /dev/fd/3):
/// others write to it, too.
[[nodiscard]] bool is_own_metrics_file(const std::filesystem::path& path);

}  // namespace lowgear::launcher
