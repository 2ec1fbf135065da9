#include "training/launcher/output_paths.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <system_error>

#include "base/core/error.h"
#include "base/core/files/folder_manifest.h"

namespace lowgear::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWholeName = "model.safetensors";

/// Whether it is a name that export_file_name gives with several pipeline ranks.
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
  return name == kExportConfigName || name == kWholeName || name == kExportIndexName || name == kFolderManifestName ||
         is_part_name(name);
}

}  // namespace

std::string export_file_name(const PipelinePosition& position) {
  if (position.count == 1) return std::string(kWholeName);
  return fmt::format("model-{:05}-of-{:05}.safetensors", position.index + 1, position.count);
}

void require_export_folder(const fs::path& folder) {
  std::error_code error;
  const SourceLocation where{folder.string(), 0, 0};
  if (!fs::exists(folder, error)) {
    if (!fs::is_symlink(fs::symlink_status(folder, error))) return;
    throw_input_error(where, "is a link that leads nowhere", "make the folder that it leads to");
  }
  if (!fs::is_directory(folder, error)) throw_input_error(where, "exists and is not a folder", "name a folder");
  bool has_weights = false;
  bool has_config = false;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!is_of_an_export(*entry)) {
      throw_input_error(
          where, fmt::format("contains {}, which does not belong to an export, so it is not replaced", quote(name)),
          "name a new or an empty folder");
    }
    has_config = has_config || name == kExportConfigName;
    has_weights = has_weights || (name != kExportConfigName && name != kFolderManifestName);
  }
  if (error) throw_input_error(where, fmt::format("cannot be read: {}", error.message()), "name another folder");
  // A model from elsewhere has the same names: what an export wrote, its manifest lists.
  if (has_weights == has_config) return require_listed(folder);
  throw_input_error(
      where, fmt::format("contains only {}, so it is not an earlier export", has_config ? "a config.json" : "weights"),
      "name a new or an empty folder");
}

namespace {

namespace fs = std::filesystem;

/// Whether it is a name in /proc, where open files of processes have theirs.
bool is_in_proc(const fs::path& path) {
  struct statfs status = {};
  return ::statfs(path.parent_path().c_str(), &status) == 0 && status.f_type == PROC_SUPER_MAGIC;
}

}  // namespace

bool is_own_metrics_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  fs::path place = fs::absolute(path);
  while (!is_in_proc(place)) {
    if (!fs::is_symlink(place, error)) return true;
    place = place.parent_path() / fs::read_symlink(place, error);
  }
  return false;
}

}  // namespace lowgear::launcher
