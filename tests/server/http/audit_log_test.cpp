#include "server/http/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {

namespace {

constexpr AuditTime kTime{std::chrono::milliseconds(1'700'000'000'007)};

TEST(AuditEntry, IsALineOfJson) {
  AuditedRequest request{.caller = "token trainers",
                         .address = "192.0.2.7",
                         .method = "PUT",
                         .route = "/v1/budgets/{}",
                         .object = "row-1",
                         .status = 200,
                         .result = "ok"};
  EXPECT_EQ(
      audit_line(request, kTime),
      R"({"format":"lowgear.audit/1","time":"2023-11-14T22:13:20.007Z","event":"request","caller":"token trainers",)"
      R"("address":"192.0.2.7","method":"PUT","route":"/v1/budgets/{}","object":"row-1","status":200,"result":"ok"})"
      "\n");
  request.caller.clear();
  request.object.clear();
  const Json entry = Json::parse(audit_line(request, kTime));
  EXPECT_TRUE(entry["caller"].is_null());
  EXPECT_TRUE(entry["object"].is_null());
}

TEST(AuditEntry, TextOfClientsStaysOneShortLine) {
  AuditedRequest request;
  request.object = "a\n{\"event\":\"forged\"}\xff" + std::string(100'000, 'x');
  const std::string line = audit_line(request, kTime);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_LT(line.size(), 1'000U);
  EXPECT_EQ(Json::parse(line)["event"], "request");
}

TEST(AuditEntry, NothingInItEndsALineForAnyReader) {
  for (const std::string separator : {"\n", "\r", "\v", "\f", "\x1c", "\u0085", "\u2028", "\u2029"}) {
    AuditedRequest request;
    request.caller = request.address = request.object = separator;
    request.method = separator;
    for (const std::string& line : {audit_line(request, kTime), audit_line(AuditedEvent{"tokens", separator}, kTime)}) {
      EXPECT_EQ(line.find(separator), separator == "\n" ? line.size() - 1 : std::string::npos) << line;
      EXPECT_TRUE(Json::accept(line));
    }
  }
}

TEST(AuditEntry, EventsHaveADetail) {
  const Json entry = Json::parse(audit_line(AuditedEvent{"tokens", "2 tokens are valid"}, kTime));
  EXPECT_EQ(entry["event"], "tokens");
  EXPECT_EQ(entry["detail"], "2 tokens are valid");
}

using testing::ElementsAre;
using testing::HasSubstr;

class AuditFileTest : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::filesystem::path path = folder / "audit.jsonl";
};

TEST_F(AuditFileTest, IsAppendedToAndOnlyItsOwnerReadsIt) {
  AuditFile({.path = path}).append("one\n");
  AuditFile({.path = path}).append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(AuditFileTest, BecomesAnOlderOneWhenItIsFull) {
  AuditFile file({.path = path, .max_bytes = 8, .files = 3});
  for (const char* line : {"111\n", "222\n", "333\n", "444\n", "555\n", "666\n", "777\n"}) file.append(line);
  EXPECT_EQ(read_file(path), "777\n");
  EXPECT_EQ(read_file(folder / "audit.jsonl.1"), "555\n666\n");
  EXPECT_EQ(read_file(folder / "audit.jsonl.2"), "333\n444\n");
  EXPECT_THAT(folder.names(), ElementsAre("audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"));
}

TEST_F(AuditFileTest, MayBeTheOnlyOne) {
  AuditFile file({.path = path, .max_bytes = 8, .files = 1});
  for (const char* line : {"111\n", "222\n", "333\n"}) file.append(line);
  EXPECT_EQ(read_file(path), "333\n");
  EXPECT_THAT(folder.names(), ElementsAre("audit.jsonl"));
}

TEST_F(AuditFileTest, IsMadeAnewWhenAnotherProgramMovesItAway) {
  AuditFile file({.path = path});
  file.append("one\n");
  std::filesystem::rename(path, folder / "moved");
  file.append("two\n");
  EXPECT_EQ(read_file(folder / "moved"), "one\n");
  EXPECT_EQ(read_file(path), "two\n");
  std::filesystem::resize_file(path, 0);
  file.append("three\n");
  EXPECT_EQ(read_file(path), "three\n");
}

TEST_F(AuditFileTest, ALineThatACrashCutOffDoesNotSpoilTheNext) {
  write_file_atomically(path, "one\ntw");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  AuditFile({.path = path}).append("three\n");
  EXPECT_EQ(read_file(path), "one\ntw\nthree\n");
}

TEST_F(AuditFileTest, NothingOfWhatCannotBeWrittenStays) {
  AuditFile file({.path = path});
  file.append("one\n");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 10;
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of<Error>([&] { file.append("a line that is too long for this disk\n"); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  (void)std::signal(SIGXFSZ, old);
  EXPECT_THAT(error, HasSubstr("audit.jsonl"));
  EXPECT_EQ(read_file(path), "one\n");
  file.append("two\n");
  EXPECT_EQ(read_file(path), "one\ntwo\n");
}

TEST_F(AuditFileTest, IsRefusedWhereOthersCouldChangeIt) {
  std::filesystem::create_symlink(folder / "elsewhere", path);
  EXPECT_THAT(error_of([&] { AuditFile file({.path = path}); }), HasSubstr("audit log"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_NE(error_of([&] { AuditFile file({.path = path}); }), "no error");
  EXPECT_THAT(error_of([&] { AuditFile file({.path = folder / "none" / "a"}); }), HasSubstr("No such file"));
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  EXPECT_NE(error_of([&] { AuditFile file({.path = folder / "a"}); }), "no error");
}

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
