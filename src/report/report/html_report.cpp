#include "report/report/html_report.h"

#include "report/report/page_template.h"
#include "report/report/report_json.h"

namespace lowgear::report {

std::string render_html_report(const Data& data) { return fill_page("report.html", report_json(data)); }

}  // namespace lowgear::report
