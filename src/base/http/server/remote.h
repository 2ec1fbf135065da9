#pragma once

#include <optional>
#include <string>

#include "base/http/message/message.h"

namespace lowgear {

/// The other end of a connection.
struct HttpRemote {
  std::optional<UnixPeer> peer;  ///< of a Unix socket
  std::string address;           ///< as HttpRequest::remote
  /// Who counts as one client where limits are per client: `user 1000`, `192.0.2.7`, `127.0.0.0/8`, a /64 of IPv6.
  std::string client;
};

/// Empty when the other end has gone already.
[[nodiscard]] std::optional<HttpRemote> remote_of(int socket);

}  // namespace lowgear
