#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace lowgear {

/// Text of a file that holds a secret. Throws InputError, which does not show the text, when another user may read the
/// file or could have changed it (trusted_path.h), when it is longer, and when it cannot be read.
[[nodiscard]] std::string read_secret_file(const std::filesystem::path& file, std::size_t max_bytes);

}  // namespace lowgear
