#include "report/report/perseus_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/api/plan_replays.h"
#include "planning/profile/example_profile.h"
#include "report/report/run_report.h"
#include "rivals/policies/perseus/perseus_policy.h"

namespace lowgear::report {
namespace {

using policies::PerseusCurve;
using policies::PerseusModel;

constexpr std::size_t kMaxFits = 48;
constexpr std::size_t kMaxFrontierPoints = 400;

/// Effective energy over time: options of the profile, those that are kept, and the curve through these.
SeriesPlots::PlotOfSeries fit_plot(const PerseusModel::OpCurve& op, double unit_s, double blocking_power_w,
                                   const profile::StageProfile& profile) {
  SeriesPlots::Series dropped{.name = "option left out", .is_line = false, .points = {}};
  for (const profile::Measurement& row : profile.measurements(op.stage, op.kind)) {
    const bool is_kept = std::ranges::any_of(op.curve.options, [&](const policies::QuantisedOption& option) {
      return option.clock_mhz == row.clock_mhz && option.energy_j == row.energy_j;
    });
    if (!is_kept) dropped.points.push_back({row.time_s, row.energy_j - blocking_power_w * row.time_s});
  }
  SeriesPlots::Series kept{.name = "option", .is_line = false, .points = {}};
  for (const policies::CurvePoint& point : op.curve.points)
    kept.points.push_back({point.units * unit_s, point.energy_j});
  SeriesPlots::Series curve{
      .name = op.curve.fit ? "exponential fit" : "hull of the options, no fit", .is_line = true, .points = {}};
  const std::size_t step = 1 + op.curve.effective_energy_j.size() / kMaxFrontierPoints;
  for (std::size_t i = 0; i < op.curve.effective_energy_j.size(); i += step) {
    const double units = op.curve.fastest_units() + static_cast<double>(i);
    curve.points.push_back({units * unit_s, op.curve.effective_energy_j[i]});
  }
  SeriesPlots::PlotOfSeries plot{.name = fmt::format("Stage {}, {}", op.stage, name(op.kind)), .series = {}};
  for (SeriesPlots::Series* series : {&curve, &kept, &dropped}) {
    if (!series->points.empty()) plot.series.push_back(std::move(*series));
  }
  return plot;
}

double largest_error_pct(const PerseusCurve& curve) {
  double largest = 0;
  for (const policies::CurvePoint& point : curve.points) {
    largest = std::max(largest, std::abs(curve.fit->energy_j(point.units) / point.energy_j - 1));
  }
  return 100 * largest;
}

Table fit_table(const PerseusModel& model) {
  Table table{.title = "Coefficients of the fits",
              .basis = "fitted",
              .columns = {"stage and op", "options", "scale a, J", "rate b, per unit", "offset c, J", "largest error"},
              .rows = {},
              .chosen = std::nullopt};
  for (const PerseusModel::OpCurve& op : model.curves()) {
    std::vector<std::string> row{fmt::format("{} {}", op.stage, name(op.kind)),
                                 fmt::to_string(op.curve.options.size())};
    if (const auto& fit = op.curve.fit) {
      row.insert(row.end(),
                 {fmt::format("{:.6g}", fit->scale_j), fmt::format("{:.6g}", fit->rate_per_unit),
                  fmt::format("{:.6g}", fit->offset_j), fmt::format("{:.2f} %", largest_error_pct(op.curve))});
    } else {
      row.insert(row.end(), {"no fit", "-", "-", "-"});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

SeriesPlots fits(const PerseusModel& model, const api::ProfiledPipeline& pipeline) {
  SeriesPlots plots{.title = "Curve fits",
                    .basis = "fitted to the profile",
                    .caption =
                        "Effective energy of an op (its energy less blocking power times its time) over its time. "
                        "Axes span the values drawn, with or without zero. Options that another one beats in time and "
                        "energy are left out; "
                        "of several options in one unit of time, the one with the most energy is kept.",
                    .x = {"time", SeriesPlots::Unit::seconds},
                    .y = {"effective energy", SeriesPlots::Unit::joules},
                    .plots = {}};
  for (const PerseusModel::OpCurve& op : model.curves()) {
    if (plots.plots.size() == kMaxFits) {
      plots.caption += fmt::format(" {} of {} are shown.", kMaxFits, model.curves().size());
      break;
    }
    const auto first = std::ranges::find_if(pipeline.dag.ops, [&op](const schedule::ComputeOp& one) {
      return one.stage == op.stage && one.kind == op.kind;
    });
    plots.plots.push_back(fit_plot(op, model.unit_s(), pipeline.blocking_power_w[static_cast<std::size_t>(first->rank)],
                                   pipeline.profile));
  }
  return plots;
}

SeriesPlots frontier_plot(const std::vector<PerseusModel::Row>& frontier, const std::vector<std::size_t>& places) {
  SeriesPlots::Series line{.name = "frontier", .is_line = true, .points = {}};
  const std::size_t step = 1 + frontier.size() / kMaxFrontierPoints;
  for (std::size_t i = 0; i < frontier.size(); i += step) {
    line.points.insert(line.points.begin(), {frontier[i].time_s, frontier[i].energy_j});
  }
  SeriesPlots::Series drawn{.name = "plan drawn below", .is_line = false, .points = {}};
  for (const std::size_t place : places) drawn.points.push_back({frontier[place].time_s, frontier[place].energy_j});
  return {
      .title = "Frontier",
      .basis = "of Perseus' model",
      .caption = "The search goes from the right, where all ops are slowest, to the left, one unit of time per step.",
      .x = {"iteration time", SeriesPlots::Unit::seconds},
      .y = {"energy", SeriesPlots::Unit::joules},
      .plots = {{.name = "All ranks, one GPU each", .series = {std::move(line), std::move(drawn)}}}};
}

PipelinePictures pictures(const PerseusModel& model, const api::ProfiledPipeline& pipeline,
                          const std::vector<std::size_t>& places) {
  PipelinePictures all{
      .title = "Plans on the way",
      .basis = "replayed",
      .caption =
          "All ops but forwards have a dark lower edge. Plans are replayed with the profile's times, which "
          "Perseus' model rounds down to its unit: up to 1 % longer than in the frontier.",
      .pictures = {}};
  model.visit_plans(places, [&](const PerseusModel::RowPlan& row) {
    const plan::OpChoicesView choices{row.clocks_mhz, {}};
    const simulator::Timeline replayed = api::replay_under(pipeline.problem(), choices, {});
    all.pictures.push_back(
        report_timeline(fmt::format("Iteration {} of the search", row.row), pipeline.dag, replayed, choices));
  });
  return all;
}

}  // namespace

Page perseus_report(const api::ProfiledPipeline& pipeline, const policies::PerseusOptions& options,
                    const plan::PlanSampling& sampling, Progress* progress) {
  const PerseusModel model(pipeline.problem(progress), options);
  const std::vector<PerseusModel::Row> frontier = model.frontier();
  if (frontier.empty()) throw InputError("perseus: the frontier has one plan: there is no search to draw");
  const std::vector<std::size_t> places = plan::sampled_places(frontier.size(), sampling);
  if (places.size() > kMaxPipelinePictures) {
    throw InputError(fmt::format("perseus: {} pictures of {} plans; one page has at most {}: give every:{}",
                                 places.size(), frontier.size(), kMaxPipelinePictures,
                                 1 + frontier.size() / (kMaxPipelinePictures - 1)));
  }
  Page report;
  report.title = "How Perseus' planner finds its plans";
  report.facts = {{"Stages", fmt::to_string(pipeline.dag.stages)},
                  {"Microbatches", fmt::to_string(pipeline.dag.microbatches)},
                  {"Unit of time", fmt::format("{:g} ms", model.unit_s() * 1e3)},
                  {"Frontier", fmt::format("{} plans", frontier.size())}};
  report.warnings = pipeline.doubts;
  if (is_example_profile(pipeline.profile)) report.warnings.emplace_back(profile::kExampleProfileNotice);
  report.series = {fits(model, pipeline), frontier_plot(frontier, places)};
  report.pipelines = pictures(model, pipeline, places);
  report.tables = {fit_table(model)};
  report.reading = {
      {"Fit",
       "The curve a exp(b d) + c, fitted by least squares as in Perseus' planner; d is the op's time in whole units."},
      {"Largest error", "The fit's largest error at an option, as a share of the option's effective energy."},
      {"Iteration", "Numbered as lowtime numbers its plans: 0 is the slowest."}};
  return report;
}

}  // namespace lowgear::report
