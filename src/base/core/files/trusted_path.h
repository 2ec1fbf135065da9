#pragma once

#include <filesystem>

namespace lowgear {

/// Refuses a file or folder that decides what a service does and that another user could have changed: a symbolic
/// link, one of another owner than root or this user, or one that its group or everybody may write to. Throws
/// InputError with the command that fixes it; also when it does not exist.
void require_trusted_file(const std::filesystem::path& path);
void require_trusted_folder(const std::filesystem::path& path);
/// Refuses both a file and its folder. Returns the path to read: absolute, without `.` and `..`.
[[nodiscard]] std::filesystem::path require_trusted(const std::filesystem::path& file);

}  // namespace lowgear
