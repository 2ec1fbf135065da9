#pragma once

#include <cstdint>

#include "server/store/database.h"

namespace lowgear::server {

/// Number of the schema, which a file states. It rises with every change of a table or of a stored document's meaning.
inline constexpr std::int64_t kStoreSchema = 6;

/// False for an empty file. Throws InputError for one that is another program's, or of another schema.
[[nodiscard]] bool has_schema(Database& database);

/// Makes the tables of an empty file, all or none. Throws as `has_schema`.
void require_schema(Database& database);

}  // namespace lowgear::server
