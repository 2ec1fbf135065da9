#include "server/http/authentication.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace lowgear::server {
namespace {

using namespace std::chrono_literals;

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

/// Empty for a caller that is not known.
std::string scopes_of(Authenticator authenticator, const http::Request& request) {
  const auto caller = authenticator.identify(request, kNow);
  return caller ? to_string(caller->scopes) : std::string();
}

TEST(Authenticator, KnowsTokens) {
  EXPECT_EQ(scopes_of(authenticator(), over_tcp("Bearer " + kReader)), "read");
  EXPECT_EQ(scopes_of(authenticator(), over_tcp("bEARER   " + kTrainer)), "read,jobs");
  EXPECT_EQ(authenticator().identify(over_tcp("Bearer " + kTrainer), kNow)->name, "token line 2");
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
                                            "Bearer" + kReader,
                                            "Bearer " + kReader + " anything",
                                            "Bearer " + kReader + " " + kReader,
                                            "Bearer " + kReader + ", Bearer " + kTrainer,
                                            "Bearer x " + kReader};
  for (const std::string& header : headers) {
    EXPECT_EQ(scopes_of(authenticator(), over_tcp(header)), "") << header;
  }
  EXPECT_EQ(scopes_of(Authenticator({}, {}), over_tcp("Bearer ")), "");
  EXPECT_EQ(scopes_of(authenticator(), over_unix(kStranger, 1)), "");
}

TEST(Authenticator, KnowsUsersOfTheUnixSocket) {
  EXPECT_EQ(scopes_of(authenticator(), over_unix(0, 0)), "read,jobs,operate,node");
  EXPECT_EQ(scopes_of(authenticator(), over_unix(::geteuid(), 1)), "read,jobs,operate,node");
  const PeerRule user{.scopes = {Scope::read, Scope::jobs}, .user = kStranger, .group = {}};
  EXPECT_EQ(scopes_of(authenticator({user}), over_unix(kStranger, 1)), "read,jobs");
  EXPECT_EQ(scopes_of(authenticator({user}), over_unix(kStranger + 1, 1)), "");
  const PeerRule group{.scopes = {Scope::read, Scope::jobs}, .user = {}, .group = kTraining};
  EXPECT_EQ(scopes_of(authenticator({group}), over_unix(kStranger, 1)), "read,jobs");
  EXPECT_EQ(scopes_of(authenticator({group}), over_unix(kStranger + 1, kTraining)), "read,jobs");
  EXPECT_EQ(scopes_of(authenticator({group}), over_unix(kStranger + 1, 1)), "");
}

TEST(Authenticator, GivesTheScopesOfAllThatApplies) {
  const PeerRule everybody{.scopes = {Scope::read}, .user = {}, .group = {}, .everybody = true};
  const PeerRule user{.scopes = {Scope::operate}, .user = kStranger, .group = {}};
  EXPECT_EQ(scopes_of(authenticator({everybody, user}), over_unix(kStranger, 1)), "read,operate");
  EXPECT_EQ(scopes_of(authenticator({user, everybody}), over_unix(kStranger, 1)), "read,operate");
  EXPECT_EQ(scopes_of(authenticator({user, everybody}), over_unix(kStranger + 1, 1)), "read");
  EXPECT_EQ(scopes_of(authenticator({user}), over_unix(kStranger, 1, "Bearer " + kReader)), "read,operate");
  const auto caller = authenticator({user}).identify(over_unix(kStranger, 1, "Bearer " + kReader), kNow);
  EXPECT_EQ(caller->name, "token line 1");
}

TEST(Authenticator, ForgetsTokensThatAreReplaced) {
  Authenticator subject = authenticator();
  subject.replace_tokens(parse_tokens("operate name=new another-token-789", "t"));
  EXPECT_FALSE(subject.identify(over_tcp("Bearer " + kReader), kNow));
  const auto caller = subject.identify(over_tcp("Bearer another-token-789"), kNow);
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->name, "token new");
  EXPECT_EQ(to_string(caller->scopes), "operate");
}

TEST(Authenticator, LetsASessionReadFromThisMachineAlone) {
  Authenticator subject = authenticator();
  const std::string code = subject.sign_ins().new_code(kNow);
  const std::string session = *subject.sign_ins().exchange(code, kNow);
  http::Request request = over_tcp("Bearer " + session);
  EXPECT_FALSE(subject.identify(request, kNow)) << "from another machine";
  for (const char* remote : {"127.0.0.1", "127.9.8.7", "::1"}) {
    request.remote = remote;
    const auto caller = subject.identify(request, kNow);
    ASSERT_TRUE(caller) << remote;
    EXPECT_EQ(to_string(caller->scopes), "read");
    EXPECT_EQ(caller->name, "session 1");
  }
  EXPECT_FALSE(subject.identify(request, kNow + SignIns::kSessionLife));
  http::Request passed_on = request;
  passed_on.headers["x-forwarded-for"] = "192.0.2.7";
  EXPECT_FALSE(subject.identify(passed_on, kNow)) << "from another machine through a proxy here";
  request.headers["authorization"] = "Bearer " + code;
  EXPECT_FALSE(subject.identify(request, kNow)) << "a one-time token is no session";
}

TEST(Authenticator, RefusesAWrongTokenWhoeverSendsIt) {
  EXPECT_EQ(scopes_of(authenticator(), over_unix(0, 0, "Bearer wrong")), "");
}

TEST(Authenticator, LooksUpTheGroupsOfAUserOnceInAWhile) {
  int look_ups = 0;
  bool member = false;
  AuthenticationRules rules;
  rules.peers = {{.scopes = {Scope::read}, .user = {}, .group = kTraining}};
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
  EXPECT_EQ(scopes_of(authenticator(), request), "");
  EXPECT_EQ(scopes_of(authenticator({}, true), request), "read");
  for (const char* host : {"127.0.0.1:7787", "127.0.0.1", "[::1]:7787", "localhost"}) {
    request.headers["host"] = host;
    EXPECT_EQ(scopes_of(authenticator({}, true), request), "read") << host;
  }
  for (const char* host : {"evil.example:7787", "127.0.0.1.evil.example", "localhost.evil.example",
                           "[::1].evil.example", "[::1]evil:7787", ""}) {
    request.headers["host"] = host;
    EXPECT_EQ(scopes_of(authenticator({}, true), request), "") << host;
  }
  request.headers["host"] = "localhost";
  request.headers["x-forwarded-for"] = "192.0.2.7";
  EXPECT_EQ(scopes_of(authenticator({}, true), request), "");
  request.headers.erase("x-forwarded-for");
  request.remote = "192.0.2.7";
  EXPECT_EQ(scopes_of(authenticator({}, true), request), "");
}

TEST(Authenticator, RefusesWhatAProxyPassesOn) {
  http::Request request;
  request.remote = "127.0.0.1";
  request.headers["host"] = "127.0.0.1:7787";
  for (const char* header : {"forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host",
                             "x-forwarded-proto", "x-forwarded", "x-client-ip", "true-client-ip"}) {
    http::Request passed_on = request;
    passed_on.headers[header] = "";
    EXPECT_EQ(scopes_of(authenticator({}, true), passed_on), "") << header;
  }
  request.headers["x-forward"] = "";
  request.headers["x-real"] = "";
  EXPECT_EQ(scopes_of(authenticator({}, true), request), "read");
  request.version = 10;
  EXPECT_EQ(scopes_of(authenticator({}, true), request), "");
}

}  // namespace
}  // namespace lowgear::server
