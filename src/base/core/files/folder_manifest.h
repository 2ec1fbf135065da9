#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace lowgear {

/// The list of the files that a run of Lowgear wrote into a folder (`lowgear.files/1`, docs/formats.md). A later run
/// replaces or removes only these: the name of a file does not show who wrote it.
inline constexpr std::string_view kFolderManifestName = "lowgear-files.json";

/// Paths below a folder, with slashes.
using FolderFiles = std::set<std::string, std::less<>>;

/// Text of the manifest that lists `files`, which do not name the manifest itself.
[[nodiscard]] std::string write_folder_manifest(const FolderFiles& files);

/// All regular files of a folder and of those below it.
[[nodiscard]] FolderFiles all_files(const std::filesystem::path& folder);

/// The files that the folder's manifest lists; none without a manifest. Throws InputError when it cannot be read.
[[nodiscard]] FolderFiles listed_files(const std::filesystem::path& folder);

/// The first entry of the folder that its manifest does not list, as a path below it: a file, a link (a manifest lists
/// none), an empty folder. Empty when earlier runs wrote everything. Throws InputError when the folder is unreadable.
[[nodiscard]] std::optional<std::string> unlisted_entry(const std::filesystem::path& folder);

/// Throws InputError naming the first `unlisted_entry`, where there is one.
void require_listed(const std::filesystem::path& folder);

/// Removes the files that the manifest lists and the folders that become empty; the manifest last, and only where
/// nothing else is left: it says that the rest is another's. Keeps everything else, and files that the system refuses
/// to remove.
void remove_listed_files(const std::filesystem::path& folder) noexcept;

/// Writes a file into a folder that may hold others', each whole or not at all, and lists it in the manifest. Throws
/// InputError when there is a file of this name that no earlier run wrote, unless it has the same content; and as
/// `write_file_atomically`.
void write_listed_file(const std::filesystem::path& folder, const std::string& name, std::string_view content);

}  // namespace lowgear
