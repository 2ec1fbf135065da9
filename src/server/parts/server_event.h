#pragma once

#include <string>
#include <string_view>

namespace lowgear::server {

/// Events of jobs, budgets and agents, which streams of events have under their names.
enum class ServerEvent : unsigned char {
  decision,         ///< about a job; its kind says more
  job_registered,   ///< its first rank has come
  job_ended,        ///< by its ranks or by request
  job_lost,         ///< its ranks are gone and have not ended it
  plans_refused,    ///< a rank follows no plans from now on
  plans_followed,   ///< it follows them again
  budget_exceeded,  ///< no split keeps it
  budget_kept,      ///< again
  agent_silent,     ///< an agent with a share of power is not heard of
  agent_heard,      ///< again
  agent_forgotten,  ///< it was silent for long, and its node counts no more
};

/// `job_lost`
[[nodiscard]] std::string_view name(ServerEvent event);

/// An event of the job that it belongs to.
struct JobEvent {
  ServerEvent event = ServerEvent::job_ended;
  std::string reason;
  double time_s = 0;  ///< since 1970
};

}  // namespace lowgear::server
