#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace lowgear {

/// A file of this name in a temporary folder says that all in it is of the process that fills it.
inline constexpr std::string_view kStagingMark = ".lowgear-staging";
/// Ends the name of the folder that an exchange by renames sets aside.
inline constexpr std::string_view kSetAside = ".old";

/// `.lowgear-SPACE-PID-ATTEMPT.tmp`: a file or folder of this process that is renamed when it is complete. SPACE is a
/// digest of the boot and the PID namespace, in which a process id names one process.
[[nodiscard]] std::string temporary_name(int attempt);

/// Removes what killed processes of this user, boot and PID namespace have left in the folder by these names: files,
/// folders with the staging mark, and of an earlier output, which one had just replaced, the files that its manifest
/// lists. Other files stay, and so do both folders of an exchange that was interrupted between its renames.
void remove_leftovers(const std::filesystem::path& folder);

/// The first time that this process names the folder, as `remove_leftovers`: the folder may hold many files.
void remove_leftovers_once(const std::filesystem::path& folder);

}  // namespace lowgear
