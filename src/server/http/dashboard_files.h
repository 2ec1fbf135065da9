#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/http/server/reply.h"
#include "server/http/api.h"

namespace lowgear::server {

/// A file of the dashboard, as it is served.
struct DashboardFile {
  std::string_view path;  ///< of the request: `/`, `/assets/main.js`
  std::string_view content_type;
  std::string_view content;
  std::string_view etag;  ///< with its quotes, as in the header `ETag`; the same for the same content
};

/// Every file of the dashboard, ordered by path. They need no authentication: they contain no data.
[[nodiscard]] std::span<const DashboardFile> dashboard_files();

/// Content-Security-Policy that every one of them is to be served with: scripts, styles and requests of this server
/// alone, nothing inline, no frame around it.
inline constexpr std::string_view kDashboardPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Dispatches each request: the dashboard's files without authentication, everything else to the API.
class SiteHandler final : public http::Handler {
 public:
  /// `api` outlives it.
  explicit SiteHandler(Api& api) : api_(&api) {}
  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override;

 private:
  Api* api_;
};

/// A file of `dashboard/`, embedded when the module was built. Throws std::out_of_range when there is none of that
/// name.
[[nodiscard]] std::string_view dashboard_source(std::string_view name);

/// An embedded document of the API (`openapi.json`). Throws std::out_of_range where there is no file of that name.
[[nodiscard]] std::string_view api_document(std::string_view name);

}  // namespace lowgear::server
