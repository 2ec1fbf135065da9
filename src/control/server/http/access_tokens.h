#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "control/server/http/scopes.h"

namespace lowgear::server {

/// A line `SCOPES TOKEN` or `SCOPES name=NAME TOKEN` of a token file.
struct AccessToken {
  Scopes scopes;
  std::string name;  ///< for the audit log; may be that of several tokens. `line 3` where the file gives none
  std::string token;
};

inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMaxTokenBytes = 512;
inline constexpr std::size_t kMaxTokenNameBytes = 64;
inline constexpr std::size_t kMaxTokens = 1'000;

/// Reads tokens, one a line; empty lines and lines that begin with `#` are comments. Throws InputError with file and
/// line, which never shows what may be a token, also when there is none at all.
[[nodiscard]] std::vector<AccessToken> parse_tokens(std::string_view text, const std::string& source);
/// Reads a token file. Throws InputError also when others than its owner may read it, or others could have
/// changed it (base/core/files/trusted_path.h).
[[nodiscard]] std::vector<AccessToken> load_tokens(const std::filesystem::path& path);

}  // namespace lowgear::server
