#pragma once

#include <span>

#include "control/server/store/database.h"

namespace lowgear::server {

/// Statements that bring a file from version N to N + 1, for every N from 0, which is an empty file. What was released
/// is never changed again: what comes later is a further step.
[[nodiscard]] std::span<const char* const> store_schema_steps();

/// Brings the file to the newest version, each step whole or not at all. Throws Error for a file that is not Lowgear's,
/// or of a version that only a newer Lowgear knows.
void migrate(Database& database, std::span<const char* const> steps);

}  // namespace lowgear::server
