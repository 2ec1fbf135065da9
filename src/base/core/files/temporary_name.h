#pragma once

#include <filesystem>
#include <string>

namespace lowgear {

/// `.lowgear-SPACE-PID-ATTEMPT.tmp`: a file or folder of this process that is renamed when it is complete. SPACE is a
/// digest of the boot and the PID namespace, in which a process id names one process.
[[nodiscard]] std::string temporary_name(int attempt);

/// Removes what killed processes of this user, boot and PID namespace have left in the folder by these names. Of an
/// earlier output, which one had just replaced, the files that its manifest does not list stay.
void remove_leftovers(const std::filesystem::path& folder);

}  // namespace lowgear
