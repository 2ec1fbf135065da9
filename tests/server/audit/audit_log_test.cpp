#include "server/audit/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr AuditTime kBegin{std::chrono::seconds(1'700'000'000)};

AuditedRequest answered(int status, const std::string& object = "") {
  AuditedRequest request;
  request.status = status;
  request.object = object;
  request.result = status < 400 ? "ok" : "no_token";
  return request;
}

class AuditLogTest : public testing::Test {
 protected:
  [[nodiscard]] std::vector<Json> entries() const {
    std::vector<Json> entries;
    std::istringstream text(read_file(path));
    for (std::string line; std::getline(text, line);) entries.push_back(Json::parse(line));
    return entries;
  }

  std::function<void(std::string)> warn() {
    return [this](std::string text) {
      const std::lock_guard lock(mutex);
      warnings.push_back(std::move(text));
    };
  }

  static void await(const std::function<bool()>& condition) {
    while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // ctest has the time limit
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "audit.jsonl";
  std::mutex mutex;
  std::vector<std::string> warnings;
};

TEST_F(AuditLogTest, HasAllThatWasAddedWhenItEnds) {
  constexpr int kLines = 1'000;
  {
    AuditLog log({.path = path}, warn());
    for (int i = 0; i < kLines; ++i) {
      log.add(answered(200, std::to_string(i)), kBegin);
    }
  }
  const std::vector<Json> written = entries();
  ASSERT_EQ(written.size(), std::size_t{kLines});
  for (int i = 0; i < kLines; ++i) EXPECT_EQ(written[static_cast<std::size_t>(i)]["object"], std::to_string(i));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(AuditLogTest, WhoIsRefusedDoesNotDecideHowMuchIsWritten) {
  {
    AuditLog log({.path = path}, warn());
    for (int i = 0; i < 10'000; ++i) log.add(answered(401), kBegin);
    log.add(answered(200), kBegin);
    log.add(answered(401), kBegin + std::chrono::seconds(1));
  }
  const std::vector<Json> written = entries();
  ASSERT_EQ(written.size(), RefusalLimit::kPerSecond + 3);
  EXPECT_EQ(written[RefusalLimit::kPerSecond]["result"], "ok");
  EXPECT_EQ(written[RefusalLimit::kPerSecond + 1]["event"], "suppressed");
  EXPECT_EQ(written[RefusalLimit::kPerSecond + 1]["detail"],
            std::to_string(10'000 - RefusalLimit::kPerSecond) + " more requests were refused");
  EXPECT_EQ(written.back()["status"], 401);
}

TEST_F(AuditLogTest, LinesWaitWhileTheyCannotBeWrittenAndALineCountsThoseThatAreLost) {
  AuditLog log({.path = path}, warn());
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  log.add(AuditedEvent{"started", "first"}, kBegin);
  await([&] { return log.statistics().failing; });
  std::uint64_t added = 1;
  for (; log.statistics().lost_lines < 100; ++added) log.add(answered(200), kBegin);
  const std::uint64_t lost = log.statistics().lost_lines;
  std::filesystem::remove(path);
  await([&] { return log.statistics().written_lines + lost == added; });
  const std::vector<Json> written = entries();
  EXPECT_EQ(written.front()["detail"], "first");
  // Mostly one line, the last; more where a write was under way while lines were added.
  std::uint64_t lost_by_lines = 0;
  std::uint64_t other_lines = 0;
  for (const Json& line : written) {
    if (line["event"] == "lost") {
      const std::string detail = line["detail"];
      EXPECT_THAT(detail, HasSubstr(" lines could not be written"));
      lost_by_lines += std::stoull(detail);
    } else {
      ++other_lines;
    }
  }
  EXPECT_EQ(lost_by_lines, lost);
  EXPECT_EQ(other_lines + lost, added);
  const std::lock_guard lock(mutex);
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("cannot be written"), HasSubstr("is written again")));
}

TEST_F(AuditLogTest, SaysWhatIsNotWrittenAtItsEnd) {
  {
    AuditLog log({.path = path}, warn());
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    log.add(AuditedEvent{"started", "x"}, kBegin);
  }
  EXPECT_THAT(warnings, testing::Contains("1 lines of the audit log were not written"));
}

}  // namespace
}  // namespace lowgear::server
