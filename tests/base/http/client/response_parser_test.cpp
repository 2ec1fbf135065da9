#include "base/http/client/response_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear::http {
namespace {

using ::testing::HasSubstr;

ResponseParser parse(std::string_view text, std::size_t piece, ResponseBody body = ResponseBody::expected,
                     Limits limits = {}) {
  ResponseParser parser(limits, body);
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) parser.put(text.substr(0, piece));
  return parser;
}

TEST(HttpResponseParserTest, TakesAResponseHoweverItIsCut) {
  const std::string text = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    ResponseParser parser = parse(text, piece);
    ASSERT_TRUE(parser.complete()) << piece;
    EXPECT_TRUE(parser.keep_alive());
    const ReplyText reply = parser.take();
    EXPECT_EQ(reply.status, 404);
    EXPECT_EQ(reply.headers.at("x-a"), "b");
    EXPECT_EQ(reply.body, "hello");
  }
}

TEST(HttpResponseParserTest, SkipsInterimResponses) {
  const std::string text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
      "2\r\n\r\nok";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    ResponseParser parser = parse(text, piece);
    ASSERT_TRUE(parser.complete()) << piece << parser.problem().value_or("");
    const ReplyText reply = parser.take();
    EXPECT_EQ(reply.body, "ok");
    EXPECT_FALSE(reply.headers.contains("link"));
  }
}

TEST(HttpResponseParserTest, WithoutALengthTheConnectionsEndIsTheResponses) {
  ResponseParser parser = parse("HTTP/1.0 200 OK\r\n\r\nall of it", 3);
  EXPECT_FALSE(parser.complete());
  parser.end();
  ASSERT_TRUE(parser.complete());
  EXPECT_FALSE(parser.keep_alive());
  EXPECT_EQ(parser.take().body, "all of it");
}

TEST(HttpResponseParserTest, OneThatIsCutOffIsNotComplete) {
  for (const char* text : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"}) {
    ResponseParser parser = parse(text, 1);
    parser.end();
    EXPECT_FALSE(parser.complete()) << text;
  }
}

TEST(HttpResponseParserTest, TheAnswerToHeadHasNoBody) {
  ResponseParser parser = parse("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", 7, ResponseBody::none);
  ASSERT_TRUE(parser.complete());
  EXPECT_TRUE(parser.keep_alive());
  EXPECT_EQ(parser.take().body, "");
}

TEST(HttpResponseParserTest, StatusesWithoutABodyEndWithTheirHeaders) {
  for (const char* text : {"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}) {
    const ResponseParser parser = parse(text, 4);
    EXPECT_TRUE(parser.complete()) << text;
    EXPECT_TRUE(parser.keep_alive()) << text;
  }
}

TEST(HttpResponseParserTest, TheConnectionIsNotKeptWhenMoreCameOrTheServerSaysSo) {
  EXPECT_FALSE(parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1", 100).keep_alive());
  EXPECT_FALSE(parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 100).keep_alive());
}

TEST(HttpResponseParserTest, SaysWhatIsWrong) {
  const Limits limits{.header_bytes = 64, .body_bytes = 4};
  const std::pair<std::string, const char*> cases[] = {
      {"SSH-2.0-OpenSSH\r\n\r\n", "not HTTP/1.1"},
      {"HTTP/2.0 200 OK\r\n\r\n", "not HTTP/1.1"},
      {"HTTP/1.1 20 OK\r\n\r\n", "not HTTP/1.1"},
      {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "not HTTP/1.1"},
      {"HTTP/1.1 200 OK\r\nX: " + std::string(100, 'x') + "\r\n\r\n", "more than 64 bytes of headers"},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "larger than 4 bytes"},
      {"HTTP/1.1 200 OK\r\n\r\nhello", "larger than 4 bytes"},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "chunked"},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol"},
  };
  for (const auto& [text, problem] : cases) {
    for (const std::size_t piece : {1U, 7U, 1000U}) {
      const ResponseParser parser = parse(text, piece, ResponseBody::expected, limits);
      ASSERT_TRUE(parser.problem()) << text << piece;
      EXPECT_THAT(*parser.problem(), HasSubstr(problem)) << piece;
      EXPECT_FALSE(parser.complete());
      EXPECT_FALSE(parser.keep_alive());
    }
  }
}

TEST(HttpResponseParserTest, InterimResponsesWithoutEndAreBoundedByTheCaller) {
  ResponseParser parser({}, ResponseBody::expected);
  for (int i = 0; i < 1000; ++i) parser.put("HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_FALSE(parser.complete());
  EXPECT_FALSE(parser.problem());
}

}  // namespace
}  // namespace lowgear::http
