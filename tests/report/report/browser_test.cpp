#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "base/core/formats/json.h"
#include "report/report/headless_browser.h"
#include "report/report/html_report.h"
#include "report/report/sample_report.h"

namespace lowgear::report {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

/// Headless Chromium draws frames when it likes while its time is virtual: a timer makes them come for certain.
constexpr std::string_view kFramesByTimer =
    "<script>window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);</script>";

/// What tests/report/report/browser_driver.js saw.
Json look_at(const std::string& chromium, std::string page, const BrowserWindow& window = {}) {
  std::ifstream driver_file(LOWGEAR_SOURCE_DIR "/tests/report/report/browser_driver.js");
  std::ostringstream driver;
  driver << driver_file.rdbuf();
  page.insert(page.find("</head>"), kFramesByTimer);
  page.insert(page.rfind("</body>"), "<script>" + driver.str() + "</script>");
  const std::string dom = dump_dom(chromium, page, window);
  const std::string open = R"(<script type="application/json" id="driver-result">)";
  const auto start = dom.find(open);
  if (start == std::string::npos)
    throw std::runtime_error("the driver did not finish; the page is\n" + dom.substr(0, 500));
  const auto from = start + open.size();
  return parse_json(std::string_view(dom).substr(from, dom.find("</script>", from) - from), "driver-result");
}

class BrowserTest : public ::testing::Test {
 protected:
  [[nodiscard]] const std::string& chromium() const { return chromium_; }

  void SetUp() override {
    const auto found = find_chromium();
    if (found) {
      chromium_ = *found;
      return;
    }
    const char* required = std::getenv("LOWGEAR_REQUIRE_BROWSER");
    if (required != nullptr && std::string_view(required) == "1") FAIL() << "chromium is not installed";
    GTEST_SKIP() << "THE REPORT IS NOT LOOKED AT IN A BROWSER: install chromium";
  }

 private:
  std::string chromium_;
};

TEST_F(BrowserTest, DrawsEverythingAndFetchesNothing) {
  Data data = sample_report(8, 24);
  data.warnings = {"the power of a waiting GPU is assumed; state it by --blocking-power 95 or so"};
  data.valleys = {
      {.stage = 0, .kind = OpKind::forward, .clocks_mhz = {900, 1200, 1410}, .energy_j = {11, 10, 12}},
      {.stage = 0, .kind = OpKind::backward, .clocks_mhz = {900, 1410}, .energy_j = {20, 21}},
      {.stage = 1, .kind = OpKind::forward, .clocks_mhz = {900, 1410}, .energy_j = {10, 10}, .envpipe_clock_mhz = 900}};
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_EQ(seen["error"], "");
  EXPECT_EQ(seen["ready"], "1");
  EXPECT_EQ(seen["fetched"], 0);
  EXPECT_EQ(seen["counts"]["ops"], std::to_string(8 * 24 * 2));
  EXPECT_EQ(seen["counts"]["baselineOps"], std::to_string(8 * 24 * 2));
  EXPECT_EQ(seen["counts"]["gridSteps"], std::to_string(24 * 2));
  EXPECT_EQ(seen["counts"]["valleys"], "2") << "a chart for each stage";
  EXPECT_EQ(seen["atFirst"]["ops"], 2 * 8 * 24 * 2) << "the whole iteration is shown at first";
  EXPECT_EQ(seen["marks"], data.plans.size() + data.policies.size() + 1);
  EXPECT_GT(seen["curve"], 300) << "length of the frontier in pixels";
  EXPECT_GT(seen["timelineColoured"], 0.3);
  EXPECT_GT(seen["overviewColoured"], 0.5);
  EXPECT_EQ(seen["rows"]["policies"], data.policies.size() + 2) << "the chosen plan and the baseline come first";
  EXPECT_EQ(seen["rows"]["plans"], data.plans.size());
  EXPECT_EQ(seen["rows"]["ranks"], 8);
  EXPECT_LE(seen["overflowPx"], 0);
  EXPECT_EQ(seen["wholeOptions"], Json::array({"--blocking-power 95 nowrap"}));
  EXPECT_EQ(seen["emptyPanels"], Json::array());
  EXPECT_THAT(seen["text"].get<std::string>(),
              AllOf(HasSubstr("state it by --blocking-power 95 or so"), HasSubstr("less energy, same time"),
                    HasSubstr("more energy than the best possible plan"),
                    HasSubstr(std::to_string(data.plans.size()) + " plans, show all")));
  const auto labels = seen["labels"].get<std::vector<std::string>>();
  EXPECT_THAT(labels,
              AllOf(Contains(HasSubstr("Baseline")), Contains(HasSubstr("envpipe")), Contains(HasSubstr("Plan 0 "))));
  EXPECT_GE(seen["numbers"].size(), 2) << "points in the plot have numbers, which the list names";
}

TEST_F(BrowserTest, ComparesAChangeWithThePlanBefore) {
  Data data = sample_report(4, 8);
  data.change = ChangedWork{.description = "24 of 96 layers frozen",
                            .partition = "custom:0,26,36",
                            .partition_before = "",
                            .change_pct = {-3.07, -23.35},
                            .rows = {{"before", "plan", {2.8365, 6246.3}, {0, -16.04}, 0.137}}};
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_EQ(seen["error"], "");
  EXPECT_THAT(seen["title"].get<std::string>(), HasSubstr("24 of 96 layers frozen"));
  EXPECT_THAT(seen["text"].get<std::string>(),
              AllOf(HasSubstr("less energy, 3.1"), HasSubstr("faster than the plan before"), HasSubstr("6246.3")));
}

TEST_F(BrowserTest, ShowsAComparisonWithLateClocks) {
  Data data = sample_report(4, 8);
  data.is_comparison = true;
  data.clock_lead_s = 0.025;
  data.plans.resize(1);
  data.baseline_timeline = {};
  data.baseline.late = {1, 1000};
  data.chosen.label = "lowgear (T_min)";
  api::ComparisonRow own{.policy = "lowgear", .aim = "T_min", .time_s = 1, .energy_j = 900, .plan_time_s = 0.238};
  own.late_time_s = 1.0274;
  own.late_energy_j = 850.1;
  data.policies.push_back(own);
  const Json seen = look_at(chromium(), render_html_report(data), {.width_px = 1000});
  EXPECT_EQ(seen["error"], "");
  EXPECT_EQ(seen["tablesOverflowPx"], 0);
  EXPECT_EQ(seen["rows"]["policies"], data.policies.size() + 1) << "Lowgear's own plan is one row";
  EXPECT_EQ(seen["marks"], data.policies.size() + 1) << "and one point";
  EXPECT_THAT(seen["text"].get<std::string>(),
              AllOf(HasSubstr("14.99 (+2.74\u00a0%)"), HasSubstr("requested 25.0\u00a0ms before their units"),
                    HasSubstr("238\u00a0ms"), testing::Not(HasSubstr("deployable plan")),
                    testing::Not(HasSubstr("Deployable plans")), testing::Not(HasSubstr("Both iterations"))));
}

TEST_F(BrowserTest, DrawsEqualStagesOnce) {
  Data data = sample_report(4, 8);
  for (int stage = 0; stage < 4; ++stage) {
    data.valleys.push_back({.stage = stage,
                            .kind = OpKind::forward,
                            .clocks_mhz = {900, 1410},
                            .energy_j = {10, stage == 2 ? 13.0 : 12.0}});
  }
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_EQ(seen["counts"]["valleys"], "2");
  EXPECT_THAT(seen["text"].get<std::string>(), AllOf(HasSubstr("Stages 0 to 1, 3"), HasSubstr("Stage 2")));
}

TEST_F(BrowserTest, AnswersPointerWheelAndKeys) {
  const Json seen = look_at(chromium(), render_html_report(sample_report(8, 24)));
  ASSERT_EQ(seen["error"], "");
  EXPECT_THAT(seen["opReadout"].get<std::string>(),
              AllOf(HasSubstr("F0: forward, stage 0"), HasSubstr("MHz"), HasSubstr("Duration"), HasSubstr("Energy")));
  EXPECT_THAT(seen["idleReadout"].get<std::string>(), AllOf(HasSubstr("Waiting"), HasSubstr("83.64")));
  EXPECT_FALSE(seen["plainWheelTaken"]) << "the page must scroll under a pointer that passes over the plot";
  EXPECT_EQ(seen["afterPlainWheel"], seen["atFirst"]);
  EXPECT_TRUE(seen["ctrlWheelTaken"]);
  EXPECT_GT(seen["afterCtrlWheel"]["zoom"], 1.5);
  EXPECT_LT(seen["afterCtrlWheel"]["ops"], seen["atFirst"]["ops"]);
  EXPECT_TRUE(seen["dragMoved"]);
  EXPECT_EQ(seen["afterReset"], seen["atFirst"]);
  EXPECT_THAT(seen["keyReadout"].get<std::string>(), HasSubstr("F0"));
  EXPECT_THAT(seen["nextKeyReadout"].get<std::string>(), HasSubstr("F1"));
  EXPECT_EQ(seen["afterButton"]["zoom"], 2);
  EXPECT_THAT(seen["firstPoint"].get<std::string>(), HasSubstr("Baseline"));
  EXPECT_THAT(seen["lastPoint"].get<std::string>(), AllOf(HasSubstr("Plan 19"), HasSubstr("Above the bound")));
  EXPECT_EQ(seen["frontierZoom"], "2.000");
  EXPECT_THAT(seen["curveReadout"].get<std::string>(), HasSubstr("Lower bound (certified)"));
}

TEST_F(BrowserTest, ShowsWhichOrderHoldsWhere) {
  Data data = sample_report(4, 8);
  const std::size_t change = data.frontier.size() / 2;
  for (std::size_t i = 0; i < data.frontier.size(); ++i) data.order_of_point.push_back(i < change ? 0 : 1);
  data.memory_limit = "1f1b";
  data.orders = {
      {.name = "zb-h1", .stages_per_rank = 1, .peak_activations = 4, .from_s = 1, .until_s = 1.5, .plans = {}},
      {.name = "list-v", .stages_per_rank = 2, .peak_activations = 8, .from_s = 1.5, .until_s = 2, .plans = {}}};
  for (api::PlanFigures& plan : data.plans) {
    plan.order = plan.number < 3 ? 0 : 1;
    data.orders[static_cast<std::size_t>(*plan.order)].plans.push_back(plan.number);
  }
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_EQ(seen["error"], "");
  EXPECT_THAT(seen["text"].get<std::string>(),
              AllOf(HasSubstr("Orders of the frontier"), HasSubstr("frontier in the order zb-h1"), HasSubstr("list-v"),
                    HasSubstr("0 to 2"), HasSubstr("as 1F1B")));
  EXPECT_THAT(seen["curveReadout"].get<std::string>(), HasSubstr("Bound of all orders"));
}

TEST_F(BrowserTest, SaysWhatWasNotVerified) {
  Data data = sample_report(4, 8);
  data.certificate = {false, "The check was left out.", ""};
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_THAT(seen["curveReadout"].get<std::string>(), HasSubstr("Lower bound (not verified)"));
  EXPECT_THAT(seen["text"].get<std::string>(),
              AllOf(HasSubstr("Not verified. The check was left out."), testing::Not(HasSubstr("certified"))));
}

TEST_F(BrowserTest, ShowsHostileNamesAsText) {
  const std::string hostile = R"(</script><img id="injected" src=x onerror="throw 1"><!--{{report.css}})";
  Data data = sample_report(4, 8);
  data.profile_name = data.schedule = data.command = data.chosen.label = hostile;
  data.certificate.statement = data.baseline.description = hostile;
  data.policies[0].policy = data.policies[0].note = hostile;
  data.warnings = {hostile};
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_EQ(seen["error"], "");
  EXPECT_EQ(seen["injected"], 0);
  EXPECT_THAT(seen["title"].get<std::string>(), HasSubstr(hostile));
}

TEST_F(BrowserTest, FollowsADarkThemeAndANarrowScreen) {
  const std::string page = render_html_report(sample_report(8, 24));
  const Json light = look_at(chromium(), page);
  // Headless Chromium makes no window narrower than this.
  const Json dark = look_at(chromium(), page, {.width_px = 500, .height_px = 900, .dark = true});
  EXPECT_EQ(dark["error"], "");
  EXPECT_NE(dark["background"], light["background"]);
  EXPECT_LE(dark["overflowPx"], 0);
  EXPECT_GT(dark["timelineColoured"], 0.3);
}

TEST_F(BrowserTest, StaysUsableWithManyOps) {
  Data data = sample_report(8, 16);
  data.chosen = repeated(data.chosen, 64);
  data.baseline_timeline = repeated(data.baseline_timeline, 64);
  const Json seen = look_at(chromium(), render_html_report(data));
  EXPECT_EQ(seen["error"], "");
  EXPECT_EQ(seen["counts"]["ops"], "16384");
  EXPECT_GT(seen["timelineColoured"], 0.3);
  EXPECT_GT(seen["afterCtrlWheel"]["zoom"], 1.5);
}

TEST_F(BrowserTest, AnEmptyReportIsNoError) {
  const Json seen = look_at(chromium(), render_html_report(Data{}));
  EXPECT_EQ(seen["error"], "");
  EXPECT_EQ(seen["ready"], "1");
  EXPECT_EQ(seen["counts"]["ops"], "0");
}

}  // namespace
}  // namespace lowgear::report
