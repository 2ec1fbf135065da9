#pragma once

#include <string>

#include "report/report/report_data.h"

namespace lowgear::report {

/// The report as one self-contained HTML page: style, scripts and data are in it, and its content security policy
/// forbids it to fetch anything. Names may hold any text. Curves of many vertices are thinned to what a screen can
/// show (`thin_curve`); every other figure is in the page at full precision, except times of ops: 1e-8 of the
/// iteration.
[[nodiscard]] std::string render_html_report(const Data& data);

}  // namespace lowgear::report
