#include "app/operations/text/curve_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "app/cli/terminal/table.h"
#include "base/core/version.h"
#include "estimating/power/gpu_file_writer.h"

namespace lowgear::operations {
namespace {

using curve::CurveLoad;
using curve::CurveSample;
using power::Estimated;
using power::VoltagePoint;

std::string with_error(const Estimated& figure, int digits) {
  return fmt::format("{:.{}f} ± {:.{}f}", figure.value, digits, figure.error, digits);
}

/// `fp8 bits + adds`
std::string kind_name(const CurveLoad& load) {
  return fmt::format("{} {}{}", name(load.type), name(load.data), load.adds ? " + adds" : "");
}

bool is_kind(const CurveLoad& load, const CurveLoad& kind) {
  return load.product_sms > 0 && load.type == kind.type && load.data == kind.data && load.adds == kind.adds;
}

/// What the page and the text both state.
std::vector<std::pair<std::string, std::string>> figures(const FittedCurve& fitted) {
  const curve::CurveFit& fit = fitted.fit;
  const auto& still = fit.static_power;
  std::vector<std::pair<std::string, std::string>> rows = {
      {"highest clock", fmt::format("{:.0f} MHz", fit.max_clock_mhz)},
      {"measured from", fmt::format("{:.0f} MHz", fit.voltage.measured_from_mhz())},
      {"static power", fmt::format("{} W at {:.0f} °C, {} W per K", with_error(still.at_reference_w, 1),
                                   still.reference_c, with_error(still.per_k_w, 2))},
      {"of it with the clock",
       fmt::format("{} W{}", with_error(still.clock_tree_w, 0), still.clock_tree_assumed ? ", assumed" : "")}};
  if (fit.byte_pj.value > 0) {
    rows.emplace_back("device memory", fmt::format("{} pJ a byte, {} of it with the voltage",
                                                   with_error(fit.byte_pj, 1), with_error(fit.byte_clock_share, 2)));
  }
  if (fit.cache_pj.value > 0) {
    rows.emplace_back("last-level cache",
                      fmt::format("{} pJ a byte, {} of it with the voltage", with_error(fit.cache_pj, 1),
                                  with_error(fit.cache_clock_share, 2)));
  }
  rows.emplace_back("lost in delivery",
                    fmt::format("{} of a kilowatt of work, with its square", with_error(fit.loss_per_kw, 3)));
  for (const curve::LoadEnergy& load : fit.loads) {
    rows.emplace_back(kind_name(load.load), fmt::format("{} pJ an operation, {:.0f} operations a cycle",
                                                        with_error(load.pj, 3), load.ops_per_cycle_sm));
  }
  rows.emplace_back("drift", fmt::format("{} W over the measurement", with_error(fit.drift_w, 1)));
  rows.emplace_back("samples", fmt::format("{} used, {} left out; measured over fitted power scatters by {:.2f} %",
                                           fitted.samples.size() - fit.left_out(), fit.left_out(), 100 * fit.residual));
  return rows;
}

cli::Table voltage_table(const power::VoltageCurve& voltage) {
  cli::Table table({{"clock, MHz"}, {"V² of the highest"}, {"±"}, {"", cli::Table::Align::left}});
  for (const VoltagePoint& point : voltage.points()) {
    table.add_row({fmt::format("{:.0f}", point.clock_mhz), fmt::format("{:.3f}", point.relative_v2),
                   fmt::format("{:.3f}", point.error), voltage.is_measured(point.clock_mhz) ? "" : "extrapolated"});
  }
  return table;
}

report::SeriesPlots::Series marks(std::string name, std::vector<report::SeriesPlots::Point> points) {
  return {.name = std::move(name), .is_line = false, .points = std::move(points)};
}
report::SeriesPlots::Series line(std::string name, std::vector<report::SeriesPlots::Point> points) {
  return {.name = std::move(name), .is_line = true, .points = std::move(points)};
}

/// Samples without streams and reads by number of multiprocessors, one plot for each kind of load.
report::SeriesPlots power_plots(const FittedCurve& fitted) {
  report::SeriesPlots figure{.title = "Power by multiprocessors at work",
                             .basis = "measured",
                             .caption =
                                 "Every sample at the clock that the GPU chose. The fitted power is at the "
                                 "clock and temperature of the sample.",
                             .x = {.name = "multiprocessors"},
                             .y = {.name = "power, W"},
                             .plots = {}};
  for (const curve::LoadEnergy& kind : fitted.fit.loads) {
    std::vector<report::SeriesPlots::Point> measured;
    std::vector<report::SeriesPlots::Point> computed;
    for (std::size_t i = 0; i < fitted.samples.size(); ++i) {
      const CurveSample& sample = fitted.samples[i];
      if (!is_kind(sample.load, kind.load) || sample.load.stream_sms > 0 || sample.load.reads > 0) continue;
      measured.push_back({static_cast<double>(sample.load.product_sms), sample.power_w()});
      computed.push_back({static_cast<double>(sample.load.product_sms), fitted.fit.samples[i].fitted_w});
    }
    if (measured.empty()) continue;
    std::ranges::sort(computed, {}, &report::SeriesPlots::Point::x);
    figure.plots.push_back(
        {kind_name(kind.load), {marks("measured", std::move(measured)), line("fitted", std::move(computed))}});
  }
  return figure;
}

/// V² of those points whose clock is `from_mhz` or more, with its error.
std::vector<report::SeriesPlots::Series> voltage_lines(const power::VoltageCurve& voltage, double from_mhz) {
  std::vector<report::SeriesPlots::Point> fitted;
  std::vector<report::SeriesPlots::Point> low;
  std::vector<report::SeriesPlots::Point> high;
  const std::vector<power::VoltageBounds> bounds = voltage.bounds();
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const VoltagePoint& point = voltage.points()[i];
    if (point.clock_mhz < from_mhz) continue;
    fitted.push_back({point.clock_mhz, point.relative_v2});
    low.push_back({point.clock_mhz, bounds[i].low});
    high.push_back({point.clock_mhz, bounds[i].high});
  }
  return {line("fitted", std::move(fitted)), line("one standard error below", std::move(low)),
          line("above", std::move(high))};
}

/// The curve with the V² of each sample where there are samples, and all of it.
report::SeriesPlots voltage_plots(const FittedCurve& fitted) {
  const power::VoltageCurve& voltage = fitted.fit.voltage;
  report::SeriesPlots::PlotOfSeries seen{
      .name = fmt::format("Measured, from {:.0f} MHz up", voltage.measured_from_mhz()),
      .series = voltage_lines(voltage, voltage.measured_from_mhz())};
  for (const curve::LoadEnergy& kind : fitted.fit.loads) {
    std::vector<report::SeriesPlots::Point> measured;
    for (std::size_t i = 0; i < fitted.samples.size(); ++i) {
      const curve::FittedSample& of_sample = fitted.fit.samples[i];
      constexpr double kClear = 0.05;
      if (!is_kind(fitted.samples[i].load, kind.load) || of_sample.relative_v2_error > kClear) continue;
      measured.push_back({of_sample.clock_mhz, of_sample.relative_v2});
    }
    if (!measured.empty()) seen.series.push_back(marks(kind_name(kind.load), std::move(measured)));
  }
  report::SeriesPlots::PlotOfSeries whole{.name = "All clocks, extrapolated below",
                                          .series = voltage_lines(voltage, 0)};
  return {.title = "V² by clock",
          .basis = "measured",
          .caption = "Energy of an operation relative to that at the highest clock.",
          .x = {.name = "SM clock, MHz"},
          .y = {.name = "V²"},
          .plots = {std::move(seen), std::move(whole)}};
}

report::Table left_out_table(const FittedCurve& fitted) {
  report::Table table{.title = "Samples left out",
                      .basis = "measured",
                      .columns = {"Load", "Power, W", "Reason"},
                      .rows = {},
                      .chosen = std::nullopt};
  for (std::size_t i = 0; i < fitted.samples.size(); ++i) {
    if (fitted.fit.samples[i].left_out.empty()) continue;
    table.rows.push_back({describe(fitted.samples[i].load), fmt::format("{:.1f}", fitted.samples[i].power_w()),
                          fitted.fit.samples[i].left_out});
  }
  return table;
}

}  // namespace

std::string curve_text(const FittedCurve& fitted) {
  std::string text = fmt::format("{}, {} SMs, limit {:.0f} W{}\n", fitted.origin.gpu, fitted.origin.multiprocessors,
                                 fitted.origin.limit_w, fitted.origin.simulated ? ", simulated" : "");
  for (const auto& [name, value] : figures(fitted)) text += fmt::format("  {:<22} {}\n", name, value);
  text += voltage_table(fitted.fit.voltage).text();
  for (const auto& row : left_out_table(fitted).rows) text += fmt::format("left out: {}: {}\n", row[0], row[2]);
  return text;
}

Json curve_json(const FittedCurve& fitted) {
  Json json = to_json(gpu_file(fitted.fit, fitted.origin));
  json["samples"] = fitted.samples.size();
  json["residual"] = fitted.fit.residual;
  json["left_out"] = Json::array();
  for (const auto& row : left_out_table(fitted).rows) {
    json["left_out"].push_back({{"load", row[0]}, {"reason", row[2]}});
  }
  return json;
}

report::Page curve_page(const FittedCurve& fitted, std::string command) {
  report::Page page{.lowgear_version = version(),
                    .command = std::move(command),
                    .title = fmt::format("Clock-energy curve of {}", fitted.origin.gpu),
                    .facts = {},
                    .cards = {},
                    .warnings = {},
                    .plot = std::nullopt,
                    .bars = {},
                    .tables = {},
                    .reading = {{"V²", "Square of the core voltage: what an operation costs, apart from static power."},
                                {"Extrapolated", "Below the lowest clock that a sample ran at."}}};
  if (fitted.origin.simulated) page.warnings.emplace_back("Measured on a simulated GPU.");
  for (const auto& [name, value] : figures(fitted)) page.facts.push_back({name, value});
  page.series = {voltage_plots(fitted), power_plots(fitted)};
  if (fitted.fit.left_out() > 0) page.tables.push_back(left_out_table(fitted));
  return page;
}

}  // namespace lowgear::operations
