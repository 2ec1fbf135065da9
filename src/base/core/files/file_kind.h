#pragma once

#include <filesystem>
#include <string_view>

namespace lowgear {

inline constexpr std::string_view kSafetensorsKind = "a safetensors file";

/// The kind of a file that begins with a known magic number, with its article: "a gzip archive", "a NumPy array", "an
/// index of Megatron". Empty for text and unknown kinds.
[[nodiscard]] std::string_view known_file_kind(std::string_view content);

/// Throws InputError when `content`, all of the file, is the pointer that Git LFS leaves in place of a large file.
void refuse_git_lfs_pointer(const std::filesystem::path& path, std::string_view content);

}  // namespace lowgear
