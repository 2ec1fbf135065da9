#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lowgear::bench {

/// Errors of one set of runs.
struct ErrorSeries {
  std::string name;
  std::vector<double> error_pct;  ///< estimated over measured, less one
};

/// An SVG with one row of dots per set, on a common axis of errors from -30 to +30 %, where larger ones stand at the
/// edge; the mean absolute error is written beside. Readable on light and dark pages.
[[nodiscard]] std::string error_plot(std::string_view title, const std::vector<ErrorSeries>& series);

}  // namespace lowgear::bench
