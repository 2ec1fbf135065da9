/// What docs/formats.md says of the objects that `lowgear estimate` and `lowgear search` print, against what they
/// print.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "app/cli/text/estimate_text.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"

namespace lowgear::cli {
namespace {

using Members = std::set<std::string>;

/// Paths of the values of an object, `memory.ranks[].total_bytes`. Objects and lists of objects stand for what is in
/// them; other lists are values.
void add_members(const Json& value, const std::string& path, Members& members) {
  if (value.is_object()) {
    const std::string before = path.empty() ? "" : path + ".";
    for (const auto& [key, member] : value.items()) add_members(member, fmt::format("{}{}", before, key), members);
  } else if (value.is_array() && !value.empty() && value[0].is_object()) {
    for (const Json& element : value) add_members(element, path + "[]", members);
  } else {
    members.insert(path);
  }
}

/// The first column of the table with that head, which follows a heading.
Members documented(const std::string& heading, const std::string& head) {
  const std::string text = read_file(std::string(LOWGEAR_SOURCE_DIR) + "/docs/formats.md");
  const std::size_t section = text.find("\n## " + heading + "\n");
  const std::size_t table = text.find("\n| " + head + " | unit |", section);
  EXPECT_NE(table, std::string::npos) << heading << ": " << head;
  const std::regex name_pattern("`([^`]+)`");
  Members members;
  const std::size_t end = text.find("\n\n", table);
  std::size_t line = text.find("\n|", text.find("---|", table));
  for (; line < end; line = text.find("\n|", line + 1)) {
    const std::string cell = text.substr(line + 2, text.find('|', line + 2) - line - 2);
    for (std::sregex_iterator name(cell.begin(), cell.end(), name_pattern), none; name != none; ++name) {
      EXPECT_TRUE(members.insert((*name)[1]).second) << (*name)[1] << " occurs twice";
    }
  }
  return members;
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& others) {
  arguments.insert(arguments.end(), others.begin(), others.end());
  return arguments;
}

const std::vector<std::string> kJob{"--model", "llama-2-7b",     "--gpu", "a100",  "--gpus",
                                    "16",      "--global-batch", "32",    "--seq", "4096"};

TEST(PrintedFormats, EstimatesHaveTheMembersThatAreDocumented) {
  const std::vector<std::string> job = with({"estimate"}, kJob);
  const Json fits = json_of(with(job, {"--pp", "4", "--plan", "--gpu-hour", "2", "--co2", "400"}));
  const Json too_large = json_of(with(job, {"--zero", "0"}));
  const Json policy = json_of(with(job, {"--pp", "4", "--plan", "--policy", "zeus-global"}));
  Members members;
  for (const Json* const json : {&fits, &too_large, &policy}) {
    EXPECT_EQ(json->begin().key(), "format");
    EXPECT_EQ((*json)["format"], "lowgear.estimate/1");
    add_members(*json, "", members);
  }
  EXPECT_EQ(members, documented("Estimate", "member"));
}

TEST(PrintedFormats, PublishedEstimatesHaveTheMembersThatAreDocumented) {
  published_estimator::PublishedEstimate estimate;
  estimate.predictions.push_back({"linear1", 1e-3});
  const Json json = published_estimate_json(estimate);
  EXPECT_EQ(json.begin().key(), "format");
  EXPECT_EQ(json["format"], "lowgear.published_estimate/1");
  Members members;
  add_members(json, "", members);
  EXPECT_EQ(members, documented("Estimate", "member of a published estimate"));
}

/// Layouts that are not among the best lack plans.
void expect_part_of(const Members& whole, const Json& layout) {
  Members members;
  add_members(layout, "", members);
  EXPECT_THAT(whole, testing::IsSupersetOf(members));
  EXPECT_TRUE(members.contains("quick_planned_energy_j"));
}

TEST(PrintedFormats, SearchesHaveTheMembersThatAreDocumented) {
  const Json found = json_of(with({"search"}, with(kJob, {"--top", "2", "--kwh", "0.1", "--co2", "400"})));
  EXPECT_EQ(found.begin().key(), "format");
  EXPECT_EQ(found["format"], "lowgear.search/1");
  ASSERT_TRUE(found["rival"].is_object());
  ASSERT_FALSE(found["pareto"].empty());
  Json rest = found;
  Members layout;
  add_members(found["best"][0], "", layout);
  for (const char* const member : {"best", "pareto", "rival"}) rest[member] = nullptr;
  Members members;
  add_members(rest, "", members);
  EXPECT_EQ(members, documented("Search", "member"));
  EXPECT_EQ(layout, documented("Search", "member of a layout"));
  expect_part_of(layout, found["rival"]);
  expect_part_of(layout, found["pareto"][0]);
}

}  // namespace
}  // namespace lowgear::cli
