#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/http/message/message.h"

namespace lowgear {

/// Ends a request with this status and code.
class HttpError : public Error {
 public:
  using Headers = decltype(HttpResponse::headers);

  HttpError(int status, std::string code, const std::string& message, Headers headers = {})
      : Error(message), status_(status), code_(std::move(code)), headers_(std::move(headers)) {}
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& code() const { return code_; }
  /// That the answer has beside its usual ones, such as `Allow`.
  [[nodiscard]] const Headers& headers() const { return headers_; }

 private:
  int status_;
  std::string code_;
  Headers headers_;
};

/// JSON text in one line, with the line feed; bytes that are no UTF-8 (a job's name is the client's) are replaced.
[[nodiscard]] std::string to_text(const Json& json);

/// An answer with a JSON body.
[[nodiscard]] HttpResponse json_response(const Json& body, int status = 200);

/// An answer `{"error": {"message", "code"}}`.
[[nodiscard]] HttpResponse error_response(int status, std::string_view code, std::string_view message);
[[nodiscard]] HttpResponse error_response(const HttpError& error);

}  // namespace lowgear
