#include "report/report/page_template.h"

namespace lowgear::report {
namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";
constexpr std::string_view kDataName = "report-data";

constexpr std::string_view kTemplateSuffix = ".html";

/// Appends a template with its placeholders replaced. Only templates are searched for {{name}}: other files, and above
/// all user data, are inserted unchanged.
void append_template(std::string& page, std::string_view text, std::string_view data) {
  for (auto open = text.find(kOpen); open != std::string_view::npos; open = text.find(kOpen)) {
    const auto close = text.find(kClose, open);
    const std::string_view name = text.substr(open + kOpen.size(), close - open - kOpen.size());
    page += text.substr(0, open);
    if (name == kDataName) {
      page += data;
    } else if (name.ends_with(kTemplateSuffix)) {
      append_template(page, page_file(name), data);
    } else {
      page += page_file(name);
    }
    text.remove_prefix(close + kClose.size());
  }
  page += text;
}

}  // namespace

std::string fill_page(std::string_view page_name, std::string_view data) {
  std::string page;
  append_template(page, page_file(page_name), data);
  return page;
}

std::string escaped_for_script(std::string_view json) {
  // Outside of its strings JSON has none of these characters, and inside \uXXXX means the same.
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const std::string_view rest = json.substr(i, 3);
    if (json[i] == '<') {
      out += "\\u003c";
    } else if (json[i] == '>') {
      out += "\\u003e";
    } else if (json[i] == '&') {
      out += "\\u0026";
    } else if (rest == "\xe2\x80\xa8" || rest == "\xe2\x80\xa9") {
      out += rest.back() == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += json[i];
    }
  }
  return out;
}

}  // namespace lowgear::report
