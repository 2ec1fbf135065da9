#pragma once

#include <string_view>

namespace lowgear::report {

/// A file of `src/report/report/page/` (or the plotting library), embedded when the module was built; the server's
/// dashboard shares some. Throws std::out_of_range when there is none of that name.
[[nodiscard]] std::string_view page_file(std::string_view name);

}  // namespace lowgear::report
