#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lowgear::http {

/// Where an HTTP server listens.
struct Endpoint {
  std::string host;        ///< name or address; empty for a Unix socket
  std::uint16_t port = 0;  ///< of TCP
  std::string unix_path;   ///< empty for TCP
  bool tls = false;        ///< `https`

  /// `http://host:port`, `https://[::1]:port` or `unix:/path`; without a port, 80 or 443. Throws InputError for
  /// anything else, also for a URL with a user or password.
  [[nodiscard]] static Endpoint parse(std::string_view text);
  /// As `parse` takes it.
  [[nodiscard]] std::string text() const;
};

/// Whether the value of a `Host` header names this machine's loopback interface: `localhost`, `127.0.0.1` or `[::1]`,
/// with or without a port. A web page whose name resolves to this machine (DNS rebinding) sends its own name.
[[nodiscard]] bool names_loopback(std::string_view host);

}  // namespace lowgear::http
