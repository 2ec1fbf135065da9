#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/ipc/termination_signals.h"
#include "control/agent/agent.h"
#include "control/agent/cpu/cpu_meter.h"
#include "control/agent/http/http_routes.h"

namespace lowgear {

struct AgentProcessOptions {
  AgentOptions agent;
  std::filesystem::path http_socket;
  mode_t http_mode = 0660;
  std::optional<gid_t> http_group;
  std::optional<std::uint16_t> http_port;  ///< on the loopback interface, for reading only; empty: none
  ZeusdEvents zeusd_events = ZeusdEvents::device;
};

/// Runs an agent until one of the signals comes, and restores every GPU before it returns, also when it ends by an
/// exception. Tells the service manager when it serves, that it lives, and when it stops. Throws InputError when it
/// cannot start.
///
/// Returns what could not be restored, one line each; the journal keeps that for the next start.
[[nodiscard]] std::vector<std::string> run_agent(const AgentProcessOptions& options, AgentEnvironment environment,
                                                 CpuMeter* cpu_meter, const TerminationSignals& signals);

}  // namespace lowgear
