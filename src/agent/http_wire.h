#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/http_message.h"

namespace lowgear {

/// Reads one HTTP/1.x request from the bytes of a connection, however they are cut.
class HttpRequestParser {
 public:
  explicit HttpRequestParser(HttpLimits limits);
  ~HttpRequestParser();
  HttpRequestParser(HttpRequestParser&&) noexcept;
  HttpRequestParser& operator=(HttpRequestParser&&) noexcept;

  /// Takes bytes of the connection and returns how many, at most to the end of the headers or of the request. To be
  /// called until it takes nothing; what is left then has to be given again, with more behind it. Takes nothing once
  /// the request is complete or refused.
  std::size_t put(std::string_view bytes);

  [[nodiscard]] bool complete() const;
  /// Why the request is refused: 400, 411 (a body in chunks), 413 (body too large), or 431 (headers too large).
  [[nodiscard]] const std::optional<HttpResponse>& refusal() const;
  /// The client waits for `100 Continue` before it sends the body.
  [[nodiscard]] bool expects_continue() const;
  /// Whether the connection may carry another request.
  [[nodiscard]] bool keep_alive() const;
  /// The complete request; its peer is left to the caller.
  [[nodiscard]] HttpRequest take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

enum class AfterResponse : unsigned char { keep_alive, close };
enum class ResponseBody : unsigned char { included, left_out };  ///< left out in the answer to HEAD

/// The response's bytes. That of a stream has no length: it ends with the connection.
[[nodiscard]] std::string serialize(const HttpResponse& response, AfterResponse after, ResponseBody body);

}  // namespace lowgear
