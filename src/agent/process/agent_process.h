#pragma once

#include <string>
#include <vector>

#include "agent/config/agent_options.h"
#include "agent/cpu/cpu_meter.h"
#include "agent/process/agent.h"
#include "base/ipc/termination_signals.h"

namespace lowgear::agent {

/// Reads all files that serving reads, but the journal, and writes nothing. Throws InputError when one cannot be used.
void check_agent(const ProcessOptions& options);

/// Runs an agent until one of the signals comes, and restores every GPU before it returns, also when it ends by an
/// exception. Tells the service manager when it serves, that it lives, and when it stops. Throws InputError when it
/// cannot start.
///
/// Returns what could not be restored, one line each; the journal keeps that for the next start.
[[nodiscard]] std::vector<std::string> run_agent(const ProcessOptions& options, AgentEnvironment environment,
                                                 CpuMeter* cpu_meter, const ipc::TerminationSignals& signals);

}  // namespace lowgear::agent
