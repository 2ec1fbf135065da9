#pragma once

#include <filesystem>
#include <string>

namespace lowgear::http {

/// The token in a file that holds one word and nothing else but blanks after it. Throws InputError, naming the file, when
/// it does not or cannot be read.
[[nodiscard]] std::string read_token_file(const std::filesystem::path& file);

}  // namespace lowgear::http
