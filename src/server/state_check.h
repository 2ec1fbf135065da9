#pragma once

#include <string>
#include <vector>

#include "server/store/store.h"

namespace lowgear::server {

/// The rows that a server which starts with them could not read, and would continue without: one line each, with the
/// reason.
[[nodiscard]] std::vector<std::string> unreadable_rows(StoreContents contents);

}  // namespace lowgear::server
