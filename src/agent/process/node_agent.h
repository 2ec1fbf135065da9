#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config/config.h"
#include "agent/cpu/cpu_meter.h"
#include "agent/process/agent.h"
#include "base/ipc/termination_signals.h"
#include "hardware/gpu/gpu.h"

namespace lowgear::agent {

enum class Mode : unsigned char {
  write,
  dry_run,  ///< reports each write that it would make, and writes nothing; needs no rights
};

/// Where the agent speaks; both are called from several threads.
struct Messages {
  std::function<void(std::string_view)> note;
  std::function<void(std::string_view)> warn;
};

/// Runs the agent of this machine until one of the signals comes: takes the journal, restores what the last agent left
/// changed, serves, and restores everything. Returns what could not be restored, one line each. Throws InputError when
/// it cannot start, MachineHeld or JournalHeld when another agent runs, and GpuError without a driver.
///
/// A signal that comes while it starts lets it finish restoring, and then ends it; when the driver holds that up,
/// within a second, with the journal as it is.
[[nodiscard]] std::vector<std::string> serve_node(const Config& config, Mode mode, const Messages& unguarded,
                                                  const ipc::TerminationSignals& signals);

/// Restores the GPUs of the journal without serving, and reports each step. Returns the GPUs that could not be
/// restored, and a journal that has to be repaired because it was damaged or cannot be written.
/// Throws as `serve_node`, and InputError when there is no journal.
[[nodiscard]] std::vector<std::string> restore_node(const Config& config, const Messages& messages);

/// Reads all files that serving reads, but the journal, and writes nothing. Throws InputError when one cannot be used.
void check_agent(const ProcessOptions& options);

/// Runs an agent until one of the signals comes, and restores every GPU before it returns, also when it ends by an
/// exception. Tells the service manager when it serves, that it lives, and when it stops. Throws InputError when it
/// cannot start.
///
/// Returns what could not be restored, one line each; the journal keeps that for the next start.
[[nodiscard]] std::vector<std::string> run_agent(const ProcessOptions& options, AgentEnvironment environment,
                                                 CpuMeter* cpu_meter, const ipc::TerminationSignals& signals);

/// Describes an agent with this configuration: its GPUs, users, limits and addresses. A few lines for each GPU. Only
/// reads.
[[nodiscard]] std::string preview_of_agent(const Config& config, const gpu::GpuSystem& system);

}  // namespace lowgear::agent
