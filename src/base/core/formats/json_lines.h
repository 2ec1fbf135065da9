#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"

namespace lowgear {

/// Calls `read` with each line of a text that has one JSON document a line, as `source:line`. Throws InputError with
/// file, line and column where a line is no JSON.
void for_each_json_line(std::string_view text, const std::string& source,
                        const std::function<void(const JsonView& line)>& read);

/// A number, and null for NaN and infinity, which JSON lacks; read back, null is NaN.
[[nodiscard]] Json number_or_null(double value);
/// Throws InputError where it is neither a number nor null.
[[nodiscard]] double number_or_nan(const JsonView& view);

}  // namespace lowgear
