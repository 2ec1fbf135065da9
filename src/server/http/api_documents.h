#pragma once

#include <string_view>

namespace lowgear::server {

/// An embedded document of the API (`openapi.json`). Throws std::out_of_range where there is no file of that name.
[[nodiscard]] std::string_view api_document(std::string_view name);

}  // namespace lowgear::server
