#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/report/report_data.h"

namespace lowgear::report {

/// Largest vertical distance that `thin_curve` allows, as a share of the curve's energy range.
inline constexpr double kCurveTolerance = 1e-5;

/// Fewer vertices for a convex curve that falls or rises with time: those such that straight lines between them are
/// within kCurveTolerance of the energy range of every vertex left out. The first and the last vertex stay.
[[nodiscard]] std::vector<simulator::PipelineFigures> thin_curve(std::span<const simulator::PipelineFigures> curve);

/// The data block of the page (`lowgear.report/1`), safe inside a <script> element: no `<`, `>`, `&` or line separator
/// stands in it unescaped. Text that is not UTF-8 has its bad bytes replaced by U+FFFD; numbers that are not finite
/// become null.
[[nodiscard]] std::string report_json(const Data& data);

/// The report as one self-contained HTML page: style, scripts and data are in it, and its content security policy
/// forbids it to fetch anything. Names may hold any text. Curves of many vertices are thinned to the resolution of a
/// screen (`thin_curve`); every other figure is in the page at full precision, except times of ops: 1e-8 of the
/// iteration.
[[nodiscard]] std::string render_html_report(const Data& data);

}  // namespace lowgear::report
