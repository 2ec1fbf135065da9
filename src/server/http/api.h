#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/http/server/reply.h"
#include "server/fleet/control_plane.h"
#include "server/http/audit_log.h"
#include "server/http/authentication.h"
#include "server/http/event_hub.h"

namespace lowgear::server {

/// The services that the API uses. They outlive it.
struct ApiEnvironment {
  ControlPlane* control_plane = nullptr;
  Authenticator* authenticator = nullptr;
  EventHub* events = nullptr;
  Activity* activity = nullptr;          ///< counts the requests
  AuditLog* audit = nullptr;             ///< null: no audit log is kept
  std::string unix_socket = {};          ///< path of the server's socket
  std::function<std::string()> metrics;  ///< writes Prometheus' text
};

struct ApiRoute;
class AuditedReply;

/// Answers the requests of docs/server-api.md. No I/O of its own.
class Api {
 public:
  explicit Api(ApiEnvironment environment) : environment_(std::move(environment)) {}

  /// Never throws: every error becomes a response with a JSON error.
  void handle(const http::Request& request, std::shared_ptr<http::Reply> reply);

 private:
  /// Null when no audit log is kept.
  [[nodiscard]] std::shared_ptr<AuditedReply> audited_reply(std::shared_ptr<http::Reply> reply,
                                                            const http::Request& request, const ApiRoute& route,
                                                            const std::vector<std::string>& captures) const;

  ApiEnvironment environment_;
};

}  // namespace lowgear::server
