#include "report/report/html_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/core/formats/json.h"
#include "report/report/page_files.h"
#include "report/report/sample_report.h"

namespace lowgear::report {
namespace {

using ::testing::HasSubstr;
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

TEST(HtmlReport, CarriesTheLicenceOfThePlottingLibrary) {
  EXPECT_THAT(render_html_report(Data{}),
              HasSubstr("Redistributions in binary form must reproduce the above copyright notice"));
}

TEST(HtmlReport, StaysBelow420KilobytesFor1536Ops) {
  Data data = sample_report(8, 24);
  data.chosen = repeated(data.chosen, 4);
  data.baseline_timeline = repeated(data.baseline_timeline, 4);
  const std::string page = render_html_report(data);
  EXPECT_EQ(data_of(page)["chosen"]["ranks"][0]["start"].size(), 192);
  EXPECT_LT(page.size(), 420'000);
}

}  // namespace
}  // namespace lowgear::report
