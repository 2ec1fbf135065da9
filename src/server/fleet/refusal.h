#pragma once

#include <string>

#include "base/core/error.h"

namespace lowgear::server {

/// Why the control plane refuses a request; http/api.cpp has the HTTP error of each.
enum class Refusal : unsigned char {
  no_such_job,
  no_such_budget,
  no_such_signal,
  no_such_node,
  job_is_over,
  disagrees,    ///< with the specification registered under the same name
  not_allowed,  ///< beyond a limit of the server's configuration for this caller
  too_large,    ///< the job, for any time
  full,         ///< for now
  disk_full,
  shuts_down,
};

/// A request that the control plane refuses. The message says what to do.
class Refused : public Error {
 public:
  Refused(Refusal reason, const std::string& message) : Error(message), reason_(reason) {}
  [[nodiscard]] Refusal reason() const { return reason_; }

 private:
  Refusal reason_;
};

}  // namespace lowgear::server
