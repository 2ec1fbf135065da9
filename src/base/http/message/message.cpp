#include "base/http/message/message.h"

namespace lowgear::http {

std::string_view Request::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

Response Response::with_body(int status, std::string content_type, std::string body) {
  Response response;
  response.status = status;
  response.content_type = std::move(content_type);
  response.body = std::make_shared<const std::string>(std::move(body));
  return response;
}

}  // namespace lowgear::http
