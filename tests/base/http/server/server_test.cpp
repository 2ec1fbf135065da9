#include "base/http/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "base/core/error.h"
#include "base/http/server_fixture.h"

namespace lowgear::http {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

class HttpServerTest : public ServerFixture {};

TEST_F(HttpServerTest, AConnectionCarriesManyRequests) {
  serve();
  RawClient client(path);
  for (int i = 0; i < 3; ++i) {
    client.get("/a?n=" + std::to_string(i));
    const std::string response = client.read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, HasSubstr("Connection: keep-alive\r\n"));
    EXPECT_THAT(response, EndsWith(fmt::format("GET /a n={} [] from unix", i)));
  }
}

TEST_F(HttpServerTest, RequestsMayComeAllAtOnceOrByteByByte) {
  serve();
  const std::string request = "POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 4\r\n\r\nbody";
  RawClient at_once(path);
  at_once.send(request + request + request);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(at_once.read_response(), HasSubstr("POST /a  [body]"));
  RawClient slowly(port);
  for (const char byte : request) slowly.send({&byte, 1});
  EXPECT_THAT(slowly.read_response(), HasSubstr("POST /a  [body] from 127.0.0.1"));
}

TEST_F(HttpServerTest, AnswersKeepTheOrderOfRequestsThatCameTogether) {
  serve();
  RawClient client(path);
  std::string requests = "GET /wait HTTP/1.1\r\n\r\n";
  constexpr int kRequests = 2000;
  for (int i = 0; i < kRequests; ++i) requests += fmt::format("GET /{} HTTP/1.1\r\n\r\n", i);
  std::thread sender([&] { client.send(requests); });
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  answer_all(Response::with_body(200, "text/plain", "first"));
  EXPECT_THAT(client.read_response(), EndsWith("first"));
  for (int i = 0; i < kRequests; ++i)
    ASSERT_THAT(client.read_response(), EndsWith(fmt::format("GET /{}  [] from unix", i)));
  sender.join();
}

TEST_F(HttpServerTest, TheHandlerSeesHeadersAndTheAttestedPeer) {
  serve();
  (void)ask("GET / HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer x\r\nX-A: 1\r\nx-a: 2\r\n\r\n");
  const Request request = on_loop([&] { return handler.last; });
  EXPECT_EQ(request.header("authorization"), "Bearer x");
  EXPECT_EQ(request.header("x-a"), "1, 2");
  EXPECT_EQ(request.header("x-b"), "");
  ASSERT_TRUE(request.peer);
  EXPECT_EQ(request.peer->uid, ::geteuid());
  EXPECT_EQ(request.peer->pid, ::getpid());
  RawClient tcp(port);
  tcp.get("/");
  (void)tcp.read_response();
  EXPECT_FALSE(on_loop([&] { return handler.last.peer; }));
}

TEST_F(HttpServerTest, WhatIsNoHttpIsRefused) {
  serve();
  for (const char* bytes : {"\r\n\r\nx\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\nHost: x\n\n",
                            "\x16\x03\x01\x02\x01\x01\x01\x01\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
                            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    RawClient client(path);
    client.send(bytes);
    const std::string response = client.read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 4")) << bytes;
    EXPECT_THAT(response, HasSubstr("\"code\":")) << bytes;
    EXPECT_TRUE(client.ended()) << bytes;
  }
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpServerTest, ARefusalAfterHeadHasItsBody) {
  serve();
  RawClient client(path);
  client.send("HEAD / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  client.send("what is this?\r\n\r\n");
  EXPECT_THAT(client.read_response(), HasSubstr("\"code\":\"bad_request\""));
}

TEST_F(HttpServerTest, ABodyMayWaitForContinue) {
  serve();
  RawClient client(path);
  client.send("POST / HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("body");
  EXPECT_THAT(client.read_response(), HasSubstr("[body]"));
}

TEST_F(HttpServerTest, HeadHasNoBodyAndHttp10NoSecondRequest) {
  serve();
  RawClient head(path);
  head.send("HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head.read_until("\r\n\r\n"), HasSubstr("Content-Length: 20\r\n"));
  EXPECT_EQ(head.read_until("]"), "");
  RawClient old(path);
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.read_response(), HasSubstr("Connection: close"));
  EXPECT_TRUE(old.ended());
}

TEST_F(HttpServerTest, AnAnswerMayComeLateAndHoldsUpNoOther) {
  options.request_timeout = 1s;
  options.idle_timeout = 1s;
  serve();
  RawClient client(path);
  client.get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  std::this_thread::sleep_for(2s);  // longer than any deadline of a connection
  EXPECT_FALSE(on_loop([&] { return handler.waiting[0]->closed(); }));
  const auto kept = on_loop([&] { return handler.waiting[0]; });
  answer_all(Response::with_body(200, "text/plain", "late"));
  EXPECT_THAT(client.read_response(), EndsWith("late"));
  on_loop([&] {
    EXPECT_TRUE(kept->closed());
    kept->send(Response::with_body(200, "text/plain", "again"));
    kept->on_close([&] { ++handler.gone; });
  });
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(client.read_until("again"), "");
  EXPECT_EQ(gone(), 0);
}

TEST_F(HttpServerTest, ALateAnswerIsNotTakenForThatToTheNextRequest) {
  serve();
  RawClient client(path);
  client.get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  auto first = on_loop([&] { return handler.waiting[0]; });
  answer_all(Response::with_body(200, "text/plain", "one"));
  EXPECT_THAT(client.read_response(), EndsWith("one"));
  client.get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  on_loop([&] {
    first->send(Response::with_body(200, "text/plain", "wrong"));
    first.reset();
  });
  answer_all(Response::with_body(200, "text/plain", "two"));
  EXPECT_THAT(client.read_response(), EndsWith("two"));
}

TEST_F(HttpServerTest, ManyWaitingClientsGetOneTextThatIsNotCopied) {
  serve();
  std::vector<std::unique_ptr<RawClient>> clients;
  constexpr std::size_t kClients = 200;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(port));
    clients.back()->get("/wait");
  }
  ASSERT_TRUE(eventually([&] { return waiting() == kClients; }));
  Response response = Response::with_body(200, "text/plain", std::string(100'000, 'x'));
  answer_all(response);
  for (const auto& client : clients) EXPECT_THAT(client->read_response(), EndsWith("xxx"));
  ASSERT_TRUE(eventually([&] { return on_loop([&] { return response.body.use_count() == 1; }); }));
}

TEST_F(HttpServerTest, AClientThatGoesWhileItWaitsIsNoticed) {
  serve();
  auto client = std::make_unique<RawClient>(port);
  client->get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  client.reset();
  ASSERT_TRUE(eventually([&] { return gone() == 1; }));
  EXPECT_EQ(connections(), 0U);
  on_loop([&] {
    EXPECT_TRUE(handler.waiting[0]->closed());
    handler.waiting[0]->on_close([&] { ++handler.gone; });  // gone already
    EXPECT_EQ(handler.gone, 2);
    EXPECT_EQ(handler.waiting[0]->stream({}), nullptr);
  });
  answer_all({});
}

TEST_F(HttpServerTest, ARequestThatIsDroppedOrThrownAtIsAnswered500) {
  serve();
  RawClient client(path);
  client.get("/drop");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 500"));
  client.get("/throw");
  EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 500"));
  EXPECT_TRUE(eventually([&] { return warnings == 1; }));
}

TEST_F(HttpServerTest, AClientMayEndItsSideBeforeItsAnswerHasCome) {
  handler.large = Response::with_body(200, "text/plain", std::string(4'000'000, 'x'));
  serve();
  RawClient client(path);
  client.get("/large");
  client.finish();
  const std::string response = client.read_response();
  EXPECT_EQ(response.size() - response.find("\r\n\r\n") - 4, 4'000'000U);
}

TEST_F(HttpServerTest, AnAnswerThatIsNotReadIsGivenUp) {
  options.request_timeout = 30ms;
  handler.large = Response::with_body(200, "text/plain", std::string(16'000'000, 'x'));
  serve();
  RawClient client(path);
  client.get("/large");
  EXPECT_TRUE(eventually([&] { return handler.large.body.use_count() == 1 && connections() == 0; }));
}

TEST_F(HttpServerTest, HeadersOfTheHandlerCannotBeEnded) {
  handler.large.headers.emplace_back("Location", "/a\r\nSet-Cookie: evil");
  handler.large.headers.emplace_back("cache-control", "max-age=60");
  serve();
  const std::string response = ask("GET /large HTTP/1.1\r\n\r\n");
  EXPECT_THAT(response, HasSubstr("Location: /a  Set-Cookie: evil\r\n"));
  EXPECT_THAT(response, HasSubstr("cache-control: max-age=60\r\n"));
  EXPECT_THAT(response, testing::Not(HasSubstr("no-store")));
}

TEST_F(HttpServerTest, TheSocketHasItsModeAndIsRemovedAtTheEnd) {
  serve();
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  RawClient client(path);
  client.get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  on_loop([&] { server->stop(); });
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(gone(), 1);
  EXPECT_EQ(connections(), 0U);
  on_loop([&] { server->stop(); });
}

TEST_F(HttpServerTest, RepliesMayOutliveTheServer) {
  serve();
  RawClient client(path);
  client.get("/wait");
  RawClient reader(path);
  reader.get("/stream");
  ASSERT_TRUE(eventually([&] { return waiting() == 1 && streams() == 1; }));
  on_loop([&] {
    server.reset();
    EXPECT_TRUE(handler.waiting[0]->closed());
    EXPECT_TRUE(handler.streams[0]->closed());
    handler.waiting[0]->send({});
    handler.streams[0]->push(std::make_shared<const std::string>("data: 1\n\n"));
    handler.waiting.clear();
    handler.streams.clear();
  });
  EXPECT_EQ(gone(), 2);
}

TEST_F(HttpServerTest, WhereItCannotListenIsAnInputError) {
  serve();
  EXPECT_THROW(on_loop([&] { return server->listen_tcp("127.0.0.1", port); }), InputError);
  EXPECT_THROW(on_loop([&] { return server->listen_tcp("192.0.2.1", 0); }), InputError);
  EXPECT_THROW(on_loop([&] { return server->listen_tcp("localhost", 0); }), InputError);
  EXPECT_THROW(on_loop([&] { server->listen_unix(path, 0600); }), InputError);
}

TEST_F(HttpServerTest, DrainingLetsRequestsFinishAndEndsAllElse) {
  serve();
  RawClient idle(path);
  idle.get("/");
  (void)idle.read_response();
  RawClient waits(path);
  waits.get("/wait");
  RawClient halfway(path);
  halfway.send("POST /half HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(halfway.read_until("\r\n\r\n"), HasSubstr("Continue"));
  RawClient reader(path);
  reader.get("/stream");
  ASSERT_TRUE(eventually([&] { return waiting() == 1 && streams() == 1 && connections() == 4; }));
  push_all("data: last\n\n");
  std::promise<void> drained;
  on_loop([&] { server->drain(kPatience, [&] { drained.set_value(); }); });
  EXPECT_TRUE(idle.ended());
  EXPECT_THAT(reader.read_until("last\n\n"), HasSubstr("data: last"));
  EXPECT_TRUE(reader.ended());
  EXPECT_FALSE(RawClient(port).connected());
  halfway.send("ok");
  EXPECT_THAT(halfway.read_response(), HasSubstr("Connection: close"));
  EXPECT_TRUE(halfway.ended());
  answer_all(Response::with_body(200, "text/plain", "finished"));
  EXPECT_THAT(waits.read_response(), EndsWith("finished"));
  waits = RawClient();
  halfway = RawClient();
  reader = RawClient();
  EXPECT_EQ(drained.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(connections(), 0U);
}

TEST_F(HttpServerTest, DrainingEndsAfterItsPatience) {
  serve();
  RawClient waits(path);
  waits.get("/wait");
  ASSERT_TRUE(eventually([&] { return waiting() == 1; }));
  std::promise<void> drained;
  on_loop([&] { server->drain(10ms, [&] { drained.set_value(); }); });
  EXPECT_EQ(drained.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(waits.ended());
  EXPECT_EQ(gone(), 1);
}

TEST_F(HttpServerTest, DrainingAnIdleServerIsDoneSoon) {
  serve();
  std::promise<void> drained;
  on_loop([&] { server->drain(kPatience, [&] { drained.set_value(); }); });
  EXPECT_EQ(drained.get_future().wait_for(kPatience), std::future_status::ready);
}

}  // namespace
}  // namespace lowgear::http
