#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/http/message/message.h"

namespace lowgear::http {

/// Why a request failed. Each code has one HTTP status and one name on the wire; docs/errors.md says when it is sent.
/// Ordered by status, then by name.
enum class ErrorCode : unsigned char {
  bad_request,
  invalid_argument,
  invalid_value,
  not_reported,  ///< `not_supported` as zeusd answers it: a reading that a GPU does not have
  no_token,
  access_denied,
  not_allowed,
  not_attested,
  not_your_rank,
  no_such_budget,
  no_such_job,
  no_such_signal,
  no_tokens,
  not_found,
  method_not_allowed,
  request_timeout,
  disagrees,
  gpu_busy,
  job_over,
  rank_moved,
  rank_taken,
  length_required,
  body_too_large,
  too_large,
  not_json,
  misdirected_request,
  too_many_requests,
  headers_too_large,
  driver_error,
  internal,
  no_permission,
  not_stored,
  not_supported,
  busy,
  disk_full,
  draining,
  driver_missing,
  full,
  gpu_lost,
  store_failing,
  too_many_connections,
  too_many_streams,
  unavailable,
  driver_timeout,
};

/// A row of the table of codes.
struct ErrorRow {
  ErrorCode code;
  int status;
  std::string_view name;  ///< on the wire
};
/// Every code once, in the order of the enumeration.
[[nodiscard]] std::span<const ErrorRow> http_error_rows();
[[nodiscard]] const ErrorRow& row_of(ErrorCode code);

/// Ends a request with this code.
class HttpError : public Error {
 public:
  using Headers = decltype(Response::headers);

  HttpError(ErrorCode kind, const std::string& message, Headers headers = {})
      : Error(message), kind_(kind), headers_(std::move(headers)) {}
  [[nodiscard]] ErrorCode kind() const { return kind_; }
  [[nodiscard]] int status() const { return row_of(kind_).status; }
  /// The name on the wire.
  [[nodiscard]] std::string_view code() const { return row_of(kind_).name; }
  /// Headers of the answer in addition to its usual ones, such as `Allow`.
  [[nodiscard]] const Headers& headers() const { return headers_; }

 private:
  ErrorCode kind_;
  Headers headers_;
};

/// JSON text in one line, with the line feed; invalid UTF-8 (job names come from clients) is replaced.
[[nodiscard]] std::string to_text(const Json& json);

/// An answer with a JSON body.
[[nodiscard]] Response json_response(const Json& body, int status = 200);

/// The body of an error: `{"error": {"message", "code"}}`.
struct ErrorBody {
  std::string message;
  std::string code;
  friend bool operator==(const ErrorBody&, const ErrorBody&) = default;
};
[[nodiscard]] Json to_json(const ErrorBody& body);
/// Empty when the text is another body, for example of a proxy. The code may be missing.
[[nodiscard]] std::optional<ErrorBody> read_error_body(std::string_view text);
/// The error of a response for display: `no such job (404)`; with another body only the status.
[[nodiscard]] std::string refusal_text(int status, std::string_view body);

[[nodiscard]] Response error_response(ErrorCode code, std::string_view message);
[[nodiscard]] Response error_response(const HttpError& error);
/// The code of an exception: `invalid_argument` of an InputError, `internal` of an unknown one.
[[nodiscard]] ErrorCode error_code_of(const std::exception& error);
/// The answer to an exception.
[[nodiscard]] Response error_response_to(const std::exception& error);

}  // namespace lowgear::http
