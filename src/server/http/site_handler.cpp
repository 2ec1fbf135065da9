#include "server/http/site_handler.h"

#include <algorithm>
#include <utility>

#include "server/http/dashboard_files.h"

namespace lowgear::server {
namespace {

http::Response file_response(const DashboardFile& file, const http::Request& request) {
  http::Response response;
  if (request.header("if-none-match") == file.etag) {
    response.status = 304;
    response.content_type.clear();
  } else {
    response = http::Response::with_body(200, std::string(file.content_type), std::string(file.content));
  }
  response.headers = {{"ETag", std::string(file.etag)},
                      {"Cache-Control", "no-cache"},
                      {"Content-Security-Policy", std::string(kDashboardPolicy)},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  return response;
}

}  // namespace

void SiteHandler::handle(http::Request request, std::shared_ptr<http::Reply> reply) {
  if (request.method == "GET" || request.method == "HEAD") {
    const auto files = dashboard_files();
    const auto file = std::ranges::find(files, request.path, &DashboardFile::path);
    if (file != files.end()) return reply->send(file_response(*file, request));
  }
  api_->handle(request, std::move(reply));
}

}  // namespace lowgear::server
