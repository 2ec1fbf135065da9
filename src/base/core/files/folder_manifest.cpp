#include "base/core/files/folder_manifest.h"

#include <fmt/format.h>

#include <system_error>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"

namespace lowgear {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "lowgear.files/1";

[[noreturn]] void throw_unreadable(const fs::path& folder, const std::error_code& error) {
  throw_input_error({folder.string(), 0, 0}, fmt::format("cannot be read: {}", error.message()), "name another folder");
}

/// Entries of a folder and of those below it, as paths below it; folders stand before what they hold. Links are not
/// followed.
std::vector<fs::directory_entry> entries_below(const fs::path& folder, std::error_code& error) {
  std::vector<fs::directory_entry> entries;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) entries.push_back(*entry);
  return entries;
}

std::string name_below(const fs::path& folder, const fs::path& path) {
  return path.lexically_relative(folder).generic_string();
}

fs::file_type type_of(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.symlink_status(error).type();
}

bool is_listed(const fs::path& folder, const fs::directory_entry& entry, const FolderFiles& listed) {
  const std::string name = name_below(folder, entry.path());
  if (type_of(entry) == fs::file_type::directory) {
    const auto below = listed.lower_bound(name + '/');
    return below != listed.end() && below->starts_with(name + '/');
  }
  if (type_of(entry) != fs::file_type::regular) return false;
  return name == kFolderManifestName || listed.contains(name);
}

bool holds_only(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  if (error || entry == fs::directory_iterator() || entry->path() != file) return false;
  return entry.increment(error) == fs::directory_iterator() && !error;
}

/// Whether a file of this content stands there: to write it again takes nothing from its owner.
bool has_content(const fs::path& path, std::string_view content) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) == content.size() &&
         read_file(path, content.size()) == content;
}

}  // namespace

std::string write_folder_manifest(const FolderFiles& files) {
  const Json json = {{"format", kFormat}, {"files", files}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

FolderFiles all_files(const fs::path& folder) {
  std::error_code error;
  FolderFiles files;
  for (const fs::directory_entry& entry : entries_below(folder, error)) {
    if (type_of(entry) == fs::file_type::regular) files.insert(name_below(folder, entry.path()));
  }
  if (error) throw_unreadable(folder, error);
  return files;
}

FolderFiles listed_files(const fs::path& folder) {
  const fs::path path = folder / kFolderManifestName;
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) return {};
  const std::string source = path.string();
  const Json json = parse_json(read_file(path), source);
  const JsonView document(json, source);
  require_format(document, kFormat);
  const JsonView files = document.at("files");
  FolderFiles listed;
  for (std::size_t i = 0; i < files.size(); ++i) listed.insert(files.at(i).text());
  return listed;
}

std::optional<std::string> unlisted_entry(const fs::path& folder) {
  const FolderFiles listed = listed_files(folder);
  std::error_code error;
  const std::vector<fs::directory_entry> entries = entries_below(folder, error);
  if (error) throw_unreadable(folder, error);
  std::optional<std::string> first;
  for (const fs::directory_entry& entry : entries) {
    if (is_listed(folder, entry, listed)) continue;
    const std::string name = name_below(folder, entry.path());
    if (!first || name < *first) first = name;  // the system's order is not the same every time
  }
  return first;
}

void require_listed(const fs::path& folder) {
  const std::optional<std::string> name = unlisted_entry(folder);
  if (!name) return;
  throw_input_error({folder.string(), 0, 0},
                    fmt::format("contains {}, which no earlier run lists in {}: the folder is not replaced",
                                quote(*name), kFolderManifestName),
                    "move it elsewhere, or name a new or an empty folder");
}

void remove_listed_files(const fs::path& folder) noexcept {
  try {
    const FolderFiles listed = listed_files(folder);
    std::error_code ignored;
    const fs::path manifest = folder / kFolderManifestName;
    std::vector<fs::directory_entry> entries = entries_below(folder, ignored);
    for (; !entries.empty();
         entries.pop_back()) {  // the innermost first; a folder can be removed only when it is empty
      const fs::directory_entry& entry = entries.back();
      if (entry.path() != manifest && is_listed(folder, entry, listed)) fs::remove(entry.path(), ignored);
    }
    if (holds_only(folder, manifest)) fs::remove(manifest, ignored);
    fs::remove(folder, ignored);
  } catch (const std::exception&) {  // then all of it stays
  }
}

void write_listed_file(const fs::path& folder, const std::string& name, std::string_view content) {
  const fs::path path = folder / name;
  FolderFiles listed = listed_files(folder);
  std::error_code error;
  const bool exists = fs::symlink_status(path, error).type() != fs::file_type::not_found;
  if (exists && !listed.contains(name) && !has_content(path, content)) {
    throw_input_error({path.string(), 0, 0},
                      fmt::format("exists, and no earlier run lists it in {}: it is not replaced", kFolderManifestName),
                      "move it elsewhere, or name another folder");
  }
  write_file_atomically(path, content);
  if (listed.insert(name).second) write_file_atomically(folder / kFolderManifestName, write_folder_manifest(listed));
}

}  // namespace lowgear
