#include "base/http/message/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lowgear::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Takes a text in pieces as a connection does: untaken bytes come again, with the next piece after them.
class PiecewiseParser : public RequestParser {
 public:
  PiecewiseParser(std::string_view text, std::size_t piece, Limits limits = {}) : RequestParser(limits) {
    std::string waiting;
    while (!text.empty() && !complete() && !refusal()) {
      waiting += text.substr(0, piece);
      text.remove_prefix(std::min(piece, text.size()));
      while (const std::size_t taken = put(waiting)) waiting.erase(0, taken);
    }
  }
};

TEST(HttpRequestParser, TakesARequestHoweverItIsCut) {
  const std::string text = "POST /v1/x%20y?a=1&b=?2 HTTP/1.1\r\nHost: agent\r\nContent-Length: 5\r\n\r\nhello";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    PiecewiseParser parser = PiecewiseParser(text, piece);
    ASSERT_TRUE(parser.complete()) << piece;
    EXPECT_TRUE(parser.keep_alive());
    const Request request = parser.take();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/x%20y");
    EXPECT_EQ(request.query, "a=1&b=?2");
    EXPECT_EQ(request.body, "hello");
    EXPECT_FALSE(request.peer);
  }
}

TEST(HttpRequestParser, LeavesTheNextRequestAlone) {
  const std::string first = "GET /a HTTP/1.1\r\n\r\n";
  RequestParser parser{Limits{}};
  EXPECT_EQ(parser.put(first + "GET /b HTTP/1.1\r\n\r\n"), first.size());
  EXPECT_EQ(parser.put("GET /b HTTP/1.1\r\n\r\n"), 0U);
  EXPECT_EQ(parser.take().path, "/a");
}

TEST(HttpRequestParser, TakesTheAbsoluteForm) {
  const Request request = PiecewiseParser("GET http://agent/v1/restore?x HTTP/1.1\r\n\r\n", 7).take();
  EXPECT_EQ(request.path, "/v1/restore");
  EXPECT_EQ(request.query, "x");
  EXPECT_EQ(PiecewiseParser("GET http://agent HTTP/1.1\r\n\r\n", 100).take().path, "/");
}

TEST(HttpRequestParser, LetsNoHeaderHideAnotherOneOfItsName) {
  const Request request =
      PiecewiseParser("GET / HTTP/1.1\r\nAuthorization: a\r\nX: 1\r\nauthorization: b\r\n\r\n", 9).take();
  EXPECT_EQ(request.header("authorization"), "a, b");
  EXPECT_EQ(request.header("x"), "1");
}

TEST(HttpRequestParser, RefusesABodyInChunks) {
  for (const std::size_t piece : {1U, 5U, 1000U}) {
    const PiecewiseParser parser =
        PiecewiseParser("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}\r\n5\r\n\r\n", piece);
    ASSERT_TRUE(parser.refusal()) << piece;
    EXPECT_EQ(parser.refusal()->status, 411) << piece;
  }
}

TEST(HttpRequestParser, RefusesABodyWhoseEndItWouldNotFind) {
  for (const char* encoding : {"gzip", "identity", "chunked, gzip", "gzip, chunked", "x"}) {
    const PiecewiseParser parser = PiecewiseParser(
        std::string("POST / HTTP/1.1\r\nTransfer-Encoding: ") + encoding + "\r\n\r\nGET / HTTP/1.1\r\n\r\n", 9);
    ASSERT_TRUE(parser.refusal()) << encoding;
  }
}

TEST(HttpRequestParser, KnowsWhetherTheConnectionGoesOn) {
  EXPECT_FALSE(PiecewiseParser("GET / HTTP/1.0\r\n\r\n", 99).keep_alive());
  EXPECT_TRUE(PiecewiseParser("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 99).keep_alive());
  EXPECT_FALSE(PiecewiseParser("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 99).keep_alive());
}

TEST(HttpRequestParser, RefusesWhatIsTooLarge) {
  const Limits limits{.header_bytes = 64, .body_bytes = 4};
  for (const std::size_t piece : {1U, 7U, 1000U}) {
    EXPECT_EQ(PiecewiseParser("GET /" + std::string(100, 'x') + " HTTP/1.1\r\n\r\n", piece, limits).refusal()->status,
              431)
        << piece;
    EXPECT_EQ(PiecewiseParser("POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", piece, limits).refusal()->status,
              413)
        << piece;
  }
  EXPECT_TRUE(PiecewiseParser("POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nhell", 3, limits).complete());
}

TEST(HttpRequestParser, RefusesTwoHeadersOfWhichOneCounts) {
  for (const char* name : {"Host", "authorization", "ORIGIN", "Content-Type", "Expect"}) {
    for (const std::size_t piece : {1U, 7U, 1000U}) {
      const std::string once = std::string(name) + ": 100-continue\r\n";
      const PiecewiseParser parser = PiecewiseParser("GET / HTTP/1.1\r\n" + once + "X-Y: 1\r\n" + once + "\r\n", piece);
      ASSERT_TRUE(parser.refusal()) << name;
      EXPECT_EQ(parser.refusal()->status, 400) << name;
      EXPECT_THAT(parser.refusal()->text(), HasSubstr("more than once")) << name;
      EXPECT_TRUE(PiecewiseParser("GET / HTTP/1.1\r\n" + once + "X-Y: 1\r\n\r\n", piece).complete()) << name;
    }
  }
}

TEST(HttpRequestParser, HeaderNamesAreLowerCase) {
  const Request request = PiecewiseParser("GET / HTTP/1.1\r\nAcCePt: a\r\nX-Y: 1\r\nx-y: 2\r\n\r\n", 5).take();
  EXPECT_EQ(request.header("accept"), "a");
  EXPECT_EQ(request.header("x-y"), "1, 2");
}

TEST(SerializeHead, SaysLengthTypeAndWhatBecomesOfTheConnection) {
  Response response = Response::with_body(405, "application/json", "{}\n");
  response.headers.emplace_back("Allow", "GET, HEAD");
  const std::string text = serialize_head(response, AfterResponse::keep_alive, ResponseLength::known);
  EXPECT_THAT(text, StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
  EXPECT_THAT(text, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex("\r\nDate: [A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} 20[0-9]{2} [0-9:]{8} GMT\r\n"));
  EXPECT_THAT(text, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(text, HasSubstr("Content-Length: 3\r\n"));
  EXPECT_THAT(text, ::testing::EndsWith("Connection: keep-alive\r\n\r\n"));
}

TEST(SerializeHead, AStreamHasNoLength) {
  const std::string text = serialize_head({}, AfterResponse::close, ResponseLength::until_the_end);
  EXPECT_THAT(text, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(text, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(text.find("Content-Length"), std::string::npos);
}

TEST(SerializeHead, AnswersThatNeverHaveABodySayNoLength) {
  for (const int status : {204, 304}) {
    Response response;
    response.status = status;
    const std::string text = serialize_head(response, AfterResponse::keep_alive, ResponseLength::known);
    EXPECT_EQ(text.find("Content-Length"), std::string::npos);
  }
}

using ::testing::HasSubstr;

/// The response in a text that comes in pieces, after which the connection ends.
ReceivedResponse parse(std::string_view text, std::size_t piece, ResponseBody body = ResponseBody::expected,
                       const Limits& limits = {}) {
  const auto receive = [&](std::span<char> room) -> std::optional<std::size_t> {
    const std::size_t bytes = text.copy(room.data(), std::min(piece, room.size()));
    text.remove_prefix(bytes);
    return bytes;
  };
  return read_response(receive, limits, body);
}

TEST(ReadResponse, TakesAResponseHoweverItIsCut) {
  const std::string text = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const ReceivedResponse response = parse(text, piece);
    ASSERT_TRUE(response.reply) << piece << response.problem;
    EXPECT_TRUE(response.keep_alive);
    EXPECT_EQ(response.reply->status, 404);
    EXPECT_EQ(response.reply->headers.at("x-a"), "b");
    EXPECT_EQ(response.reply->body, "hello");
  }
}

TEST(ReadResponse, SkipsInterimResponses) {
  const std::string text =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
      "2\r\n\r\nok";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const ReceivedResponse response = parse(text, piece);
    ASSERT_TRUE(response.reply) << piece << response.problem;
    EXPECT_EQ(response.reply->body, "ok");
    EXPECT_FALSE(response.reply->headers.contains("link"));
  }
}

TEST(ReadResponse, WithoutALengthTheConnectionsEndIsTheResponses) {
  const ReceivedResponse response = parse("HTTP/1.0 200 OK\r\n\r\nall of it", 3);
  ASSERT_TRUE(response.reply);
  EXPECT_FALSE(response.keep_alive);
  EXPECT_EQ(response.reply->body, "all of it");
}

TEST(ReadResponse, OneThatIsCutOffIsNone) {
  for (const char* text : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"}) {
    const ReceivedResponse response = parse(text, 1);
    EXPECT_FALSE(response.reply) << text;
    EXPECT_EQ(response.problem, "") << text;
  }
}

TEST(ReadResponse, OneWithoutALengthIsNoneWhenTheConnectionBreaks) {
  std::string_view text = "HTTP/1.0 200 OK\r\n\r\nall of it";
  const auto receive = [&](std::span<char> room) -> std::optional<std::size_t> {
    if (text.empty()) return std::nullopt;
    return text.copy(room.data(), std::exchange(text, {}).size());
  };
  EXPECT_FALSE(read_response(receive, {}, ResponseBody::expected).reply);
}

TEST(ReadResponse, TheAnswerToHeadHasNoBody) {
  const ReceivedResponse response = parse("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", 7, ResponseBody::none);
  ASSERT_TRUE(response.reply);
  EXPECT_TRUE(response.keep_alive);
  EXPECT_EQ(response.reply->body, "");
}

TEST(ReadResponse, StatusesWithoutABodyEndWithTheirHeaders) {
  for (const char* text : {"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}) {
    const ReceivedResponse response = parse(text, 4);
    EXPECT_TRUE(response.reply) << text;
    EXPECT_TRUE(response.keep_alive) << text;
  }
}

TEST(ReadResponse, TheConnectionIsNotKeptWhenMoreCameOrTheServerSaysSo) {
  EXPECT_FALSE(parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1", 100).keep_alive);
  EXPECT_FALSE(parse("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", 100).keep_alive);
}

TEST(ReadResponse, SaysWhatIsWrong) {
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
      const ReceivedResponse response = parse(text, piece, ResponseBody::expected, limits);
      EXPECT_THAT(response.problem, HasSubstr(problem)) << text << piece;
      EXPECT_FALSE(response.reply) << text << piece;
      EXPECT_FALSE(response.keep_alive);
    }
  }
}

}  // namespace

}  // namespace lowgear::http
