#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/files/user_database.h"
#include "base/http/message/message.h"
#include "server/http/access_tokens.h"
#include "server/http/sign_ins.h"

namespace lowgear::server {

/// Who a request comes from.
struct Caller {
  Scopes scopes;
  /// For the audit log: `user 1000`, `token trainers`, `token line 3`, `session 2`; never the token itself.
  std::string name;
  std::shared_ptr<const NodeNames> nodes = {};  ///< that it may speak for; null unless it has the scope `node`
};

/// Scopes for users of the Unix socket, of which `node` is none. Exactly one of `user`, `group` and `everybody` is set.
struct PeerRule {
  Scopes scopes;
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
/// user have all rights), and everywhere by `Authorization: Bearer TOKEN`. A caller has the scopes of all that applies.
/// The token of a browser's session allows reading, from this machine alone.
class Authenticator {
 public:
  using Clock = std::chrono::steady_clock;

  Authenticator(AuthenticationRules rules, GroupLookup in_group);

  /// Empty for an unknown caller, and for a token that is none, whoever sends it. `now` is for how long the groups of a
  /// user are remembered, whose look-up may take long.
  [[nodiscard]] std::optional<Caller> identify(const http::Request& request, Clock::time_point now);

  /// From now on these tokens are valid, and no others.
  void replace_tokens(std::vector<AccessToken> tokens) { rules_.tokens = std::move(tokens); }

  /// Whether there is a token with this scope.
  [[nodiscard]] bool has_token_for(Scope scope) const;

  [[nodiscard]] SignIns& sign_ins() { return sign_ins_; }

 private:
  struct Remembered {
    Scopes scopes;
    Clock::time_point until;
  };
  [[nodiscard]] const AccessToken* find_token(std::string_view given) const;
  [[nodiscard]] Scopes scopes_of(const ipc::UnixPeer& peer, Clock::time_point now);
  [[nodiscard]] Scopes look_up(const ipc::UnixPeer& peer) const;
  [[nodiscard]] std::optional<Caller> caller_without_token(const http::Request& request, Clock::time_point now);
  [[nodiscard]] std::optional<Caller> caller_by_token(const http::Request& request, Clock::time_point now) const;

  AuthenticationRules rules_;
  GroupLookup in_group_;
  SignIns sign_ins_;
  std::map<std::pair<uid_t, gid_t>, Remembered> remembered_;
};

/// Whether a request comes from this machine: on a Unix socket, or over the loopback interface and not through a proxy,
/// as far as proxies say so.
[[nodiscard]] bool is_from_this_machine(const http::Request& request);

}  // namespace lowgear::server
