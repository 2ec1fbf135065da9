#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/http/message/message.h"

namespace lowgear::http {

/// Reads one HTTP/1.x request from the bytes of a connection, however they are cut.
class RequestParser {
 public:
  explicit RequestParser(Limits limits);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  /// Consumes bytes of the connection and returns their number, at most to the end of the headers or of the request.
  /// Call it until it consumes nothing, and pass the remaining bytes again later, with more after them. Consumes
  /// nothing after the request is complete or refused.
  std::size_t put(std::string_view bytes);

  [[nodiscard]] bool complete() const;
  /// Why the request is refused: 400 (also a header such as Host or Authorization that comes twice), 411 (a body in
  /// chunks), 413 (body too large), or 431 (headers too large).
  [[nodiscard]] const std::optional<Response>& refusal() const;
  /// The client waits for `100 Continue` before it sends the body.
  [[nodiscard]] bool expects_continue() const;
  /// Whether the connection may carry another request.
  [[nodiscard]] bool keep_alive() const;
  /// The complete request, once; the caller sets the peer.
  [[nodiscard]] Request take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class AfterResponse : unsigned char { keep_alive, close };
enum class ResponseLength : unsigned char {
  known,          ///< that of the body
  until_the_end,  ///< of the connection: a stream
};

/// All of a response before its body. A `Cache-Control` of its own takes the place of `no-store`.
[[nodiscard]] std::string serialize_head(const Response& response, AfterResponse after, ResponseLength length);

enum class ResponseBody : unsigned char { expected, none };  ///< none: the answer to HEAD

/// Reads one HTTP/1.x response from the bytes of a connection, however they are cut. Interim responses (1xx) before it
/// are skipped.
class ResponseParser {
 public:
  ResponseParser(Limits limits, ResponseBody body);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;
  ResponseParser(ResponseParser&&) noexcept;
  ResponseParser& operator=(ResponseParser&&) noexcept;

  /// Takes bytes of the connection.
  void put(std::string_view bytes);
  /// The connection has ended, and with it a response without a length.
  void end();

  [[nodiscard]] bool complete() const;
  /// Why the bytes are not a response; empty until then.
  [[nodiscard]] const std::optional<std::string>& problem() const { return problem_; }
  /// Whether the connection may carry another request.
  [[nodiscard]] bool keep_alive() const;
  /// The complete response, once.
  [[nodiscard]] ReplyText take();

 private:
  struct State;
  void parse();

  Limits limits_;
  ResponseBody body_;
  std::unique_ptr<State> state_;
  std::string waiting_;  ///< not taken yet
  std::optional<std::string> problem_;
};

}  // namespace lowgear::http
