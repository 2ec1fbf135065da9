#pragma once

#include <optional>
#include <string>

#include "base/http/message/message.h"

namespace lowgear::http {

/// The other end of a connection.
struct Remote {
  std::optional<ipc::UnixPeer> peer;  ///< of a Unix socket
  std::string address;                ///< as Request::remote
  /// Who counts as one client where limits are per client: `user 1000`, `192.0.2.7`, `127.0.0.0/8`, a /64 of IPv6.
  std::string client;
};

/// Empty when the other end has gone already.
[[nodiscard]] std::optional<Remote> remote_of(int socket);

}  // namespace lowgear::http
