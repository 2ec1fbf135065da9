#include "server/http/dashboard_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace lowgear::server {
namespace {

using ::testing::Contains;
using ::testing::Key;

const std::filesystem::path kFolder = LOWGEAR_SOURCE_DIR "/dashboard";

std::map<std::string, DashboardFile> by_path() {
  std::map<std::string, DashboardFile> files;
  for (const DashboardFile& file : dashboard_files()) files.emplace(file.path, file);
  return files;
}

std::set<std::string> matches(std::string_view text, const char* pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  using Iterator = std::regex_iterator<std::string_view::const_iterator>;
  for (Iterator match(text.begin(), text.end(), expression); match != Iterator(); ++match) found.insert((*match)[1]);
  return found;
}

TEST(DashboardFiles, AreThoseOfTheFolder) {
  const auto files = by_path();
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename();
    const std::string path = name == "index.html" ? "/" : "/assets/" + name;
    ASSERT_THAT(files, Contains(Key(path)));
    std::ostringstream content;
    content << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    EXPECT_EQ(files.at(path).content, content.str()) << name;
  }
}

TEST(DashboardFiles, HaveEverythingThatThePageAndItsModulesLoad) {
  const auto files = by_path();
  for (const std::string& path : matches(files.at("/").content, R"#((?:src|href)="(/[^"]*)")#")) {
    EXPECT_THAT(files, Contains(Key(path)));
  }
  for (const auto& [path, file] : files) {
    for (const std::string& module : matches(file.content, R"(from '\./([a-z_.]+)')")) {
      EXPECT_THAT(files, Contains(Key("/assets/" + module))) << "imported by " << path;
    }
  }
}

TEST(DashboardFiles, EachHasItsTypeAndAnETagOfItsOwn) {
  std::set<std::string_view> etags;
  for (const auto& [path, file] : by_path()) {
    EXPECT_TRUE(etags.insert(file.etag).second) << path;
    EXPECT_THAT(std::string(file.etag), ::testing::MatchesRegex("\"[0-9a-f]+\"")) << path;
    EXPECT_FALSE(file.content.empty()) << path;
  }
  const auto files = by_path();
  EXPECT_EQ(files.at("/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(files.at("/assets/main.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(files.at("/assets/dashboard.css").content_type, "text/css; charset=utf-8");
  EXPECT_EQ(files.at("/assets/favicon.svg").content_type, "image/svg+xml");
}

TEST(DashboardFiles, NothingIsInlineOrFromElsewhere) {
  const std::string page(by_path().at("/").content);
  EXPECT_TRUE(matches(page, R"((<script(?![^>]*src=)[^>]*>))").empty());
  EXPECT_TRUE(matches(page, R"((<style|\sstyle=|\son[a-z]+=))").empty());
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("http")));
  EXPECT_THAT(std::string(kDashboardPolicy), testing::Not(testing::HasSubstr("unsafe")));
}

}  // namespace
}  // namespace lowgear::server
