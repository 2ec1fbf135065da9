#include "app/operations/commands/run_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "base/http/message/message.h"
#include "client/fake_server.h"

namespace lowgear::operations {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RunChecks, NeedNothingThatIsNotAskedFor) { EXPECT_THAT(missing_needs({}), IsEmpty()); }

TEST(RunChecks, NameEveryServerThatDoesNotAnswerInOneLine) {
  const TemporaryFolder folder;
  const std::string first = "unix:" + (folder / "a.sock").string();
  const std::string second = "unix:" + (folder / "b.sock").string();
  EXPECT_THAT(missing_needs({.servers = first + "," + second, .agent = false, .recording = {}}),
              ElementsAre(AllOf(HasSubstr("no server answers"), HasSubstr("a.sock"), HasSubstr("b.sock"),
                                HasSubstr("lowgear serve"))));
}

TEST(RunChecks, NameTheTokenThatTheServerDoesNotTake) {
  const TemporaryFolder folder;
  const std::string socket = folder / "server.sock";
  client::FakeServer server(socket);
  const AttachedNeeds needs{.servers = "unix:" + socket, .agent = false, .recording = {}};
  EXPECT_THAT(missing_needs(needs), IsEmpty()) << "it takes this one";
  for (const int status : {401, 403}) {
    server.answer_next("/v1/profile", http::Response::with_body(status, "application/json",
                                                                R"({"error": {"message": "no", "code": "no_token"}})"));
    EXPECT_THAT(missing_needs(needs),
                ElementsAre(AllOf(HasSubstr("server.sock refuses this job"), HasSubstr(std::to_string(status)))));
  }
  const std::filesystem::path token = folder / "token";
  write_file_atomically(token, "secret");
  ::setenv("LOWGEAR_SERVER_TOKEN_FILE", token.c_str(), 1);
  permissions(token, std::filesystem::perms{0644});
  EXPECT_THAT(missing_needs(needs), ElementsAre(AllOf(HasSubstr("token: others may read it (mode 0644); chmod 600 "),
                                                      HasSubstr("; without --strict it is used all the same"))));
  permissions(token, std::filesystem::perms{0600});
  EXPECT_THAT(missing_needs(needs), IsEmpty());
  write_file_atomically(token, "read,jobs words");
  ::setenv("LOWGEAR_SERVER_TOKEN_FILE", (folder / "token").c_str(), 1);
  EXPECT_THAT(missing_needs(needs),
              ElementsAre(AllOf(HasSubstr("LOWGEAR_SERVER_TOKEN_FILE: "),
                                HasSubstr("contains more than a token; expected one word, the token alone; "),
                                HasSubstr("no server plans this job"))));
  ::setenv("LOWGEAR_SERVER_TOKEN_FILE", "3f2a9c", 1);
  EXPECT_THAT(missing_needs(needs),
              ElementsAre(HasSubstr("; expected a file that holds the token, not the token itself; without a token")));
  ::unsetenv("LOWGEAR_SERVER_TOKEN_FILE");
}

TEST(RunChecks, LookForAFolderThatCanBeMadeAndMakeNone) {
  const TemporaryFolder folder;
  EXPECT_THAT(missing_needs({.servers = {}, .agent = false, .recording = folder / "new" / "recordings"}), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(folder / "new"));
  write_file_atomically(folder / "file", "text");
  EXPECT_THAT(missing_needs({.servers = {}, .agent = false, .recording = folder / "file"}),
              ElementsAre(AllOf(HasSubstr("file: it is not a folder"), HasSubstr("--record"))));
  for (const char* below : {"file/recordings", "/proc/lowgear/recordings"}) {
    EXPECT_THAT(missing_needs({.servers = {}, .agent = false, .recording = folder / "" / below}), testing::SizeIs(1));
  }
  if (::geteuid() == 0) return;  // root may write anywhere
  std::filesystem::permissions(folder / "", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  EXPECT_THAT(missing_needs({.servers = {}, .agent = false, .recording = folder / "new"}),
              ElementsAre(HasSubstr("Permission denied")));
  std::filesystem::permissions(folder / "", std::filesystem::perms::owner_all);
}

TEST(RunChecks, TellANewRecordingFromNone) {
  const TemporaryFolder folder;
  EXPECT_THAT(recordings_in(folder / "none"), IsEmpty());
  std::filesystem::create_directory(folder / "rank-00000");
  std::filesystem::create_directory(folder / "other");
  const Recordings before = recordings_in(folder / "");
  EXPECT_EQ(before.size(), 1U);
  EXPECT_EQ(recordings_in(folder / ""), before);
  std::filesystem::create_directory(folder / "rank-00001");
  EXPECT_NE(recordings_in(folder / ""), before);
}

}  // namespace
}  // namespace lowgear::operations
