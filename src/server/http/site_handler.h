#pragma once

#include <memory>
#include <string>

#include "base/http/server/reply.h"
#include "server/http/api.h"

namespace lowgear::server {

/// Dispatches each request: the dashboard's files without authentication, everything else to the API.
class SiteHandler final : public http::Handler {
 public:
  /// `api` outlives it.
  explicit SiteHandler(Api& api) : api_(&api) {}
  void handle(http::Request request, std::shared_ptr<http::Reply> reply) override;

 private:
  Api* api_;
};

}  // namespace lowgear::server
