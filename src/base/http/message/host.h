#pragma once

#include <string_view>

namespace lowgear::http {

/// Whether the value of a `Host` header names this machine's loopback interface: `localhost`, `127.0.0.1` or `[::1]`,
/// with or without a port. A web page whose name resolves to this machine (DNS rebinding) sends its own name.
[[nodiscard]] bool names_loopback(std::string_view host);

}  // namespace lowgear::http
