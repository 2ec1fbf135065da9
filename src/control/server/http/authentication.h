#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/files/user_database.h"
#include "base/http/message/message.h"

namespace lowgear::server {

/// Rights of a caller; each role includes those before it (docs/server-api.md).
enum class Role : unsigned char { read, train, admin };

[[nodiscard]] std::string_view to_string(Role role);
/// `read`, `train` or `admin`.
[[nodiscard]] std::optional<Role> parse_role(std::string_view name);

/// Who a request comes from.
struct Caller {
  Role role = Role::read;
  std::string name;  ///< for the log: `user 1000`, `token of line 3`; never the token itself
};

/// A line `ROLE TOKEN` of a token file.
struct AccessToken {
  Role role = Role::read;
  std::string token;
  int line = 0;
};

inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMaxTokenBytes = 512;
inline constexpr std::size_t kMaxTokens = 1'000;

/// Reads tokens, one a line; empty lines and lines that begin with `#` are comments. Throws InputError with file and
/// line, which never shows what may be a token, also when there is none at all.
[[nodiscard]] std::vector<AccessToken> parse_tokens(std::string_view text, const std::string& source);
/// Reads a token file. Throws InputError also when others than its owner may read it, or others could have
/// changed it (base/core/files/trusted_path.h).
[[nodiscard]] std::vector<AccessToken> load_tokens(const std::filesystem::path& path);

/// A role for users of the Unix socket. Exactly one of `user`, `group` and `everybody` is set.
struct PeerRule {
  Role role = Role::read;
  std::optional<uid_t> user;
  std::optional<gid_t> group;
  bool everybody = false;
};

struct AuthenticationRules {
  std::vector<AccessToken> tokens;
  std::vector<PeerRule> peers;
  /// Programs of this machine may read over TCP without a token.
  bool loopback_read = false;
};

/// Identifies the caller of a request: on a Unix socket by the user that the kernel attests (root and the server's own
/// user have all rights), and everywhere by `Authorization: Bearer TOKEN`. Of several roles the highest applies.
class Authenticator {
 public:
  using Clock = std::chrono::steady_clock;

  Authenticator(AuthenticationRules rules, GroupLookup in_group);

  /// Empty for an unknown caller, and for a token that is none, whoever sends it. `now` is for how long the groups of a
  /// user are remembered, whose look-up may take long.
  [[nodiscard]] std::optional<Caller> identify(const http::Request& request, Clock::time_point now);

 private:
  struct Remembered {
    std::optional<Role> role;
    Clock::time_point until;
  };
  [[nodiscard]] const AccessToken* find_token(std::string_view given) const;
  [[nodiscard]] std::optional<Role> role_of(const ipc::UnixPeer& peer, Clock::time_point now);
  [[nodiscard]] std::optional<Role> look_up(const ipc::UnixPeer& peer) const;
  [[nodiscard]] std::optional<Caller> caller_without_token(const http::Request& request, Clock::time_point now);

  AuthenticationRules rules_;
  GroupLookup in_group_;
  std::map<std::pair<uid_t, gid_t>, Remembered> remembered_;
};

}  // namespace lowgear::server
