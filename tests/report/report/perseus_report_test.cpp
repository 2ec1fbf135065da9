#include "report/report/perseus_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/perseus/perseus_policy.h"

namespace lowgear::report {
namespace {

constexpr double kPowerW = 80;

/// Two stages whose effective energies are 100 exp(-20 t) + 5 J, which the fit finds; one option is beaten by another.
api::ProfiledPipeline pipeline() {
  profile::StageProfile profile(2);
  for (int stage = 0; stage < 2; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      for (int step = 0; step < 8; ++step) {
        const double time_s = 0.05 + 0.005 * step + 1e-6;
        const double energy_j = 100 * std::exp(-20 * std::floor(time_s * 1e3) / 1e3) + 5 + kPowerW * time_s;
        profile.add(stage, kind, {1400 - 100 * step, time_s, energy_j});
      }
      profile.add(stage, kind, {600, 0.2, 500});
    }
  }
  schedule::Schedule schedule = schedule::one_f_one_b_schedule(2, 3);
  schedule::PipelineDag dag = build_dag(schedule);
  return {.profile = std::move(profile),
          .schedule = std::move(schedule),
          .dag = std::move(dag),
          .blocking_power_w = {kPowerW, kPowerW}};
}

const SeriesPlots::Series& series_of(const SeriesPlots::PlotOfSeries& plot, const std::string& name) {
  return *std::ranges::find(plot.series, name, &SeriesPlots::Series::name);
}

TEST(PerseusReport, DrawsTheFitThroughTheOptions) {
  const Page report = perseus_report(pipeline(), {}, {.count = 3});
  const SeriesPlots& fits = report.series[0];
  ASSERT_EQ(fits.plots.size(), 4U);
  EXPECT_EQ(fits.plots[0].name, "Stage 0, forward");
  const SeriesPlots::Series& options = series_of(fits.plots[0], "option");
  EXPECT_EQ(options.points.size(), 8U);
  EXPECT_NEAR(options.points[0].x, 0.05, 1e-9);
  EXPECT_NEAR(options.points[0].y, 100 * std::exp(-1) + 5, 1e-3);
  const SeriesPlots::Series& left_out = series_of(fits.plots[0], "option left out");
  ASSERT_EQ(left_out.points.size(), 1U);
  EXPECT_NEAR(left_out.points[0].y, 500 - kPowerW * 0.2, 1e-9);
  for (const SeriesPlots::Point& point : series_of(fits.plots[0], "exponential fit").points) {
    EXPECT_NEAR(point.y, 100 * std::exp(-20 * point.x) + 5, 1e-3);
  }
  EXPECT_EQ(report.tables[0].rows.size(), 4U);
  EXPECT_EQ(report.tables[0].rows[0][0], "0 forward");
}

TEST(PerseusReport, DrawsPlansOfItsFrontierSlowestFirst) {
  const api::ProfiledPipeline planned = pipeline();
  const Page report = perseus_report(planned, {}, {.count = {}, .every = 20});
  const policies::PerseusModel model(planned.problem(), policies::kPerseusUnitS);
  const std::size_t rows = model.frontier().size();
  const auto& pictures = report.pipelines->pictures;
  ASSERT_EQ(pictures.size(), plan::sampled_places(rows, {.count = {}, .every = 20}).size());
  EXPECT_EQ(pictures.front().label, "Iteration 0 of the search");
  EXPECT_EQ(pictures[1].label, "Iteration 20 of the search");
  for (std::size_t i = 1; i < pictures.size(); ++i) EXPECT_LT(pictures[i].time_s, pictures[i - 1].time_s);
  EXPECT_NEAR(pictures.back().time_s, model.fastest_s(), 0.01 * model.fastest_s()) << "replayed with whole times";
  ASSERT_EQ(pictures[0].ranks.size(), 2U);
  EXPECT_EQ(pictures[0].ranks[0].size(), 6U);
  EXPECT_EQ(series_of(report.series[1].plots[0], "plan drawn below").points.size(), pictures.size());
}

TEST(PerseusReport, SaysHowManyPicturesOnePageHas) {
  const api::ProfiledPipeline planned = pipeline();
  EXPECT_THAT(error_of([&] { (void)perseus_report(planned, {}, {}); }),
              testing::HasSubstr("one page has at most 100: give every:"));
}

}  // namespace
}  // namespace lowgear::report
