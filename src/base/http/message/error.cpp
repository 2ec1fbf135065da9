#include "base/http/message/error.h"

namespace lowgear {

std::string to_text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

HttpResponse json_response(const Json& body, int status) {
  return HttpResponse::with_body(status, "application/json", to_text(body));
}

HttpResponse error_response(int status, std::string_view code, std::string_view message) {
  Json body;
  body["error"]["message"] = message;
  body["error"]["code"] = code;
  return json_response(body, status);
}

HttpResponse error_response(const HttpError& error) {
  HttpResponse response = error_response(error.status(), error.code(), error.what());
  response.headers = error.headers();
  return response;
}

}  // namespace lowgear
