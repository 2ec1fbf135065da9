#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/http/message/message.h"

namespace lowgear::http {

/// Reads one HTTP/1.x request from the bytes of a connection, however they are cut.
class RequestParser {
 public:
  explicit RequestParser(Limits limits);

  /// Consumes bytes of the connection, at most to the end of the headers or of the request, and returns their number.
  /// Call it until it returns 0, and pass the remaining bytes again later, with more after them. Returns 0 after the
  /// request is complete or refused.
  std::size_t put(std::string_view bytes);

  [[nodiscard]] bool complete() const;
  /// Why the request is refused: 400 (also a header such as Host or Authorization that comes twice), 411 (a body in
  /// chunks), 413 (body too large), or 431 (headers too large).
  [[nodiscard]] const std::optional<Response>& refusal() const { return refusal_; }
  /// The client waits for `100 Continue` before it sends the body.
  [[nodiscard]] bool expects_continue() const;
  /// Whether the connection may carry another request.
  [[nodiscard]] bool keep_alive() const;
  /// The complete request, once; the caller sets the peer.
  [[nodiscard]] Request take();

 private:
  Limits limits_;
  boost::beast::http::request_parser<boost::beast::http::string_body> parser_;
  std::optional<Response> refusal_;
};

enum class AfterResponse : unsigned char { keep_alive, close };
enum class ResponseLength : unsigned char {
  known,          ///< the body's length
  until_the_end,  ///< the connection's end ends the response: a stream
};

/// All of a response before its body. A `Cache-Control` of its own takes the place of `no-store`.
[[nodiscard]] std::string serialize_head(const Response& response, AfterResponse after, ResponseLength length);

enum class ResponseBody : unsigned char { expected, none };  ///< none: the answer to HEAD

struct ReceivedResponse {
  std::optional<ReplyText> reply;  ///< empty: there is a problem, or the connection ended before the response did
  std::string problem;             ///< why the bytes are not a response
  bool keep_alive = false;         ///< the connection may carry another request
};

/// Receives bytes into `room` and returns their number: 0 at the end of the connection, nothing when it broke.
using ReceiveBytes = std::function<std::optional<std::size_t>(std::span<char> room)>;

/// Reads one HTTP/1.x response. Skips interim responses (1xx) before it.
[[nodiscard]] ReceivedResponse read_response(const ReceiveBytes& receive, const Limits& limits, ResponseBody body);

}  // namespace lowgear::http
