#include "error_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace lowgear::bench {
namespace {

constexpr double kLabelWidth = 230;
constexpr double kPlotWidth = 440;
constexpr double kFigureWidth = 90;
constexpr double kRowHeight = 34;
constexpr double kTop = 46;
constexpr double kBottom = 40;
constexpr double kAxisPct = 30;

double x_of(double error_pct) {
  const double within = std::clamp(error_pct, -kAxisPct, kAxisPct);
  return kLabelWidth + kPlotWidth * (within + kAxisPct) / (2 * kAxisPct);
}

/// Dots of equal errors would cover each other: each takes the next of five heights in its row.
double offset_of(std::size_t i) { return (static_cast<double>(i % 5) - 2) * 3.5; }

std::string axis(double bottom) {
  std::string svg;
  for (int pct = -30; pct <= 30; pct += 10) {
    const double x = x_of(pct);
    svg += fmt::format("<line x1='{0:.1f}' y1='{1}' x2='{0:.1f}' y2='{2}' class='{3}'/>\n", x, kTop - 8, bottom,
                       pct == 0 ? "zero" : "grid");
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:+d} %</text>\n", x, bottom + 18, pct);
  }
  return svg;
}

/// A dot is a line of no length with a round end.
std::string row(const ErrorSeries& series, double y) {
  double absolute = 0;
  std::string dots;
  for (std::size_t i = 0; i < series.error_pct.size(); ++i) {
    absolute += std::abs(series.error_pct[i]);
    dots += fmt::format("M{:.1f} {:.1f}h0{}", x_of(series.error_pct[i]), y + offset_of(i), i % 10 == 9 ? "\n" : "");
  }
  return fmt::format(
      "<text x='{}' y='{:.1f}' text-anchor='end'>{} ({})</text>\n<path stroke-width='{}' d='{}'/>\n"
      "<text x='{}' y='{:.1f}'>mean {:.1f} %</text>\n",
      kLabelWidth - 14, y + 4, series.name, series.error_pct.size(), series.error_pct.size() > 100 ? 3 : 6, dots,
      kLabelWidth + kPlotWidth + 14, y + 4, absolute / static_cast<double>(series.error_pct.size()));
}

}  // namespace

std::string error_plot(std::string_view title, const std::vector<ErrorSeries>& series) {
  const double bottom = kTop + kRowHeight * static_cast<double>(series.size());
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}'>\n"
      "<style>text {{ font: 13px sans-serif; fill: #6b7280; }} .title {{ font-weight: bold; }}\n"
      ".grid {{ stroke: #9ca3af; stroke-opacity: 0.35; }} .zero {{ stroke: #6b7280; }}\n"
      "path {{ stroke: #2563eb; stroke-opacity: 0.6; stroke-linecap: round; }}</style>\n<text x='{2}' y='20' "
      "class='title'>{3}</text>\n",
      kLabelWidth + kPlotWidth + kFigureWidth, bottom + kBottom, kLabelWidth, title);
  svg += axis(bottom);
  for (std::size_t i = 0; i < series.size(); ++i) {
    svg += row(series[i], kTop + kRowHeight * (static_cast<double>(i) + 0.5));
  }
  return svg + "</svg>\n";
}

}  // namespace lowgear::bench
