#pragma once

#include <string_view>

namespace lowgear::server {

/// A file of `dashboard/`, embedded when the module was built. Throws std::out_of_range when there is none of that
/// name.
[[nodiscard]] std::string_view dashboard_source(std::string_view name);

/// An embedded document of the API (`openapi.json`). Throws std::out_of_range where there is no file of that name.
[[nodiscard]] std::string_view api_document(std::string_view name);

}  // namespace lowgear::server
