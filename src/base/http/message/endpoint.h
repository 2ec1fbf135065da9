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

  /// `http://host:port`, `http://[::1]:port` or `unix:/path`; without a port, 80. Throws InputError for anything else.
  [[nodiscard]] static Endpoint parse(std::string_view text);
  /// As `parse` takes it.
  [[nodiscard]] std::string text() const;
};

}  // namespace lowgear::http
