#pragma once

#include <string>
#include <string_view>

namespace lowgear::report {

/// A page of `src/report/report/page/` with every {{name}} replaced by the page file of that name, also within inserted
/// .html files, and {{report-data}} by `data`, which must be safe inside a <script> element (`escaped_for_script`).
[[nodiscard]] std::string fill_page(std::string_view page_name, std::string_view data);

/// JSON as it may stand in a <script> element: `<`, `>`, `&` and line separators escaped.
[[nodiscard]] std::string escaped_for_script(std::string_view json);

}  // namespace lowgear::report
