#include "report/html_report.h"

#include <string_view>

#include "report/page_files.h"
#include "report/report_json.h"

namespace lowgear {

namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";
constexpr std::string_view kDataName = "report-data";

}  // namespace

std::string render_html_report(const ReportData& data) {
  // Only the template is searched for {{name}}: what is put in, user data above all, is never looked at again.
  std::string_view rest = page_file("report.html");
  std::string page;
  for (auto open = rest.find(kOpen); open != std::string_view::npos; open = rest.find(kOpen)) {
    const auto close = rest.find(kClose, open);
    const std::string_view name = rest.substr(open + kOpen.size(), close - open - kOpen.size());
    page += rest.substr(0, open);
    if (name == kDataName) {
      page += report_json(data);
    } else {
      page += page_file(name);
    }
    rest.remove_prefix(close + kClose.size());
  }
  page += rest;
  return page;
}

}  // namespace lowgear
