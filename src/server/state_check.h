#pragma once

#include <string>
#include <vector>

#include "server/store/store.h"

namespace lowgear::server {

/// What a server that starts with these rows could not read, and would continue without: one line each, with the
/// reason.
[[nodiscard]] std::vector<std::string> unreadable_rows(StoreContents contents);

}  // namespace lowgear::server
