#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/http/server_fixture.h"

namespace lowgear::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

class HttpServerStreams : public ServerFixture {};

TEST_F(HttpServerStreams, EventsFollowAHeadWithoutLength) {
  serve();
  RawClient client(path);
  client.get("/stream");
  const std::string head = client.read_until("\r\n\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(head, HasSubstr("Stream: yes\r\n"));
  EXPECT_THAT(head, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(head, testing::Not(HasSubstr("Content-Length")));
  EXPECT_EQ(client.read_until("\n\n"), "retry: 2000\n\n");
  push_all("event: a\ndata: 1\n\n");
  push_all("data: 2\n\n");
  EXPECT_EQ(client.read_until("\n\n"), "event: a\ndata: 1\n\n");
  EXPECT_EQ(client.read_until("\n\n"), "data: 2\n\n");
}

TEST_F(HttpServerStreams, ASilentStreamHasHeartbeats) {
  options.stream_heartbeat = 100ms;
  options.stream_retry = 0ms;
  options.idle_timeout = options.request_timeout = 1s;
  serve();
  RawClient client(path);
  client.get("/stream");
  client.read_until("\r\n\r\n");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(client.read_until("\n\n"), ":\n\n");  // longer than any deadline
  EXPECT_EQ(streams(), 1U);
}

TEST_F(HttpServerStreams, ADroppedStreamEndsOnceAllIsSent) {
  options.max_stream_backlog_bytes = 8'000'000;
  serve();
  RawClient client(path);
  client.get("/stream");
  ASSERT_TRUE(eventually([&] { return streams() == 1; }));
  push_all("data: " + std::string(4'000'000, 'x') + "\n\n");
  on_loop([&] { handler.streams.clear(); });
  EXPECT_THAT(client.read_until("x\n\n"), HasSubstr("xxx"));
  EXPECT_TRUE(client.ended());
  client = RawClient();
  EXPECT_TRUE(eventually([&] { return connections() == 0; }));
  EXPECT_EQ(gone(), 0);
}

TEST_F(HttpServerStreams, OneThatIsNotReadIsDroppedAndOthersGoOn) {
  serve();
  RawClient sleeper(path);
  sleeper.get("/stream");
  RawClient reader(path);
  reader.get("/stream");
  ASSERT_TRUE(eventually([&] { return streams() == 2; }));
  const std::string event = "data: " + std::string(50'000, 'x') + "\n\n";
  int events = 0;
  (void)reader.read_until("2000\n\n");
  while (streams() == 2 && events < 1000) {
    push_all(event);
    ASSERT_EQ(reader.read_until("\n\n").size(), event.size());
    ++events;
  }
  EXPECT_EQ(streams(), 1U);
  EXPECT_EQ(gone(), 1);
  push_all("data: on\n\n");
  EXPECT_EQ(reader.read_until("\n\n"), "data: on\n\n");
}

TEST_F(HttpServerStreams, OneThatIsNotReadForTooLongIsDropped) {
  options.request_timeout = 1s;
  options.max_stream_backlog_bytes = 100'000'000;
  serve();
  RawClient sleeper(path);
  sleeper.get("/stream");
  ASSERT_TRUE(eventually([&] { return streams() == 1; }));
  push_all("data: " + std::string(8'000'000, 'x') + "\n\n");
  EXPECT_TRUE(eventually([&] {
    push_all("data: more\n\n");  // does not put it off
    return streams() == 0;
  }));
  EXPECT_EQ(gone(), 1);
}

TEST_F(HttpServerStreams, OneWhoseClientGoesIsForgotten) {
  serve();
  auto client = std::make_unique<RawClient>(path);
  client->get("/stream");
  ASSERT_TRUE(eventually([&] { return streams() == 1; }));
  client.reset();
  EXPECT_TRUE(eventually([&] { return streams() == 0 && connections() == 0; }));
  EXPECT_EQ(gone(), 1);
  EXPECT_TRUE(on_loop([&] { return handler.streams[0]->closed(); }));
}

TEST_F(HttpServerStreams, TheirNumberIsBounded) {
  options.max_streams = 1;
  serve();
  RawClient first(path);
  first.get("/stream");
  EXPECT_THAT(first.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
  RawClient second(path);
  second.get("/stream");
  EXPECT_THAT(second.read_response(), StartsWith("HTTP/1.1 503"));
  EXPECT_EQ(gone(), 0);
}

TEST_F(HttpServerStreams, HeadOfAStreamIsItsHeadAlone) {
  serve();
  RawClient client(path);
  client.send("HEAD /stream HTTP/1.1\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), HasSubstr("text/event-stream"));
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(client.read_until("r"), "");
  EXPECT_EQ(streams(), 0U);
}

TEST_F(HttpServerStreams, WhatTheClientOfAStreamSendsIsReadOnlySoFar) {
  serve();
  RawClient client(path);
  client.get("/stream");
  ASSERT_TRUE(eventually([&] { return streams() == 1; }));
  client.send(std::string(8'000'000, 'x'));  // returns when the connection ends
  EXPECT_TRUE(eventually([&] { return streams() == 0; }));
}

}  // namespace
}  // namespace lowgear::http
