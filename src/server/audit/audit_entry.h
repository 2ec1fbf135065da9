#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace lowgear::server {

/// A request that changed something, or was refused.
struct AuditedRequest {
  std::string caller;   ///< `token trainers`, `user 1000`; empty: not known
  std::string address;  ///< `192.0.2.7`, `unix user 1000`
  std::string_view method;
  std::string_view route;  ///< `/v1/jobs/{}/power_cap`
  std::string object;      ///< what the route changes: a job's id, a budget's name; empty: nothing that there is
  int status = 0;          ///< of HTTP
  std::string result;      ///< `ok`, or the code of the error

  [[nodiscard]] bool is_refused() const { return status >= 400; }
};

/// Something else that concerns who may do what, such as tokens that were read again.
struct AuditedEvent {
  std::string_view event;  ///< `started`, `tokens`, `certificate`, `stopped`, `suppressed`, `lost`
  std::string detail;      ///< one line; never a secret
};

using AuditTime = std::chrono::system_clock::time_point;

/// A line of the audit log (docs/formats.md), with its line feed. Text of clients is cut to 200 characters.
[[nodiscard]] std::string audit_line(const AuditedRequest& request, AuditTime time);
[[nodiscard]] std::string audit_line(const AuditedEvent& event, AuditTime time);

}  // namespace lowgear::server
