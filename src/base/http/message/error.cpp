#include "base/http/message/error.h"

#include <array>
#include <cstddef>

namespace lowgear::http {
namespace {

constexpr auto kRows = [] {
  using enum ErrorCode;
  return std::to_array<ErrorRow>({
      {bad_request, 400, "bad_request"},
      {invalid_argument, 400, "invalid_argument"},
      {invalid_value, 400, "invalid_value"},
      {not_reported, 400, "not_supported"},
      {no_token, 401, "no_token"},
      {access_denied, 403, "access_denied"},
      {not_allowed, 403, "not_allowed"},
      {not_attested, 403, "not_attested"},
      {not_your_rank, 403, "not_your_rank"},
      {no_such_budget, 404, "no_such_budget"},
      {no_such_job, 404, "no_such_job"},
      {no_such_signal, 404, "no_such_signal"},
      {no_tokens, 404, "no_tokens"},
      {not_found, 404, "not_found"},
      {method_not_allowed, 405, "method_not_allowed"},
      {request_timeout, 408, "timeout"},
      {disagrees, 409, "disagrees"},
      {gpu_busy, 409, "gpu_busy"},
      {job_over, 409, "job_over"},
      {rank_moved, 409, "rank_moved"},
      {rank_taken, 409, "rank_taken"},
      {length_required, 411, "length_required"},
      {body_too_large, 413, "body_too_large"},
      {too_large, 413, "too_large"},
      {not_json, 415, "not_json"},
      {misdirected_request, 421, "misdirected_request"},
      {too_many_requests, 429, "too_many_requests"},
      {headers_too_large, 431, "headers_too_large"},
      {driver_error, 500, "driver_error"},
      {internal, 500, "internal"},
      {no_permission, 500, "no_permission"},
      {not_stored, 500, "not_stored"},
      {not_supported, 501, "not_supported"},
      {busy, 503, "busy"},
      {disk_full, 503, "disk_full"},
      {draining, 503, "draining"},
      {driver_missing, 503, "driver_missing"},
      {full, 503, "full"},
      {gpu_lost, 503, "gpu_lost"},
      {store_failing, 503, "store_failing"},
      {too_many_connections, 503, "too_many_connections"},
      {too_many_streams, 503, "too_many_streams"},
      {unavailable, 503, "unavailable"},
      {driver_timeout, 504, "timeout"},
  });
}();
static_assert(
    [] {
      for (std::size_t i = 0; i < kRows.size(); ++i) {
        if (kRows[i].code != static_cast<ErrorCode>(i)) return false;
      }
      return kRows.back().code == ErrorCode::driver_timeout;
    }(),
    "one row for each code, in their order");

}  // namespace

std::span<const ErrorRow> http_error_rows() { return kRows; }

const ErrorRow& row_of(ErrorCode code) { return kRows.at(static_cast<std::size_t>(code)); }

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Response json_response(const Json& body, int status) {
  return Response::with_body(status, "application/json", to_text(body));
}

Json to_json(const ErrorBody& body) { return {{"error", {{"message", body.message}, {"code", body.code}}}}; }

std::optional<ErrorBody> read_error_body(std::string_view text) {
  try {
    const Json json = parse_json(text, "answer");
    const JsonView error = JsonView(json, "answer").at("error");
    return ErrorBody{.message = error.at("message").text(),
                     .code = error.has("code") ? error.at("code").text() : std::string()};
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string refusal_text(int status, std::string_view body) {
  constexpr std::size_t kMaxCharacters = 4000;  // the agent's kill switch names every GPU
  const std::optional<ErrorBody> error = read_error_body(body);
  if (!error) return fmt::format("no reason is given ({})", status);
  return fmt::format("{} ({})", printable(error->message, kMaxCharacters), status);
}

Response error_response(ErrorCode code, std::string_view message) {
  const ErrorRow& row = row_of(code);
  return json_response(to_json(ErrorBody{.message = std::string(message), .code = std::string(row.name)}), row.status);
}

Response error_response(const HttpError& error) {
  Response response = error_response(error.kind(), error.what());
  response.headers = error.headers();
  return response;
}

ErrorCode error_code_of(const std::exception& error) {
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) return http->kind();
  if (dynamic_cast<const InputError*>(&error) != nullptr) return ErrorCode::invalid_argument;
  return ErrorCode::internal;
}

Response error_response_to(const std::exception& error) {
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) return error_response(*http);
  return error_response(error_code_of(error), error.what());
}

}  // namespace lowgear::http
