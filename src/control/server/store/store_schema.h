#pragma once

#include <cstdint>
#include <span>

#include "control/server/store/database.h"

namespace lowgear::server {

/// Statements that bring a file from version N to N + 1, for every N from 0, which is an empty file. What was released
/// is never changed again: what comes later is a further step.
[[nodiscard]] std::span<const char* const> store_schema_steps();

/// The file's version, 0 for an empty one. Throws InputError for a file that is not Lowgear's, or of a version above
/// `newest`, which only a newer Lowgear knows.
[[nodiscard]] std::int64_t schema_version(Database& database, std::int64_t newest);

/// Brings the file to the newest version, all steps or none: a migration that is interrupted leaves a file that the
/// Lowgear which wrote it still reads. Throws as `schema_version`.
void migrate(Database& database, std::span<const char* const> steps);

}  // namespace lowgear::server
