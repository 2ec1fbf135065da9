#include "base/core/formats/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace lowgear {

void for_each_json_line(std::string_view text, const std::string& source,
                        const std::function<void(const JsonView& line)>& read) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string place = fmt::format("{}:{}", source, number);
    const Json document = parse_json(text.substr(0, end), place);
    read(JsonView(document, place));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_or_nan(const JsonView& view) {
  return view.json().is_null() ? std::numeric_limits<double>::quiet_NaN() : view.number();
}

}  // namespace lowgear
