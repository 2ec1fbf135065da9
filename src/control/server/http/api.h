#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/http/server/reply.h"
#include "control/server/http/authentication.h"
#include "control/server/job/control_plane.h"

namespace lowgear {

/// What the API is given. All of it outlives the API.
struct ApiEnvironment {
  ControlPlane* control_plane = nullptr;
  Authenticator* authenticator = nullptr;
  EventHub* events = nullptr;
  ServerActivity* activity = nullptr;    ///< counts the requests
  std::function<std::string()> metrics;  ///< writes Prometheus' text
};

/// Answers the requests of docs/server-api.md. No I/O of its own.
class Api {
 public:
  explicit Api(ApiEnvironment environment) : environment_(std::move(environment)) {}

  /// Never throws: whatever goes wrong becomes an answer with a JSON error.
  void handle(const HttpRequest& request, std::shared_ptr<HttpReply> reply);

 private:
  ApiEnvironment environment_;
};

}  // namespace lowgear
