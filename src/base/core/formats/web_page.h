#pragma once

#include <string>
#include <string_view>

namespace lowgear {

/// Throws InputError when `text` is HTML or XML: what a failed download leaves under the name of another file. For
/// readers of formats in which a file cannot begin so.
void refuse_web_page(std::string_view text, const std::string& source);

}  // namespace lowgear
