#include "report/report/html_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <regex>

#include "base/core/formats/json.h"
#include "report/report/page_template.h"
#include "report/report/sample_report.h"

namespace lowgear::report {

namespace {

using ::testing::DoubleNear;
using ::testing::Field;
using ::testing::HasSubstr;

Json written(const Data& data) { return parse_json(report_json(data), "report"); }

TEST(ReportJson, HoldsEveryFigure) {
  Data data = sample_report(4, 8);
  data.late_by_s = 0.015;
  data.lower_bound = {{5, 7}, {6, 6}};
  data.warnings = {"stage 2 forward: time does not fall from 1395 to 1410 MHz"};
  const Json json = written(data);
  EXPECT_EQ(json["lowgear_version"], data.lowgear_version);
  EXPECT_EQ(json["command"], data.command);
  EXPECT_EQ(json["profile_name"], data.profile_name);
  EXPECT_EQ(json["schedule"], "1f1b");
  EXPECT_EQ(json["stages"], 4);
  EXPECT_EQ(json["microbatches"], 8);
  EXPECT_EQ(json["blocking_power_w"], Json(data.blocking_power_w));
  EXPECT_EQ(json["late_by_s"], 0.015);
  EXPECT_EQ(json["baseline"]["description"], data.baseline.description);
  EXPECT_EQ(json["baseline"]["time_s"], data.baseline.time_s);
  EXPECT_EQ(json["baseline"]["energy_j"], data.baseline.energy_j);
  EXPECT_EQ(json["frontier_vertices"], data.frontier.size());
  EXPECT_EQ(json["lower_bound"]["time_s"], (Json{5.0, 6.0}));
  EXPECT_EQ(json["lower_bound"]["energy_j"], (Json{7.0, 6.0}));
  EXPECT_EQ(json["certificate"]["verified"], true);
  EXPECT_EQ(json["certificate"]["statement"], data.certificate.statement);
  EXPECT_EQ(json["certificate"]["command"], data.certificate.command);
  EXPECT_EQ(json["chosen_plan"], 0);
  EXPECT_EQ(json["chosen"]["label"], data.chosen.label);
  EXPECT_EQ(json["warnings"], Json(data.warnings));
}

TEST(ReportJson, HoldsEveryPlanAndPolicy) {
  Data data = sample_report(4, 8);
  data.policies[1].lower_bound_j.reset();
  data.policies[1].plan_time_s.reset();
  data.policies[0].peak_activations = 8;
  data.stages = 8;
  data.orders = {{.name = "list-v", .stages_per_rank = 2, .peak_activations = 8, .plans = {}}};
  const Json json = written(data);
  ASSERT_EQ(json["plans"].size(), data.plans.size());
  const api::PlanFigures& plan = data.plans[7];
  EXPECT_EQ(json["plans"][7], (Json{{"number", plan.number},
                                    {"deadline_s", plan.deadline_s},
                                    {"time_s", plan.time_s},
                                    {"energy_j", plan.energy_j},
                                    {"lower_bound_j", *plan.lower_bound_j},
                                    {"switches", plan.switches}}));
  ASSERT_EQ(json["policies"].size(), data.policies.size());
  EXPECT_EQ(json["policies"][0]["peak_activations"], 4) << "two stages on each rank";
  EXPECT_EQ(json["orders"][0]["peak_activations"], 4);
  const api::ComparisonRow& policy = data.policies[1];
  EXPECT_EQ(json["policies"][1], (Json{{"name", policy.label()},
                                       {"time_s", policy.time_s},
                                       {"energy_j", policy.energy_j},
                                       {"lower_bound_j", nullptr},
                                       {"switches", policy.switches},
                                       {"plan_time_s", nullptr},
                                       {"note", policy.note},
                                       {"own_order", false},
                                       {"peak_activations", nullptr}}));
}

/// The op that a rank's row of the data block describes at `index`.
Op op_of(const Json& timeline, const Json& row, std::size_t index) {
  const double tick_s = timeline["tick_s"];
  const Json& cost = timeline["costs"][row["cost"][index].get<std::size_t>()];
  return {{.stage = cost[0],
           .kind = *std::ranges::find(kScheduledKinds, cost[1].get<std::string>().at(0), letter),
           .microbatch = row["microbatch"][index],
           .clock_mhz = cost[2],
           .start_s = row["start"][index].get<double>() * tick_s,
           .duration_s = cost[3].get<double>() * tick_s},
          cost[4]};
}

auto same_op(const Op& op, double tolerance_s) {
  return testing::AllOf(Field(&Op::stage, op.stage), Field(&Op::kind, op.kind), Field(&Op::microbatch, op.microbatch),
                        Field(&Op::clock_mhz, op.clock_mhz), Field(&Op::start_s, DoubleNear(op.start_s, tolerance_s)),
                        Field(&Op::duration_s, DoubleNear(op.duration_s, tolerance_s)),
                        Field(&Op::energy_j, DoubleNear(op.energy_j, op.energy_j * 1e-5)));
}

void expect_same_ops(const Json& json, const Timeline& timeline) {
  const double tolerance_s = timeline.time_s * 1e-7;
  ASSERT_EQ(json["ranks"].size(), timeline.ranks.size());
  for (std::size_t rank = 0; rank < timeline.ranks.size(); ++rank) {
    const Json& row = json["ranks"][rank];
    ASSERT_EQ(row["cost"].size(), timeline.ranks[rank].size());
    for (std::size_t i = 0; i < timeline.ranks[rank].size(); ++i) {
      EXPECT_THAT(op_of(json, row, i), same_op(timeline.ranks[rank][i], tolerance_s));
    }
  }
}

TEST(ReportJson, TimelinesCanBeReadBack) {
  const Data data = sample_report(4, 8);
  const Json json = written(data);
  expect_same_ops(json["chosen"], data.chosen);
  expect_same_ops(json["baseline_timeline"], data.baseline_timeline);
}

TEST(ReportJson, KeepsPrecisionForVeryShortAndVeryLongIterations) {
  for (const double scale : {1e-9, 1e-3, 1e5}) {
    Data data = sample_report(2, 4);
    data.chosen.time_s *= scale;
    for (auto& ops : data.chosen.ranks) {
      for (Op& op : ops) {
        op.start_s *= scale;
        op.duration_s *= scale;
      }
    }
    expect_same_ops(written(data)["chosen"], data.chosen);
  }
}

TEST(ReportJson, WritesWhatIsNotANumberAsNull) {
  Data data = sample_report(2, 4);
  data.policies[0].energy_j = std::numeric_limits<double>::quiet_NaN();
  data.plans[0].deadline_s = std::numeric_limits<double>::infinity();
  data.chosen.ranks[0][0].start_s = std::numeric_limits<double>::infinity();
  const Json json = written(data);
  EXPECT_TRUE(json["policies"][0]["energy_j"].is_null());
  EXPECT_TRUE(json["plans"][0]["deadline_s"].is_null());
  EXPECT_EQ(json["chosen"]["ranks"][0]["start"][0], 0);
}

TEST(ReportJson, IsSafeInsideAScriptElement) {
  Data data;
  data.profile_name = "<a> & </script> \xe2\x80\xa8\xe2\x80\xa9 \xe2\x80\xa6 \"quoted\" \\";
  const std::string text = report_json(data);
  for (const char* raw : {"<", ">", "&", "\xe2\x80\xa8", "\xe2\x80\xa9"})
    EXPECT_THAT(text, testing::Not(HasSubstr(raw)));
  EXPECT_THAT(text, HasSubstr("\xe2\x80\xa6")) << "other characters of that block stay";
  EXPECT_EQ(parse_json(text, "report")["profile_name"], data.profile_name);
}

TEST(ReportJson, ReplacesBytesThatAreNotUtf8) {
  Data data;
  data.profile_name =
      "a\xff\xfe"
      "b\xe2\x80";
  EXPECT_THAT(written(data)["profile_name"].get<std::string>(), HasSubstr("\xef\xbf\xbd"));
}

/// Vertices of a random convex curve that falls and may rise again.
std::vector<simulator::PipelineFigures> random_convex_curve(std::mt19937& random, int vertices) {
  std::uniform_real_distribution<double> step(0.01, 1);
  std::vector<double> slopes(vertices - 1);
  for (double& slope : slopes) slope = -50 + 60 * step(random);
  std::sort(slopes.begin(), slopes.end());
  std::vector<simulator::PipelineFigures> curve{{1, 1000}};
  for (const double slope : slopes) {
    const double length_s = step(random);
    curve.push_back({curve.back().time_s + length_s, curve.back().energy_j + slope * length_s});
  }
  return curve;
}

double energy_at(const std::vector<simulator::PipelineFigures>& curve, double time_s) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const simulator::PipelineFigures& a = curve[i - 1];
    const simulator::PipelineFigures& b = curve[i];
    if (time_s <= b.time_s) {
      return a.energy_j + (b.energy_j - a.energy_j) * (time_s - a.time_s) / (b.time_s - a.time_s);
    }
  }
  return curve.back().energy_j;
}

double energy_range(const std::vector<simulator::PipelineFigures>& curve) {
  const auto [low, high] = std::minmax_element(
      curve.begin(), curve.end(),
      [](const simulator::PipelineFigures& a, const simulator::PipelineFigures& b) { return a.energy_j < b.energy_j; });
  return high->energy_j - low->energy_j;
}

/// Largest vertical distance of a vertex of `curve` from `thin`.
double worst_error(const std::vector<simulator::PipelineFigures>& thin,
                   const std::vector<simulator::PipelineFigures>& curve) {
  double worst_j = 0;
  for (const simulator::PipelineFigures& point : curve) {
    worst_j = std::max(worst_j, std::abs(energy_at(thin, point.time_s) - point.energy_j));
  }
  return worst_j;
}

TEST(ThinCurve, StaysWithinItsToleranceOfEveryVertex) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    const auto curve = random_convex_curve(random, 2 + round * 60);
    const auto thin = thin_curve(curve);
    EXPECT_LE(thin.size(), curve.size());
    EXPECT_EQ(thin.front().time_s, curve.front().time_s);
    EXPECT_EQ(thin.back().time_s, curve.back().time_s);
    EXPECT_LE(worst_error(thin, curve), 1.0001 * kCurveTolerance * energy_range(curve));
  }
}

TEST(ThinCurve, KeepsOnlyTheEndsOfALineAndAllOfAPolygon) {
  std::vector<simulator::PipelineFigures> line;
  line.reserve(1000);
  for (int i = 0; i < 1000; ++i) line.push_back({1.0 + i, 5000.0 - 2 * i});
  EXPECT_EQ(thin_curve(line).size(), 2);
  const std::vector<simulator::PipelineFigures> polygon{{0, 100}, {1, 50}, {2, 20}, {3, 10}, {4, 8}};
  EXPECT_EQ(thin_curve(polygon).size(), polygon.size());
}

TEST(ThinCurve, MakesALongCurveShort) {
  std::vector<simulator::PipelineFigures> curve;
  curve.reserve(100'001);
  for (int i = 0; i <= 100'000; ++i) curve.push_back({1 + i * 1e-5, 1 / (1 + i * 1e-5)});
  EXPECT_LT(thin_curve(curve).size(), 400);
}

TEST(ThinCurve, TakesCurvesWithoutLength) {
  EXPECT_TRUE(thin_curve({}).empty());
  const std::vector<simulator::PipelineFigures> same_time{{1, 5}, {1, 4}, {1, 3}};
  EXPECT_EQ(thin_curve(same_time).front().energy_j, 5);
  EXPECT_EQ(thin_curve(same_time).back().energy_j, 3);
}

TEST(ReportJson, HasSettingsOnlyWhereOpsHaveOne) {
  Data data = sample_report(2, 2);
  const Json without = written(data);
  EXPECT_EQ(without["chosen"]["cost_fields"].size(), 5);
  data.chosen.ranks[0][0].setting = "attn=sm12;mlp=sm6";
  const Json json = written(data);
  EXPECT_EQ(json["chosen"]["cost_fields"].back(), "setting");
  const std::size_t cost = json["chosen"]["ranks"][0]["cost"][0];
  EXPECT_EQ(json["chosen"]["costs"][cost].back(), "attn=sm12;mlp=sm6");
  EXPECT_EQ(json["baseline_timeline"], without["baseline_timeline"]);
}

using ::testing::Not;

constexpr std::string_view kDataOpen = R"(<script id="report-data" type="application/json">)";

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

Json data_of(std::string_view page) {
  const auto from = page.find(kDataOpen) + kDataOpen.size();
  return parse_json(page.substr(from, page.find("</script>", from) - from), "report-data");
}

/// The page without the plotting library, whose text is not ours.
std::string without_library(std::string page) {
  const std::string_view library = page_file("d3.min.js");
  page.erase(page.find(library), library.size());
  return page;
}

TEST(HtmlReport, HoldsItsPartsAndItsData) {
  const std::string page = render_html_report(sample_report(4, 8));
  for (const char* part :
       {"light.css", "dark.css", "components.css", "report.css", "units.js", "palette.js", "readout.js",
        "interaction.js", "frontier.js", "timeline_data.js", "timeline.js", "timeline_legend.js", "data_table.js",
        "tables.js", "main.js", "d3.min.js", "d3_license.txt"}) {
    EXPECT_EQ(count(page, page_file(part)), 1) << part;
  }
  EXPECT_EQ(data_of(page)["format"], "lowgear.report/1");
  EXPECT_EQ(count(without_library(page), "{{"), 0) << "a placeholder was not filled";
}

TEST(HtmlReport, AsksTheBrowserToForbidTheNetworkBeforeAnythingElse) {
  const std::string page = render_html_report(sample_report(4, 8));
  const auto policy = page.find("Content-Security-Policy");
  ASSERT_NE(policy, std::string::npos);
  EXPECT_LT(policy, page.find("<script"));
  EXPECT_LT(policy, page.find("<style"));
  EXPECT_THAT(page.substr(policy, 200), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.substr(policy, 200), Not(HasSubstr("http")));
}

TEST(HtmlReport, RefersToNothingOutsideOfItself) {
  const std::string page = without_library(render_html_report(sample_report(4, 8)));
  for (const char* reference : {R"(<link\b)", R"(<(img|iframe|object|embed|video|audio|source)\b)", R"(\bsrc\s*=)",
                                R"(@import)", R"(href\s*=\s*["'](?!#))", R"(url\((?!#))", R"(\bfetch\()",
                                R"(XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)"}) {
    EXPECT_FALSE(std::regex_search(page, std::regex(reference))) << reference;
  }
  // Names of XML vocabularies are no addresses that anybody fetches.
  EXPECT_FALSE(std::regex_search(page, std::regex(R"(https?://(?!www\.w3\.org/2000/svg))")));
}

TEST(HtmlReport, NamesCannotBreakOutOfTheDataBlock) {
  const std::string hostile = "</script><script>alert(1)</script><!--<script>]]>&lt;{{report.css}}\xe2\x80\xa8";
  Data data = sample_report(4, 8);
  const std::string harmless_page = render_html_report(data);
  data.profile_name = data.schedule = data.lowgear_version = data.command = hostile;
  data.baseline.description = data.certificate.statement = data.certificate.command = hostile;
  data.policies[0].policy = data.policies[0].note = data.chosen.label = hostile;
  data.warnings = {hostile};
  const std::string page = render_html_report(data);
  for (const char* part : {"<script", "</script", "<!--", "{{report.css}}"}) {
    const int from_data = std::string_view(part).starts_with("{{") ? count(page, part) : 0;
    EXPECT_EQ(count(page, part), count(harmless_page, part) + from_data) << part;
  }
  EXPECT_EQ(count(page, page_file("report.css")), 1);
  const Json written = data_of(page);
  for (const char* name : {"profile_name", "schedule", "lowgear_version", "command"}) {
    EXPECT_EQ(written[name], hostile) << name;
  }
  EXPECT_EQ(written["policies"][0]["note"], hostile);
}

TEST(HtmlReport, ShowsNoPanelBeforeItsData) {
  const std::string page = render_html_report(Data{});
  for (const char* panel : {"change", "grid", "valley", "orders", "plans", "ranks"}) {
    EXPECT_THAT(page, HasSubstr(fmt::format("id=\"{}-panel\" hidden>", panel)));
  }
}

TEST(HtmlReport, CarriesTheLicenceOfThePlottingLibrary) {
  EXPECT_THAT(render_html_report(Data{}),
              HasSubstr("Redistributions in binary form must reproduce the above copyright notice"));
}

TEST(HtmlReport, StaysBelow430KilobytesFor1536Ops) {
  Data data = sample_report(8, 24);
  data.chosen = repeated(data.chosen, 4);
  data.baseline_timeline = repeated(data.baseline_timeline, 4);
  const std::string page = render_html_report(data);
  EXPECT_EQ(data_of(page)["chosen"]["ranks"][0]["start"].size(), 192);
  EXPECT_LT(page.size(), 430'000);
}

}  // namespace

}  // namespace lowgear::report
