#include "server/http/watched_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

class WatchedTokensTest : public testing::Test {
 protected:
  WatchedTokensTest() { write("read name=a old-token-0123456\n"); }

  void write(const std::string& text, mode_t mode = 0600) {
    write_file_atomically(path, text);
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }

  static std::optional<WatchedTokens::Change> change_of(WatchedTokens& tokens) {
    EXPECT_FALSE(tokens.check()) << "a file that may still be written";
    return tokens.check();
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "tokens";
};

TEST_F(WatchedTokensTest, OldAndNewOnesAreValidConcurrentlyAndThenOnlyNewOnes) {
  WatchedTokens tokens(path);
  EXPECT_THAT(tokens.tokens(), SizeIs(1));
  EXPECT_FALSE(change_of(tokens));
  write("read name=a old-token-0123456\nread name=a new-token-0123456\n");
  const auto both = change_of(tokens);
  ASSERT_TRUE(both);
  EXPECT_FALSE(both->refused());
  EXPECT_FALSE(both->withdraws);
  EXPECT_EQ(both->message, "2 tokens are valid; new: a; no longer valid: none");
  write("read name=a new-token-0123456\n");
  const auto only = change_of(tokens);
  ASSERT_TRUE(only);
  EXPECT_TRUE(only->withdraws);
  EXPECT_THAT(tokens.tokens(), SizeIs(1));
  EXPECT_EQ(only->message, "1 tokens are valid; new: none; no longer valid: a");
}

TEST_F(WatchedTokensTest, FewerScopesWithdrawRights) {
  write("read,jobs old-token-0123456\n");
  WatchedTokens tokens(path);
  write("read,jobs,operate old-token-0123456\n");
  EXPECT_FALSE(change_of(tokens)->withdraws);
  write("read old-token-0123456\n");
  EXPECT_TRUE(change_of(tokens)->withdraws);
}

TEST_F(WatchedTokensTest, ARefusedFileLeavesTheTokensValidAndSaysWhyOnce) {
  WatchedTokens tokens(path);
  const auto refused = [&](const std::string& why) {
    const auto change = change_of(tokens);
    ASSERT_TRUE(change) << why;
    EXPECT_TRUE(change->refused());
    EXPECT_THAT(change->message, AllOf(HasSubstr("stay valid"), HasSubstr(why), Not(HasSubstr("token-0123456"))));
    EXPECT_TRUE(tokens.stale());
    EXPECT_THAT(tokens.tokens(), SizeIs(1));
    EXPECT_FALSE(tokens.check());
  };
  write("read new-token-0123456 x\n");
  refused("something follows");
  write("read new-token-0123456\n", 0644);
  refused("chmod 600");
  write("");
  refused("no token");
  std::filesystem::remove(path);
  refused("tokens");
  write("read new-token-0123456\n");
  EXPECT_FALSE(change_of(tokens)->refused());
  EXPECT_FALSE(tokens.stale());
}

}  // namespace
}  // namespace lowgear::server
