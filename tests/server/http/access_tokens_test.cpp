#include "server/http/access_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {

namespace {

TEST(Scopes, AreReadAndWritten) {
  for (const char* text : {"read", "jobs", "operate", "read,jobs", "read,operate", "jobs,operate", "read,jobs,operate",
                           "node", "read,node"}) {
    const auto scopes = parse_scopes(text);
    ASSERT_TRUE(scopes) << text;
    EXPECT_EQ(to_string(*scopes), text);
  }
  EXPECT_EQ(to_string(*parse_scopes("operate,read")), "read,operate");
  EXPECT_EQ(to_string(*parse_scopes("train")), "read,jobs") << "a role of older files";
  EXPECT_EQ(to_string(*parse_scopes("admin")), "read,jobs,operate") << "a node is bound to its name";
  for (const char* text :
       {"", ",", "read,", ",read", "read,read", "READ", "read jobs", "train,read", "admin,read", "all"}) {
    EXPECT_FALSE(parse_scopes(text)) << text;
  }
}

TEST(Scopes, IncludeNoOthers) {
  EXPECT_FALSE(Scopes({Scope::operate}).contain(Scope::read));
  EXPECT_FALSE(Scopes({Scope::operate}).contain(Scope::jobs));
  EXPECT_TRUE(Scopes().empty());
}

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST(Tokens, AreReadWithCommentsAndBlanks) {
  const auto tokens = parse_tokens("# ours\n\n  read\t0123456789abcdef \r\nadmin ~!@#$%^&*()_+-=[]{}", "t");
  ASSERT_THAT(tokens, SizeIs(2));
  EXPECT_EQ(to_string(tokens[0].scopes), "read");
  EXPECT_EQ(tokens[0].token, "0123456789abcdef");
  EXPECT_EQ(tokens[0].name, "line 3");
  EXPECT_EQ(to_string(tokens[1].scopes), "read,jobs,operate");
  EXPECT_EQ(tokens[1].name, "line 4");
}

TEST(Tokens, HaveScopesAndANameThatSeveralMayShare) {
  const auto tokens = parse_tokens(
      "jobs name=trainers old-token-0123456\nread,jobs\tname=trainers\tnew-token-0123456\nread,operate "
      "0123456789abcdef\ntrain name=0123456789abcdef",
      "t");
  ASSERT_THAT(tokens, SizeIs(4));
  EXPECT_EQ(to_string(tokens[0].scopes), "jobs");
  EXPECT_EQ(tokens[0].name, "trainers");
  EXPECT_EQ(to_string(tokens[1].scopes), "read,jobs");
  EXPECT_EQ(tokens[1].name, "trainers");
  EXPECT_EQ(to_string(tokens[2].scopes), "read,operate");
  EXPECT_EQ(tokens[3].token, "name=0123456789abcdef") << "a token of an older file";
}

TEST(Tokens, OfAgentsNameTheirNodes) {
  const auto tokens = parse_tokens(
      "node nodes=a,b.c name=agents 0123456789abcdef\nread,node name=agents nodes=gpu-*-x*,one 1123456789abcdef\n"
      "read nodes=0123456789abcdef",
      "t");
  ASSERT_THAT(tokens, SizeIs(3));
  ASSERT_NE(tokens[0].nodes, nullptr);
  EXPECT_EQ(tokens[0].name, "agents");
  for (const char* host : {"a", "b.c"}) EXPECT_TRUE(tokens[0].nodes->contain(host)) << host;
  for (const char* host : {"", "aa", "b", "bxc", "*"}) EXPECT_FALSE(tokens[0].nodes->contain(host)) << host;
  ASSERT_NE(tokens[1].nodes, nullptr);
  EXPECT_EQ(tokens[1].name, "agents");
  for (const char* host : {"one", "gpu--x", "gpu-1-x2", "gpu-1-y-x-z"})
    EXPECT_TRUE(tokens[1].nodes->contain(host)) << host;
  for (const char* host : {"gpu-x", "gpu-1-y", "xgpu-1-x", "two"}) EXPECT_FALSE(tokens[1].nodes->contain(host)) << host;
  EXPECT_EQ(tokens[2].nodes, nullptr);
  EXPECT_EQ(tokens[2].token, "nodes=0123456789abcdef");
  const auto refusal = [](const std::string& text) { return error_of([&] { (void)parse_tokens(text, "tokens"); }); };
  EXPECT_THAT(refusal("node 0123456789abcdef"),
              HasSubstr("names its nodes, and no other token does; write node nodes="));
  EXPECT_THAT(refusal("jobs nodes=a 0123456789abcdef"), HasSubstr("no other token does"));
  for (const char* nodes : {"", ",", "a,", "a,,b", "a/b", "a b"}) {
    EXPECT_THAT(refusal(std::string("node nodes=") + nodes + " 0123456789abcdef"), Not(HasSubstr("no error"))) << nodes;
  }
}

TEST(Tokens, AreRefusedWithTheirLineAndNeverShown) {
  const auto refusal = [](const std::string& text) { return error_of([&] { (void)parse_tokens(text, "tokens"); }); };
  EXPECT_THAT(refusal("\n0123456789abcdef read"), AllOf(HasSubstr("tokens:2: a line begins with scopes")));
  EXPECT_THAT(refusal("0123456789abcdef"), HasSubstr("write SCOPES TOKEN"));
  EXPECT_THAT(refusal("read"), HasSubstr("the token is missing"));
  EXPECT_THAT(refusal("read 0123456789abcde"), HasSubstr("less than 16"));
  EXPECT_THAT(refusal("read 0123456789abcdef x"), HasSubstr("something follows"));
  EXPECT_THAT(refusal("read 0123456789abcde\xC3\xA4"), HasSubstr("printable ASCII"));
  EXPECT_THAT(refusal("read " + std::string(513, '0')), HasSubstr("at most 512"));
  EXPECT_THAT(refusal("read 0123456789abcdef\nadmin 0123456789abcdef"),
              HasSubstr("tokens:2: the same token as in line 1"));
  EXPECT_THAT(refusal("# nothing"), HasSubstr("no token"));
  EXPECT_THAT(refusal("read,read 0123456789abcdef"), HasSubstr("begins with scopes"));
  EXPECT_THAT(refusal("read,admin 0123456789abcdef"), HasSubstr("begins with scopes"));
  EXPECT_THAT(refusal("read, jobs 0123456789abcdef"), HasSubstr("begins with scopes"));
  EXPECT_THAT(refusal("read name= 0123456789abcdef"), HasSubstr("a name has up to 64"));
  EXPECT_THAT(refusal("read name=a/b 0123456789abcdef"), HasSubstr("a name has up to 64"));
  EXPECT_THAT(refusal("read name=a 0123456789abcdef x"), HasSubstr("something follows"));
  for (const char* text : {"read 0123456789abcdef name=a", "read name=a/b 0123456789abcdef", "0123456789abcdef read",
                           "read 0123456789abcdef x", "0123456789abcdef",
                           "read 0123456789abcdef\nadmin 0123456789abcdef", "read 0123456789abcde"}) {
    EXPECT_THAT(refusal(text), Not(HasSubstr("0123456789")));
  }
  std::string many;
  for (std::size_t i = 0; i <= kMaxTokens; ++i) many += "read 0123456789abcdef" + std::to_string(i) + "\n";
  EXPECT_THAT(refusal(many), HasSubstr("more than 1000"));
}

TEST(Tokens, ComeFromAFileThatOnlyItsOwnerReads) {
  const TemporaryFolder folder;
  const auto path = folder / "tokens";
  write_file_atomically(path, "read 0123456789abcdef\n");
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_THAT(load_tokens(path), SizeIs(1));
  for (const mode_t mode : {0640, 0604, 0610}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_THAT(error_of([&] { (void)load_tokens(path); }), HasSubstr("chmod 600"));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0620), 0);
  EXPECT_THAT(error_of([&] { (void)load_tokens(path); }), HasSubstr("chmod"));
  EXPECT_THAT(error_of([&] { (void)load_tokens(folder / "missing"); }), HasSubstr("missing"));
}

TEST(Tokens, OfRootMayBeReadByTheGroupOfAServerThatIsAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of root's and become another user";
  constexpr uid_t kOther = 65534;
  const TemporaryFolder folder;
  const auto path = folder / "tokens";
  write_file_atomically(path, "read 0123456789abcdef\n");
  ASSERT_EQ(::chmod(path.parent_path().c_str(), 0755), 0);
  ASSERT_EQ(::chown(path.c_str(), 0, kOther), 0);
  const auto as_other = [&](mode_t mode) {
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(::setegid(kOther) == 0 && ::seteuid(kOther) == 0);
    const std::string outcome = error_of([&] { (void)load_tokens(path); });
    EXPECT_TRUE(::seteuid(0) == 0 && ::setegid(0) == 0);
    return outcome;
  };
  EXPECT_EQ(as_other(0440), "no error");
  EXPECT_EQ(as_other(0640), "no error");
  EXPECT_THAT(as_other(0644), HasSubstr("chmod 600"));
  EXPECT_THAT(as_other(0660), HasSubstr("chmod"));
}

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
