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

}  // namespace lowgear::report
