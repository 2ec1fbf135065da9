#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/scopes.h"

namespace lowgear::server {

/// Nodes by the names of their hosts.
struct NodeNames {
  std::set<std::string, std::less<>> hosts;
  std::vector<std::string> patterns;  ///< in which `*` stands for any characters
  [[nodiscard]] bool contain(std::string_view host) const;
  friend bool operator==(const NodeNames&, const NodeNames&) = default;
};

/// A line `SCOPES TOKEN` of a token file, with `name=NAME` and `nodes=NODE,NODE` before the token where it has them.
struct AccessToken {
  Scopes scopes;
  std::string name;  ///< for the audit log; may be that of several tokens. `line 3` where the file gives none
  /// That it may speak for; null unless it has the scope `node`.
  std::shared_ptr<const NodeNames> nodes = {};
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
/// changed it (base/core/files/user_database.h).
[[nodiscard]] std::vector<AccessToken> load_tokens(const std::filesystem::path& path);

}  // namespace lowgear::server
