#include "report/report/html_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"
#include "report/report/headless_browser.h"
#include "report/report/page_template.h"

namespace lowgear::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Page sample_estimate() {
  return {.lowgear_version = "1.2.3",
          .command = "lowgear estimate --html page.html",
          .title = "a model on 8 GPUs",
          .facts = {{"Layout", "tp 2, pp 4"}},
          .cards = {{"Iteration time", "1.5 s", "\u00b1 0.1 s"}},
          .warnings = {"a remark"},
          .plot = Plot{.title = "Time and energy",
                       .caption = "All GPUs.",
                       .curve_name = "frontier",
                       .curve = {{1.5, 100}, {1.6, 90}, {1.8, 85}},
                       .marks = {{Mark::Kind::baseline, "full clocks", "estimated", "full clocks", false, {1.5, 120}},
                                 {Mark::Kind::plan, "no later", "planned", "saved", true, {1.5, 100}},
                                 {Mark::Kind::candidate, "another", "estimated", "", false, {1.7, 110}}},
                       .mark_names = {}},
          .bars = {{.title = "Where the time goes",
                    .basis = "estimated",
                    .caption = "Every rank.",
                    .quantity = Quantity::time,
                    .parts = {"linear", "nothing", "waiting in the pipeline"},
                    .rows = {{"rank 0", {1, 0, 0.5}}, {"rank 1", {1.25, 0, 0.25}}},
                    .limit = std::nullopt,
                    .limit_name = ""},
                   {.title = "Where the memory goes",
                    .basis = "estimated",
                    .caption = "",
                    .quantity = Quantity::bytes,
                    .parts = {"weights", "activations"},
                    .rows = {{"rank 0", {8e9, 40e9}}},
                    .limit = 80e9,
                    .limit_name = "capacity"}},
          .tables = {{"Clocks", "planned", {"Name", "Time"}, {{"full clocks", "1.5 s"}, {"no later", "1.5 s"}}, 1}},
          .reading = {{"Estimated", "Computed."}}};
}

/// Differences and curves, as a comparison of runs has them.
Page sample_comparison() {
  Page report = sample_estimate();
  report.plot.reset();
  report.bars.clear();
  report.intervals = {{.title = "Differences from full clocks",
                       .basis = "simulated",
                       .caption = "",
                       .groups = {{"planned",
                                   {{"J/token", -12, -13, -11, Intervals::Sense::better, "-12.00 %: less"},
                                    {"s/token", 0.1, -0.2, 0.4, Intervals::Sense::none, "+0.10 %: no difference shown"},
                                    {"loss", 1, {}, {}, Intervals::Sense::none, "+1.00 %: too few runs"}}}}}};
  report.curves = {{.title = "Loss against energy",
                    .basis = "simulated",
                    .caption = "",
                    .x = {"energy", true},
                    .y_name = "loss",
                    .curves = {{"full clocks", {{100, 5}, {200, 4}}}, {"planned", {{90, 5}, {180, 4}}}}},
                   {.title = "One point",
                    .basis = "simulated",
                    .caption = "",
                    .x = {"tokens", false},
                    .y_name = "loss",
                    .curves = {{"full clocks", {{100, 5}}}}}};
  return report;
}

/// Plots of series and pictures of pipelines, as the planner's progress has them.
Page sample_progress() {
  Page report = sample_estimate();
  report.plot.reset();
  report.bars.clear();
  const SeriesPlots::Series line{"fit", true, {{0.01, 9}, {0.02, 7}, {0.03, 6}}};
  const SeriesPlots::Series marks{"option", false, {{0.01, 9.1}, {0.03, 6}}};
  report.series = {{.title = "Curve fits",
                    .basis = "fitted",
                    .caption = "",
                    .x = {"time", SeriesPlots::Unit::seconds},
                    .y = {"energy", SeriesPlots::Unit::joules},
                    .plots = {{"Stage 0", {line, marks}}, {"Stage 1", {marks}}}},
                   {.title = "One point",
                    .basis = "planned",
                    .caption = "",
                    .x = {"slowdown", SeriesPlots::Unit::none},
                    .y = {"saving", SeriesPlots::Unit::percent},
                    .plots = {{"all", {{"Perseus", false, {{1, 0}}}}}}}};
  Timeline timeline{.label = "Iteration 0", .time_s = 2, .energy_j = 90, .ranks = {}};
  for (int rank = 0; rank < 2; ++rank) {
    Op forward;
    forward.clock_mhz = 900;
    forward.duration_s = 0.5;
    Op backward = forward;
    backward.kind = OpKind::backward;
    backward.start_s = 1;
    backward.clock_mhz = 1410;
    timeline.ranks.push_back({forward, backward});
  }
  report.pipelines = PipelinePictures{
      .title = "Plans on the way", .basis = "replayed", .caption = "", .pictures = {timeline, timeline}};
  return report;
}

std::string without_plot_library(std::string page) {
  const std::string_view library = page_file("d3.min.js");
  page.erase(page.find(library), library.size());
  return page;
}

TEST(HtmlPage, HoldsItsPartsAndRefersToNothingElse) {
  const std::string page = without_plot_library(render_html_page(sample_estimate()));
  for (const char* part :
       {"light.css", "dark.css", "components.css", "report.css", "page.css", "stacked_bars.js", "intervals.js",
        "learning_curves.js", "series_plots.js", "pipeline_pictures.js", "page.js", "frontier.js", "data_table.js"}) {
    EXPECT_THAT(page, HasSubstr(std::string(page_file(part)))) << part;
  }
  EXPECT_THAT(page, Not(HasSubstr("{{"))) << "a placeholder was not filled";
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* reference : {R"(<link\b)", R"(<(img|iframe|object|embed)\b)", R"(\bsrc\s*=)", R"(@import)",
                                R"(\bfetch\()", R"(https?://(?!www\.w3\.org/2000/svg))"}) {
    EXPECT_FALSE(std::regex_search(page, std::regex(reference))) << reference;
  }
}

TEST(HtmlPage, NamesCannotBreakOutOfTheDataBlock) {
  const std::string hostile = "</script><script>alert(1)</script><!--{{report.css}}";
  Page report = sample_estimate();
  const std::string harmless = render_html_page(report);
  report.title = report.command = report.warnings[0] = hostile;
  report.bars[0].parts[0] = report.bars[0].rows[0].name = report.tables[0].rows[0][0] = hostile;
  report.plot->marks[0].name = hostile;
  const std::string page = render_html_page(report);
  const auto count = [](std::string_view text, std::string_view part) {
    int found = 0;
    for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  for (const char* part : {"<script", "</script", "<!--"}) EXPECT_EQ(count(page, part), count(harmless, part)) << part;
}

/// The page as a browser leaves it.
class EstimatePage : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    const auto chromium = find_chromium();
    if (!chromium) {
      const char* required = std::getenv("LOWGEAR_REQUIRE_BROWSER");
      if (required != nullptr && std::string_view(required) == "1") FAIL() << "chromium is not installed";
      GTEST_SKIP() << "THE PAGE OF ESTIMATES IS NOT LOOKED AT IN A BROWSER: install chromium";
    }
    chromium_ = *chromium;
  }
  [[nodiscard]] const std::string& chromium() const { return chromium_; }
  [[nodiscard]] std::string drawn(const Page& report) const {
    return dump_dom(chromium_, render_html_page(report), {.dark = GetParam()});
  }

 private:
  std::string chromium_;
};

TEST_P(EstimatePage, DrawsBarsPlotAndTables) {
  const std::string dom = drawn(sample_estimate());
  EXPECT_THAT(dom, HasSubstr(R"(data-ready="1")"));
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
  EXPECT_THAT(dom, HasSubstr(R"(data-bars="2")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-points="3")"));
  EXPECT_THAT(dom, HasSubstr("<title>a model on 8 GPUs"));
  EXPECT_THAT(dom, HasSubstr("class=\"limit\"")) << "the capacity is a line";
  const std::regex piece(R"re(class="piece)re");
  EXPECT_EQ(std::distance(std::sregex_iterator(dom.begin(), dom.end(), piece), std::sregex_iterator()), 6)
      << "two parts of each of two ranks, and two of memory: what amounts to nothing is not drawn";
}

TEST_P(EstimatePage, DrawsIntervalsAndCurves) {
  const std::string dom = drawn(sample_comparison());
  EXPECT_THAT(dom, HasSubstr(R"(data-ready="1")"));
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
  EXPECT_THAT(dom, HasSubstr(R"(data-intervals="1")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-curves="2")"));
  const auto count = [&dom](const std::string& pattern) {
    const std::regex regex(pattern);
    return std::distance(std::sregex_iterator(dom.begin(), dom.end(), regex), std::sregex_iterator());
  };
  EXPECT_EQ(count("<circle class=\"difference"), 3);
  EXPECT_EQ(count("<line class=\"difference better"), 3) << "an interval and its ends";
  EXPECT_EQ(count("<line class=\"difference none"), 3) << "too few runs have none";
  EXPECT_EQ(count("<path class=\"learning"), 3);
}

TEST_P(EstimatePage, DrawsSeriesAndPipelines) {
  const std::string dom = drawn(sample_progress());
  EXPECT_THAT(dom, HasSubstr(R"(data-ready="1")"));
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
  EXPECT_THAT(dom, HasSubstr(R"(data-series="3")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-pipelines="2")"));
  const auto count = [&dom](const std::string& pattern) {
    const std::regex regex(pattern);
    return std::distance(std::sregex_iterator(dom.begin(), dom.end(), regex), std::sregex_iterator());
  };
  EXPECT_EQ(count("<path class=\"series\""), 1 + 1) << "the line, and its sample";
  EXPECT_EQ(count("<path class=\"series-mark\""), 5 + 2) << "the points, and samples of two series";
  EXPECT_THAT(dom, HasSubstr("Iteration 0: 2 ranks, 2.000&nbsp;s, clocks 900 to 1410 MHz"));
}

TEST_P(EstimatePage, OfSeriesFitsANarrowWindow) {
  std::string page = render_html_page(sample_progress());
  page.insert(page.rfind("</body>"),
              "<script>document.documentElement.dataset.overflow = "
              "document.documentElement.scrollWidth - document.documentElement.clientWidth;</script>");
  const std::string dom = dump_dom(chromium(), page, {.width_px = 500, .height_px = 900, .dark = GetParam()});
  EXPECT_THAT(dom, HasSubstr(R"(data-overflow="0")"));
}

TEST_P(EstimatePage, FitsANarrowWindow) {
  std::string page = render_html_page(sample_comparison());
  page.insert(page.rfind("</body>"),
              "<script>document.documentElement.dataset.overflow = "
              "document.documentElement.scrollWidth - document.documentElement.clientWidth;</script>");
  const std::string dom = dump_dom(chromium(), page, {.width_px = 500, .height_px = 900, .dark = GetParam()});
  EXPECT_THAT(dom, HasSubstr(R"(data-overflow="0")"));
  EXPECT_THAT(dom, HasSubstr("J/token: \u221212.00 %: less")) << "the words stand above their row";
}

TEST_P(EstimatePage, FitsWideTablesAndLongTotals) {
  Page report = sample_estimate();
  report.plot.reset();
  report.bars = {{.title = "Energy by user",
                  .basis = "simulated",
                  .caption = "",
                  .quantity = Quantity::account_energy,
                  .parts = {"used", "saved"},
                  .rows = {{"ada", {0.07689 * 3.6e6, 0}}},
                  .limit = std::nullopt,
                  .limit_name = ""}};
  Table& jobs = report.tables.front();
  jobs.columns = {"job, name, user"};
  jobs.rows = {{"j-5f2c91aa0d3e4b17\npretrain-" + std::string(60, 'x') + ", ada"}};
  for (int i = 0; i < 9; ++i) {
    jobs.columns.emplace_back("saved, kWh");
    jobs.rows[0].emplace_back("0.000773 \u00b1 0.000096");
  }
  std::string page = render_html_page(report);
  page.insert(page.rfind("</body>"), R"(<script>
    const table = document.querySelector('#numbers .table-box');
    const ends = document.querySelector('rect.piece').getBoundingClientRect().right;
    Object.assign(document.documentElement.dataset, {cut: table.scrollWidth - table.clientWidth,
      covered: document.querySelector('text.total').getBoundingClientRect().left < ends});
  </script>)");
  const std::string dom = dump_dom(chromium(), page, {.dark = GetParam()});
  EXPECT_THAT(dom, HasSubstr(R"(data-cut="0")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-covered="false")"));
}

TEST_P(EstimatePage, DrawsWithoutPlotAndBars) {
  Page report = sample_estimate();
  report.plot.reset();
  report.bars.clear();
  report.tables.clear();
  const std::string dom = drawn(report);
  EXPECT_THAT(dom, HasSubstr(R"(data-ready="1")"));
  EXPECT_THAT(dom, Not(HasSubstr("data-error")));
}

/// Counts, when the page is drawn, labels that something is drawn over: totals of bars by a limit, labels of the plot
/// by points or by the curve.
constexpr std::string_view kCountCovered = R"(<script>
  const boxes = (css) => [...document.querySelectorAll(css)].map((node) => node.getBoundingClientRect());
  const meet = (a, b) => a.left < b.right && a.right > b.left && a.top < b.bottom && a.bottom > b.top;
  const covered = (labels, others) => labels.filter((label) => others.some((other) => meet(label, other))).length;
  const curve = document.querySelector('.curve');
  const from = curve.ownerSVGElement.getBoundingClientRect();
  const dots = d3.range(curve.getTotalLength()).map((length) => curve.getPointAtLength(length))
    .map(({x, y}) => ({left: from.left + x, right: from.left + x + 1, top: from.top + y, bottom: from.top + y + 1}));
  Object.assign(document.documentElement.dataset, {
    totals: boxes('text.total').length, labels: boxes('text.point-label').length,
    coveredTotals: covered(boxes('text.total'), boxes('line.limit')),
    coveredLabels: covered(boxes('text.point-label'), [...boxes('.point'), ...dots])});
</script>)";

TEST_P(EstimatePage, CoversNoLabelWhereThereIsLittleRoom) {
  constexpr int kPoints = 400;
  Page report = sample_estimate();
  report.plot->marks = {{Mark::Kind::plan, "1", "estimated", "1, the winner", true, {1.5, 100}}};
  for (int i = 1; i < kPoints; ++i) {
    const double time_s = 1.5 + 0.3 * i / kPoints;
    report.plot->marks.push_back(
        {Mark::Kind::candidate, "other", "estimated", "", false, {time_s, 100 * (time_s / 1.5 + 0.002 * (i % 17))}});
  }
  // Ends just before, at and beyond the limit.
  report.bars[1].rows = {
      {"rank 0", {8e9, 60e9}}, {"rank 1", {8e9, 50e9}}, {"rank 2", {8e9, 72e9}}, {"rank 3", {8e9, 90e9}}};
  std::string page = render_html_page(report);
  page.insert(page.rfind("</body>"), kCountCovered);
  // Headless Chromium makes no window narrower than this.
  const std::string dom = dump_dom(chromium(), page, {.width_px = 500, .height_px = 900, .dark = GetParam()});
  EXPECT_THAT(dom, HasSubstr(R"(data-totals="6")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-labels="1")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-covered-totals="0")"));
  EXPECT_THAT(dom, HasSubstr(R"(data-covered-labels="0")"));
}

INSTANTIATE_TEST_SUITE_P(Themes, EstimatePage, ::testing::Bool(),
                         [](const auto& dark) { return dark.param ? "dark" : "light"; });

}  // namespace
}  // namespace lowgear::report
