#pragma once

#include <cstdint>
#include <string>

#include "base/core/files/file_descriptor.h"

namespace lowgear::http {

struct TcpListener {
  FileDescriptor socket;  ///< does not block
  std::uint16_t port = 0;
};

/// Listens on an address of IPv4 or IPv6; port 0 takes any that is free. Throws InputError when that cannot be done.
[[nodiscard]] TcpListener listen_tcp(const std::string& address, std::uint16_t port);

}  // namespace lowgear::http
