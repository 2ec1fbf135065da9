#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/http/server/reply.h"
#include "control/server/http/authentication.h"
#include "control/server/job/control_plane.h"

namespace lowgear::server {

/// Answers the requests of docs/server-api.md. No I/O of its own.
class Api {
 public:
  /// All arguments outlive it. `metrics` writes Prometheus' text.
  Api(ControlPlane& control_plane, Authenticator& authenticator, std::function<std::string()> metrics);

  /// Never throws: every error becomes a response with a JSON error.
  void handle(const http::Request& request, std::shared_ptr<http::Reply> reply);

 private:
  ControlPlane* control_plane_;
  Authenticator* authenticator_;
  std::function<std::string()> metrics_;
};

}  // namespace lowgear::server
