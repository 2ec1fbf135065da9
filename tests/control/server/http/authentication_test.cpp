#include "control/server/http/authentication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::server {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr uid_t kStranger = 54'321;
constexpr gid_t kTraining = 2'001;
const std::string kReader = "reader-token-0123";
const std::string kTrainer = "trainer-token-456";
const Authenticator::Clock::time_point kNow{};

http::Request over_tcp(const std::string& authorization = "") {
  http::Request request;
  request.remote = "192.0.2.7";
  if (!authorization.empty()) request.headers["authorization"] = authorization;
  return request;
}

http::Request over_unix(uid_t uid, gid_t gid, const std::string& authorization = "") {
  http::Request request = over_tcp(authorization);
  request.remote = "unix";
  request.peer = ipc::UnixPeer{.uid = uid, .gid = gid, .pid = 1};
  return request;
}

Authenticator authenticator(std::vector<PeerRule> peers = {}, bool loopback_read = false) {
  AuthenticationRules rules{.tokens = parse_tokens("read " + kReader + "\ntrain " + kTrainer + "\n", "t"),
                            .peers = std::move(peers),
                            .loopback_read = loopback_read};
  return {std::move(rules), [](uid_t uid, gid_t gid) { return uid == kStranger && gid == kTraining; }};
}

std::optional<Role> role_of(Authenticator authenticator, const http::Request& request) {
  const auto caller = authenticator.identify(request, kNow);
  return caller ? std::optional(caller->role) : std::nullopt;
}

TEST(Tokens, AreReadWithCommentsAndBlanks) {
  const auto tokens = parse_tokens("# ours\n\n  read\t0123456789abcdef \r\nadmin ~!@#$%^&*()_+-=[]{}", "t");
  ASSERT_THAT(tokens, SizeIs(2));
  EXPECT_EQ(tokens[0].role, Role::read);
  EXPECT_EQ(tokens[0].token, "0123456789abcdef");
  EXPECT_EQ(tokens[0].line, 3);
  EXPECT_EQ(tokens[1].role, Role::admin);
  EXPECT_EQ(tokens[1].line, 4);
}

TEST(Tokens, AreRefusedWithTheirLineAndNeverShown) {
  const auto refusal = [](const std::string& text) { return error_of([&] { (void)parse_tokens(text, "tokens"); }); };
  EXPECT_THAT(refusal("\n0123456789abcdef read"), AllOf(HasSubstr("tokens:2: a line begins with a role")));
  EXPECT_THAT(refusal("0123456789abcdef"), HasSubstr("write ROLE TOKEN"));
  EXPECT_THAT(refusal("read"), HasSubstr("the token is missing"));
  EXPECT_THAT(refusal("read 0123456789abcde"), HasSubstr("less than 16"));
  EXPECT_THAT(refusal("read 0123456789abcdef x"), HasSubstr("something follows"));
  EXPECT_THAT(refusal("read 0123456789abcde\xC3\xA4"), HasSubstr("printable ASCII"));
  EXPECT_THAT(refusal("read " + std::string(513, '0')), HasSubstr("at most 512"));
  EXPECT_THAT(refusal("read 0123456789abcdef\nadmin 0123456789abcdef"),
              HasSubstr("tokens:2: the same token as in line 1"));
  EXPECT_THAT(refusal("# nothing"), HasSubstr("no token"));
  for (const char* text : {"0123456789abcdef read", "read 0123456789abcdef x", "0123456789abcdef",
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
    std::string outcome = "loaded";
    try {
      (void)load_tokens(path);
    } catch (const InputError& error) {
      outcome = error.what();
    }
    EXPECT_TRUE(::seteuid(0) == 0 && ::setegid(0) == 0);
    return outcome;
  };
  EXPECT_EQ(as_other(0440), "loaded");
  EXPECT_EQ(as_other(0640), "loaded");
  EXPECT_THAT(as_other(0644), HasSubstr("chmod 600"));
  EXPECT_THAT(as_other(0660), HasSubstr("chmod"));
}

TEST(Authenticator, KnowsTokens) {
  EXPECT_EQ(role_of(authenticator(), over_tcp("Bearer " + kReader)), Role::read);
  EXPECT_EQ(role_of(authenticator(), over_tcp("bEARER   " + kTrainer)), Role::train);
  EXPECT_EQ(authenticator().identify(over_tcp("Bearer " + kTrainer), kNow)->name, "token of line 2");
}

TEST(Authenticator, DoesNotKnowStrangers) {
  const std::vector<std::string> headers = {"",
                                            "Bearer",
                                            "Bearer ",
                                            "Bearer x",
                                            kReader,
                                            "Basic " + kReader,
                                            "Bearer " + kReader + "x",
                                            "Bearer " + kReader.substr(1),
                                            "Bearer" + kReader};
  for (const std::string& header : headers) {
    EXPECT_EQ(role_of(authenticator(), over_tcp(header)), std::nullopt) << header;
  }
  EXPECT_EQ(role_of(Authenticator({}, {}), over_tcp("Bearer ")), std::nullopt);
  EXPECT_EQ(role_of(authenticator(), over_unix(kStranger, 1)), std::nullopt);
}

TEST(Authenticator, KnowsUsersOfTheUnixSocket) {
  EXPECT_EQ(role_of(authenticator(), over_unix(0, 0)), Role::admin);
  EXPECT_EQ(role_of(authenticator(), over_unix(::geteuid(), 1)), Role::admin);
  const PeerRule user{.role = Role::train, .user = kStranger, .group = {}};
  EXPECT_EQ(role_of(authenticator({user}), over_unix(kStranger, 1)), Role::train);
  EXPECT_EQ(role_of(authenticator({user}), over_unix(kStranger + 1, 1)), std::nullopt);
  const PeerRule group{.role = Role::train, .user = {}, .group = kTraining};
  EXPECT_EQ(role_of(authenticator({group}), over_unix(kStranger, 1)), Role::train);
  EXPECT_EQ(role_of(authenticator({group}), over_unix(kStranger + 1, kTraining)), Role::train);
  EXPECT_EQ(role_of(authenticator({group}), over_unix(kStranger + 1, 1)), std::nullopt);
}

TEST(Authenticator, GivesTheHighestOfSeveralRoles) {
  const PeerRule everybody{.role = Role::read, .user = {}, .group = {}, .everybody = true};
  const PeerRule user{.role = Role::admin, .user = kStranger, .group = {}};
  EXPECT_EQ(role_of(authenticator({everybody, user}), over_unix(kStranger, 1)), Role::admin);
  EXPECT_EQ(role_of(authenticator({user, everybody}), over_unix(kStranger, 1)), Role::admin);
  EXPECT_EQ(role_of(authenticator({user, everybody}), over_unix(kStranger + 1, 1)), Role::read);
  EXPECT_EQ(role_of(authenticator({everybody}), over_unix(kStranger, 1, "Bearer " + kTrainer)), Role::train);
  EXPECT_EQ(role_of(authenticator({user}), over_unix(kStranger, 1, "Bearer " + kReader)), Role::admin);
}

TEST(Authenticator, RefusesAWrongTokenWhoeverSendsIt) {
  EXPECT_EQ(role_of(authenticator(), over_unix(0, 0, "Bearer wrong")), std::nullopt);
}

TEST(Authenticator, LooksUpTheGroupsOfAUserOnceInAWhile) {
  int look_ups = 0;
  bool member = false;
  AuthenticationRules rules;
  rules.peers = {{.role = Role::read, .user = {}, .group = kTraining}};
  Authenticator subject(std::move(rules), [&](uid_t, gid_t) {
    ++look_ups;
    return member;
  });
  EXPECT_FALSE(subject.identify(over_unix(kStranger, 1), kNow));
  member = true;
  EXPECT_FALSE(subject.identify(over_unix(kStranger, 1), kNow + 1s));
  EXPECT_EQ(look_ups, 1);
  EXPECT_TRUE(subject.identify(over_unix(kStranger, 1), kNow + 1h));
  EXPECT_EQ(look_ups, 2);
}

TEST(Authenticator, LetsThisMachineReadWhereThatIsAllowed) {
  http::Request request;
  request.remote = "127.0.0.1";
  request.headers["host"] = "localhost:7787";
  EXPECT_EQ(role_of(authenticator(), request), std::nullopt);
  EXPECT_EQ(role_of(authenticator({}, true), request), Role::read);
  for (const char* host : {"127.0.0.1:7787", "127.0.0.1", "[::1]:7787", "localhost"}) {
    request.headers["host"] = host;
    EXPECT_EQ(role_of(authenticator({}, true), request), Role::read) << host;
  }
  for (const char* host : {"evil.example:7787", "127.0.0.1.evil.example", "localhost.evil.example",
                           "[::1].evil.example", "[::1]evil:7787", ""}) {
    request.headers["host"] = host;
    EXPECT_EQ(role_of(authenticator({}, true), request), std::nullopt) << host;
  }
  request.headers["host"] = "localhost";
  request.headers["x-forwarded-for"] = "192.0.2.7";
  EXPECT_EQ(role_of(authenticator({}, true), request), std::nullopt);
  request.headers.erase("x-forwarded-for");
  request.remote = "192.0.2.7";
  EXPECT_EQ(role_of(authenticator({}, true), request), std::nullopt);
}

TEST(Authenticator, RefusesWhatAProxyPassesOn) {
  http::Request request;
  request.remote = "127.0.0.1";
  request.headers["host"] = "127.0.0.1:7787";
  for (const char* header : {"forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host",
                             "x-forwarded-proto", "x-forwarded", "x-client-ip", "true-client-ip"}) {
    http::Request passed_on = request;
    passed_on.headers[header] = "";
    EXPECT_EQ(role_of(authenticator({}, true), passed_on), std::nullopt) << header;
  }
  request.headers["x-forward"] = "";
  request.headers["x-real"] = "";
  EXPECT_EQ(role_of(authenticator({}, true), request), Role::read);
  request.version = 10;
  EXPECT_EQ(role_of(authenticator({}, true), request), std::nullopt);
}

}  // namespace
}  // namespace lowgear::server
