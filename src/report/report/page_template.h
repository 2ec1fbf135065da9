#pragma once

#include <string>
#include <string_view>

namespace lowgear::report {

/// A file of `src/report/report/page/` (or the plotting library), embedded when the module was built; the server's
/// dashboard shares some. Throws std::out_of_range when there is none of that name.
[[nodiscard]] std::string_view page_file(std::string_view name);

/// A page of `src/report/report/page/` with every {{name}} replaced by the page file of that name, also within inserted
/// .html files, and {{report-data}} by `data`, which must be safe inside a <script> element (`escaped_for_script`).
[[nodiscard]] std::string fill_page(std::string_view page_name, std::string_view data);

/// JSON as it may stand in a <script> element: `<`, `>`, `&` and line separators escaped.
[[nodiscard]] std::string escaped_for_script(std::string_view json);

}  // namespace lowgear::report
