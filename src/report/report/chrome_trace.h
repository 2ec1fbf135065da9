#pragma once

#include <span>
#include <string>
#include <string_view>

#include "report/report/measured_timeline.h"
#include "report/report/report_data.h"

namespace lowgear::report {

/// Where the figures of a trace come from; stands in its title.
enum class TraceFigures {
  planned,   ///< by a plan
  replayed,  ///< its clocks run through the simulator
};

/// One iteration in Chrome's trace event format (JSON), which Perfetto (ui.perfetto.dev) and chrome://tracing show: a
/// process per rank with its ops as slices (`clock_mhz`, `energy_j`, `kind`, `stage`, `microbatch` as arguments) and a
/// counter track `power` in W. An op's power is its energy over its time; between ops, and after the last until the
/// iteration's end, it is the rank's blocking power. Times are whole nanoseconds, the resolution of these viewers, each
/// begin and end rounded; an op's power is over its rounded time, so that its area stays its energy. `otherData` holds
/// the title, where figures come from, the iteration's time and its energy. `blocking_power_w` by rank.
/// Throws InputError when ops of a rank overlap or reach beyond the iteration, or a figure is negative or not finite.
[[nodiscard]] std::string write_chrome_trace(const Timeline& timeline, std::span<const double> blocking_power_w,
                                             TraceFigures figures);

/// The same with measurements: after the process of each rank those of the ranks that ran its ops, from the same
/// origin, with the clocks that were asked for. Their `power` is the mean between two values of the GPU's energy
/// counter, and `SM clock` as the GPU reported it. `otherData.measured` has `figures` (`measured`, or `simulated` on
/// simulated GPUs), `iteration`, `time_s` and `time_axis`.
[[nodiscard]] std::string write_chrome_trace(const Timeline& timeline, std::span<const double> blocking_power_w,
                                             TraceFigures figures, const MeasuredTimeline& measured);

/// `measured`, or `simulated`.
[[nodiscard]] std::string_view figures_of(const MeasuredTimeline& measured);
[[nodiscard]] std::string_view text_of(TimeAxis axis);

}  // namespace lowgear::report
