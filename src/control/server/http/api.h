#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/http/server/reply.h"
#include "control/server/fleet/control_plane.h"
#include "control/server/http/authentication.h"

namespace lowgear::server {

/// What the API is given. All of it outlives the API.
struct ApiEnvironment {
  ControlPlane* control_plane = nullptr;
  Authenticator* authenticator = nullptr;
  EventHub* events = nullptr;
  Activity* activity = nullptr;          ///< counts the requests
  std::function<std::string()> metrics;  ///< writes Prometheus' text
};

/// Answers the requests of docs/server-api.md. No I/O of its own.
class Api {
 public:
  explicit Api(ApiEnvironment environment) : environment_(std::move(environment)) {}

  /// Never throws: every error becomes a response with a JSON error.
  void handle(const http::Request& request, std::shared_ptr<http::Reply> reply);

 private:
  ApiEnvironment environment_;
};

}  // namespace lowgear::server
