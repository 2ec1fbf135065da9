// Client and Server with TLS between them; tests/server/tls_test.py has peers that are not ours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/http/client/client.h"
#include "base/http/server_fixture.h"
#include "base/http/tls/test_certificates.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::http {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Kind = ClientError::Kind;

class TlsServerTest : public ServerFixture {
 protected:
  TlsServerTest() { authority.issue("server", "IP:127.0.0.1,DNS:localhost"); }

  void serve_tls() {
    side = std::make_shared<TlsServerSide>(files);
    server = std::make_unique<Server>(io, handler, options);
    port = server->listen_tls("127.0.0.1", 0, side);
    run();
  }

  [[nodiscard]] Endpoint endpoint(const std::string& host = "127.0.0.1") const {
    return {.host = host, .port = port, .unix_path = {}, .tls = true};
  }
  [[nodiscard]] ClientOptions trusting(const std::filesystem::path& ca) const {
    ClientOptions options_of_client;
    options_of_client.tls.ca = ca;
    return options_of_client;
  }
  [[nodiscard]] std::unique_ptr<Client> client() const {
    return std::make_unique<Client>(endpoint(), trusting(authority.file()));
  }
  /// Why there is no response; empty when there is one.
  static std::string refusal(Client& asking, Kind kind) {
    try {
      (void)asking.request("GET", "/");
      return {};
    } catch (const ClientError& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
  }

  /// What comes until the connection ends.
  static std::string all_of(RawClient& raw) { return raw.read_until("no server sends this"); }

  TestAuthority authority{folder.path()};
  TlsServerFiles files{.certificate = folder / "server.pem", .key = folder / "server.key", .client_ca = {}};
  std::shared_ptr<TlsServerSide> side;
};

TEST_F(TlsServerTest, RequestsAndResponsesPassAndTheConnectionIsKept) {
  serve_tls();
  for (const char* host : {"127.0.0.1", "localhost"}) {
    Client asking(endpoint(host), trusting(authority.file()));
    for (int i = 0; i < 5; ++i) {
      const ReplyText reply = asking.request("POST", "/a?b", "body");
      EXPECT_THAT(reply.body, StartsWith("POST /a b [body] from 127."));
      EXPECT_EQ(connections(), 1U);
    }
    asking = Client(endpoint());
    ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  }
}

TEST_F(TlsServerTest, LargeBodiesGoBothWays) {
  options.limits.body_bytes = 8'000'000;
  serve_tls();
  const std::string body(8'000'000, 'b');
  const auto asking = client();
  EXPECT_THAT(asking->request("POST", "/", body).body, HasSubstr("[" + body + "]"));
  EXPECT_EQ(asking->request("POST", "/", std::string(9'000'000, 'b')).status, 413);
}

TEST_F(TlsServerTest, AClientThatWaitsSeesTheResponseOfLater) {
  serve_tls();
  const auto asking = client();
  std::thread answering([&] {
    while (waiting() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    answer_all(Response::with_body(200, "text/plain", "late"));
  });
  EXPECT_EQ(asking->request("GET", "/wait").body, "late");
  answering.join();
}

TEST_F(TlsServerTest, ACertificateIsVerified) {
  serve_tls();
  const TestAuthority stranger(folder.path(), "stranger");
  Client distrusting(endpoint(), trusting(stranger.file()));
  EXPECT_THAT(refusal(distrusting, Kind::untrusted), AllOf(HasSubstr("TLS failed"), HasSubstr("issuer")));
  Client of_the_system(endpoint());
  EXPECT_THAT(refusal(of_the_system, Kind::untrusted), HasSubstr("TLS failed"));
  on_loop([&] {
    authority.issue("server", "IP:127.0.0.2,DNS:elsewhere");
    side->reload();
  });
  EXPECT_THAT(refusal(*client(), Kind::untrusted), HasSubstr("IP address mismatch"));
  Client by_name(endpoint("localhost"), trusting(authority.file()));
  EXPECT_THAT(refusal(by_name, Kind::untrusted), HasSubstr("hostname mismatch"));
}

TEST_F(TlsServerTest, ACertificateThatIsNotValidYetIsRefusedByTheClient) {
  authority.issue("server", "IP:127.0.0.1", {.from_s = 3'600, .until_s = 7'200});
  serve_tls();
  EXPECT_THAT(refusal(*client(), Kind::untrusted), HasSubstr("not yet valid"));
}

TEST_F(TlsServerTest, ClientsShowACertificateWhereTheServerWantsOne) {
  files.client_ca = authority.file();
  serve_tls();
  const TestAuthority stranger(folder.path(), "stranger");
  authority.issue("rank", "");
  stranger.issue("intruder", "");
  const auto asking_as = [&](const std::string& name) {
    ClientOptions shown = trusting(authority.file());
    shown.tls.certificate = folder / (name + ".pem");
    shown.tls.key = folder / (name + ".key");
    return Client(endpoint(), shown);
  };
  Client rank = asking_as("rank");
  EXPECT_EQ(rank.request("GET", "/").status, 200);
  Client intruder = asking_as("intruder");
  // With TLS 1.3 the client sends its request before it learns of the refusal.
  EXPECT_THROW((void)intruder.request("GET", "/"), ClientError);
  EXPECT_THROW((void)client()->request("GET", "/"), ClientError);
  EXPECT_EQ(on_loop([&] { return handler.last.path; }), "/");
  EXPECT_EQ(rank.request("GET", "/").status, 200);
}

TEST_F(TlsServerTest, AReloadedCertificateIsForNewConnections) {
  serve_tls();
  const auto old = client();
  EXPECT_EQ(old->request("GET", "/").status, 200);
  const TestAuthority next(folder.path(), "next");
  on_loop([&] {
    next.issue("server", "IP:127.0.0.1");
    side->reload();
  });
  EXPECT_EQ(old->request("GET", "/").status, 200) << "the connection stays";
  EXPECT_THAT(refusal(*client(), Kind::untrusted), HasSubstr("issuer"));
  Client now(endpoint(), trusting(next.file()));
  EXPECT_EQ(now.request("GET", "/").status, 200);
}

TEST_F(TlsServerTest, PlainHttpIsToldSo) {
  serve_tls();
  RawClient raw(port);
  raw.get("/");
  EXPECT_THAT(all_of(raw), AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("this port speaks TLS")));
}

TEST_F(TlsServerTest, WhatIsNoHandshakeEndsTheConnection) {
  serve_tls();
  for (const char* bytes : {"\x16\x03\x01\xff\xff", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "x"}) {
    RawClient raw(port);
    raw.send(bytes);
    raw.finish();
    (void)all_of(raw);
  }
  ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  EXPECT_EQ(client()->request("GET", "/").status, 200);
}

TEST_F(TlsServerTest, AHandshakeThatDoesNotEndDelaysNoOtherAndIsEnded) {
  options.request_timeout = std::chrono::seconds(3);
  serve_tls();
  std::vector<RawClient> silent;
  for (int i = 0; i < 20; ++i) silent.emplace_back(port).send("\x16\x03\x01");
  EXPECT_EQ(client()->request("GET", "/").status, 200);
  ASSERT_TRUE(eventually([&] { return connections() == 0; }));
  for (RawClient& each : silent) EXPECT_EQ(all_of(each), "");
}

TEST_F(TlsServerTest, APlainServerIsNoneOfTls) {
  serve();
  Client asking(endpoint(), trusting(authority.file()));
  EXPECT_THAT(refusal(asking, Kind::untrusted), HasSubstr("TLS failed"));
}

TEST_F(TlsServerTest, AServerThatSaysNothingIsGivenUp) {
  serve_tls();
  FileDescriptor silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(silent.get(), 1), 0);
  ASSERT_EQ(::getsockname(silent.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  ClientOptions impatient = trusting(authority.file());
  impatient.connect_timeout = std::chrono::milliseconds(200);
  Endpoint there = endpoint();
  there.port = ntohs(address.sin_port);
  Client asking(there, impatient);
  EXPECT_THAT(refusal(asking, Kind::unreachable), HasSubstr("does not speak TLS in time"));
}

}  // namespace
}  // namespace lowgear::http
