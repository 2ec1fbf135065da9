#include "base/core/formats/web_page.h"

#include <algorithm>
#include <cstddef>

#include "base/core/error.h"

namespace lowgear {
namespace {

char lower_case(char letter) { return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter; }

bool begins_with(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::ranges::equal(text.substr(0, lower.size()), lower, {}, lower_case);
}

}  // namespace

void refuse_web_page(std::string_view text, const std::string& source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  const bool is_page = begins_with(text, "<!doctype") || begins_with(text, "<html") || begins_with(text, "<?xml");
  if (!is_page) return;
  throw_input_error({source, 0, 0}, "it is a web page (HTML or XML), as a failed download leaves it",
                    "download the file itself");
}

}  // namespace lowgear
