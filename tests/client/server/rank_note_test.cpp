#include "client/server/rank_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <set>
#include <string>

#include "base/core/temporary_folder.h"
#include "client/fake_server.h"

namespace lowgear::client {
namespace {

constexpr std::chrono::milliseconds kNoPatience{0};

class RankNoteTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path mark() const { return folder_ / "mark"; }
  /// A process that registers as a rank, and lives until it is killed.
  [[nodiscard]] pid_t start_rank() {
    std::array<int, 2> written{};
    EXPECT_EQ(::pipe(written.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      RankNote note(mark(), "abc");
      note.write({.addresses = {http::Endpoint::parse(std::string("unix:") + std::string(folder_ / "server.sock"))},
                  .job = "j-1",
                  .rank = 3,
                  .rank_key = "k"});
      RankNote other(mark(), "def");
      other.write({.rank = 4});
      (void)!::write(written[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(written[0], &byte, 1), 1);
    ::close(written[0]);
    ::close(written[1]);
    return child;
  }
  static void kill_rank(pid_t rank) {
    ::kill(rank, SIGKILL);
    ::waitpid(rank, nullptr, 0);
  }

  TemporaryFolder folder_;
};

TEST_F(RankNoteTest, SpeaksForAProcessThatIsGoneAndForNoOther) {
  const pid_t rank = start_rank();
  FakeServer server(folder_ / "server.sock");
  EXPECT_EQ(finish_gone_ranks(mark(), "signal 9", kNoPatience).problem, "");
  EXPECT_EQ(server.count("/finish"), 0U) << "it lives";
  auto finished =
      std::async(std::launch::async, [this] { return finish_gone_ranks(mark(), "signal 9", std::chrono::hours(1)); });
  kill_rank(rank);
  const GoneRanks gone = finished.get();
  EXPECT_EQ(gone.problem, "");
  EXPECT_EQ(gone.numbers, std::set{4});
  ASSERT_EQ(server.count("/finish"), 1U);
  EXPECT_EQ(server.bodies("/finish").at(0), (Json{{"rank", 3}, {"failure", "signal 9"}}));
}

TEST_F(RankNoteTest, SaysThatTheServerIsAway) {
  kill_rank(start_rank());
  EXPECT_THAT(finish_gone_ranks(mark(), "", kNoPatience).problem, testing::HasSubstr("server.sock"));
}

TEST_F(RankNoteTest, IsGoneOnceTheEndIsKnown) {
  RankNote note(mark(), "abc");
  note.write({.rank = 0});
  EXPECT_FALSE(std::filesystem::is_empty(folder_.path()));
  note.remove();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(RankNoteTest, NeedsNoFolder) {
  RankNote note(folder_ / "absent" / "mark", "abc");
  note.write({.rank = 0});
  EXPECT_EQ(finish_gone_ranks(folder_ / "absent" / "mark", "", kNoPatience).numbers, std::set<int>());
}

}  // namespace
}  // namespace lowgear::client
