#include "base/http/client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/http/server/server.h"
#include "base/http/server_fixture.h"
#include "base/ipc/unix_socket.h"

namespace lowgear::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;
using Kind = ClientError::Kind;

/// The kind of error that `ask` ends with.
std::optional<Kind> failure(const std::function<void()>& ask) {
  try {
    ask();
    return std::nullopt;
  } catch (const ClientError& error) {
    return error.kind();
  }
}

class HttpClientTest : public ServerFixture {
 protected:
  Endpoint tcp() const { return {.host = "127.0.0.1", .port = port, .unix_path = {}}; }
  Endpoint unix_socket() const { return {.host = {}, .port = 0, .unix_path = path.string()}; }
};

TEST_F(HttpClientTest, AsksOverTcpAndUnixSocketsAndKeepsTheConnection) {
  serve();
  for (const Endpoint& endpoint : {tcp(), unix_socket()}) {
    Client client(endpoint);
    const ReplyText first = client.request("POST", "/a?b", "body", {{"X-Y", "z"}});
    EXPECT_EQ(first.status, 200);
    EXPECT_THAT(first.body, StartsWith("POST /a b [body]"));
    EXPECT_EQ(first.headers.at("content-type"), "text/plain");
    EXPECT_EQ(on_loop([&] { return std::string(handler.last.header("x-y")); }), "z");
    for (int i = 0; i < 5; ++i) EXPECT_THAT(client.request("GET", "/").body, StartsWith("GET /"));
    EXPECT_EQ(connections(), 1U);
    EXPECT_EQ(client.request("HEAD", "/").body, "");
    EXPECT_EQ(client.request("DELETE", "/drop").status, 500);
    EXPECT_EQ(connections(), 1U);
    client = Client(endpoint);
    ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  }
}

TEST_F(HttpClientTest, LargeBodiesGoBothWays) {
  options.limits.body_bytes = 8'000'000;
  serve();
  Client client(tcp());
  const std::string body(8'000'000, 'b');
  EXPECT_THAT(client.request("POST", "/", body).body, HasSubstr("[" + body + "]"));
}

TEST_F(HttpClientTest, ARefusalBeforeAllIsSentIsAnAnswer) {
  serve();
  Client client(tcp());
  EXPECT_EQ(client.request("POST", "/", std::string(800'000, 'b')).status, 413);
  EXPECT_EQ(client.request("GET", "/").status, 200);
}

TEST_F(HttpClientTest, AConnectionThatTheServerClosedIsReplaced) {
  options.idle_timeout = 1s;
  serve();
  Client client(tcp());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.request("POST", "/").status, 200);
    ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  }
}

TEST_F(HttpClientTest, AnAnswerThatDoesNotComeIsTimedOut) {
  serve();
  Client client(tcp());
  EXPECT_EQ(failure([&] { (void)client.request("GET", "/wait", {}, {}, 20ms); }), Kind::timed_out);
  ASSERT_TRUE(eventually([&] { return gone() == 1; }));
  EXPECT_EQ(client.request("GET", "/").status, 200);
}

TEST_F(HttpClientTest, CancellingEndsALongPollAtOnceAndForGood) {
  serve();
  for (const Endpoint& endpoint : {tcp(), unix_socket()}) {
    Client client(endpoint);
    std::optional<Kind> ended;
    const int gone_before = gone();
    std::thread asking([&] { ended = failure([&] { (void)client.request("GET", "/wait", {}, {}, kPatience * 10); }); });
    ASSERT_TRUE(eventually([&] { return waiting() > 0; }));
    client.cancel();
    asking.join();
    EXPECT_EQ(ended, Kind::cancelled);
    EXPECT_EQ(failure([&] { (void)client.request("GET", "/"); }), Kind::cancelled);
    EXPECT_TRUE(eventually([&] { return gone() == gone_before + 1; }));
    on_loop([&] { handler.waiting.clear(); });
  }
}

TEST_F(HttpClientTest, CancellingMayComeAnyTime) {
  serve();
  for (int i = 0; i < 200; ++i) {
    Client client(unix_socket());
    std::thread asking([&] {
      EXPECT_EQ(failure([&] {
                  while (true) (void)client.request("GET", "/");
                }),
                Kind::cancelled);
    });
    if (i % 2 == 0) std::this_thread::yield();
    client.cancel();
    asking.join();
  }
}

TEST_F(HttpClientTest, AServerThatEndsInTheMiddleIsDisconnected) {
  serve();
  Client client(tcp());
  EXPECT_EQ(client.request("GET", "/").status, 200);
  std::optional<Kind> ended;
  std::thread asking([&] { ended = failure([&] { (void)client.request("POST", "/wait"); }); });
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  on_loop([&] { server->stop(); });
  asking.join();
  EXPECT_EQ(ended, Kind::disconnected);
  EXPECT_EQ(failure([&] { (void)client.request("POST", "/"); }), Kind::unreachable);
}

TEST_F(HttpClientTest, WhereNobodyListensIsSaid) {
  serve();
  on_loop([&] { server->stop(); });
  for (const Endpoint& endpoint : {tcp(), unix_socket()}) {
    Client client(endpoint);
    try {
      (void)client.request("GET", "/");
      FAIL();
    } catch (const ClientError& error) {
      EXPECT_EQ(error.kind(), Kind::unreachable);
      EXPECT_THAT(error.what(), StartsWith(endpoint.text() + ": cannot be reached: "));
    }
  }
}

TEST_F(HttpClientTest, ANameThatIsNotKnownIsSaid) {
  // RFC 6761 keeps .invalid from being known anywhere; the dots make it no name at all, so that no server is asked.
  Client client({.host = "..invalid", .port = 80, .unix_path = {}});
  try {
    (void)client.request("GET", "/");
    FAIL();
  } catch (const ClientError& error) {
    EXPECT_EQ(error.kind(), Kind::unreachable);
    EXPECT_THAT(error.what(), HasSubstr("the host is not known"));
  }
}

TEST_F(HttpClientTest, WhatCannotStandInARequestIsAnInputError) {
  Client client(unix_socket());
  EXPECT_THROW((void)client.request("GE T", "/"), InputError);
  EXPECT_THROW((void)client.request("", "/"), InputError);
  for (const char* target : {"", "a", "/a b", "/a\r\nHost: evil", "http://x/"}) {
    EXPECT_THROW((void)client.request("GET", target), InputError) << target;
  }
  EXPECT_THROW((void)client.request("GET", "/", {}, {{"A:", "b"}}), InputError);
  EXPECT_THROW((void)client.request("GET", "/", {}, {{"A", "b\r\nC: d"}}), InputError);
}

/// A server that takes connections one after another. On each it answers as many requests as it has answers for it,
/// with the bytes that the test says, and then closes it.
class ScriptedServer {
 public:
  using Connection = std::vector<std::string>;

  explicit ScriptedServer(std::vector<Connection> connections)
      : listener_(listen_tcp("127.0.0.1", 0)), thread_([this, connections = std::move(connections)] {
          for (const Connection& answers : connections) serve(answers);
        }) {}
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;
  ~ScriptedServer() {
    ::shutdown(listener_.socket.get(), SHUT_RDWR);  // ends accept
    thread_.join();
  }
  [[nodiscard]] Endpoint endpoint() const { return {.host = "127.0.0.1", .port = listener_.port, .unix_path = {}}; }
  [[nodiscard]] int requests() const { return requests_; }

 private:
  void serve(const Connection& answers) {
    pollfd waiting{.fd = listener_.socket.get(), .events = POLLIN, .revents = 0};
    ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count()));
    const FileDescriptor client(::accept(listener_.socket.get(), nullptr, nullptr));
    if (!client) return;
    for (const std::string& answer : answers) {
      if (!read_request(client)) return;
      requests_.fetch_add(1);
      send(client, answer);
    }
  }
  static bool read_request(const FileDescriptor& client) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t received = ::recv(client.get(), buffer, sizeof(buffer), 0);
      if (received <= 0) return false;
      request.append(buffer, static_cast<std::size_t>(received));
    }
    return true;
  }
  static void send(const FileDescriptor& client, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  TcpListener listener_;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

TEST(HttpClientAgainstOthers, MalformedAnswersAreSaid) {
  ScriptedServer server({{"SSH-2.0-OpenSSH\r\n\r\n"},
                         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"},
                         {""},
                         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
                         {"HTTP/1.1 200 OK\r\n\r\nto the end"}});
  Client client(server.endpoint());
  const auto ask = [&] { (void)client.request("GET", "/"); };
  EXPECT_EQ(failure(ask), Kind::malformed);
  EXPECT_EQ(failure(ask), Kind::disconnected);
  EXPECT_EQ(failure(ask), Kind::disconnected);
  EXPECT_EQ(failure(ask), Kind::malformed);
  EXPECT_EQ(client.request("GET", "/").body, "to the end");
}

TEST(HttpClientAgainstOthers, AnswersAreBounded) {
  ScriptedServer server({{"HTTP/1.1 200 OK\r\n\r\n" + std::string(10'000'000, 'x')},
                         {"HTTP/1.1 200 OK\r\nX: " + std::string(10'000'000, 'x')},
                         {"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n"}});
  Client client(server.endpoint(), {.limits = {.header_bytes = 1000, .body_bytes = 100'000}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(failure([&] { (void)client.request("GET", "/"); }), Kind::malformed) << i;
}

constexpr const char* kEmptyAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

TEST(HttpClientAgainstOthers, APostThatMayHaveBeenSeenIsNotSentAgain) {
  ScriptedServer server({{kEmptyAnswer, ""}, {kEmptyAnswer}});
  Client client(server.endpoint());
  EXPECT_EQ(client.request("POST", "/").status, 200);
  EXPECT_EQ(failure([&] { (void)client.request("POST", "/"); }), Kind::disconnected);
  EXPECT_EQ(server.requests(), 2);
}

TEST(HttpClientAgainstOthers, AGetOnAKeptConnectionIs) {
  ScriptedServer server({{kEmptyAnswer, ""}, {kEmptyAnswer}});
  Client client(server.endpoint());
  EXPECT_EQ(client.request("GET", "/").status, 200);
  EXPECT_EQ(client.request("GET", "/").status, 200);
  EXPECT_EQ(server.requests(), 3);
}

TEST(HttpClientAgainstOthers, WhatCameUnaskedIsNotTakenForTheNextAnswer) {
  ScriptedServer server({{kEmptyAnswer + std::string("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")}, {kEmptyAnswer}});
  Client client(server.endpoint());
  EXPECT_EQ(client.request("GET", "/").status, 200);
  EXPECT_EQ(client.request("GET", "/").status, 200);
}

TEST(HttpClientAgainstOthers, AServerThatDoesNotTakeTheConnectionIsUnreachableInTime) {
  std::string folder = (std::filesystem::temp_directory_path() / "lowgear-http-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  Client client({.host = {}, .port = 0, .unix_path = folder + "/none.sock"});
  EXPECT_EQ(failure([&] { (void)client.request("GET", "/"); }), Kind::unreachable);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lowgear::http
