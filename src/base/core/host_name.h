#pragma once

#include <string>

namespace lowgear {

/// Of this machine; empty when the system does not say.
[[nodiscard]] std::string host_name();

}  // namespace lowgear
