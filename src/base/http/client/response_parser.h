#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/http/client/client.h"
#include "base/http/message/message.h"

namespace lowgear::http {

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
  /// The connection has ended: so has a response without a length.
  void end();

  [[nodiscard]] bool complete() const;
  /// Why this is no response; empty while all is well.
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
