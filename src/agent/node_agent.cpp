#include "agent/node_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/configured_policy.h"
#include "agent/machine_lock.h"
#include "agent/rapl_cpu_meter.h"
#include "agent/restore.h"
#include "agent/unattended_gpus.h"
#include "gpu/nvml_control.h"

namespace lowgear {
namespace {

void require_rights(const GpuSystem& system, AgentMode mode) {
  if (mode == AgentMode::dry_run || ::geteuid() == 0 || system.simulated()) return;
  throw InputError("clocks and limits are for root alone: sudo lowgear agent; --dry-run needs no rights");
}

std::shared_ptr<UnattendedGpus> attend_to_the_rest(const AgentConfig& config, const GpuSystem& system,
                                                   std::shared_ptr<Journal> journal, const AgentMessages& messages) {
  std::vector<UnattendedGpu> gpus = find_unattended_gpus(config, system, *journal);
  for (const UnattendedGpu& gpu : gpus) {
    if (!gpu.left_changed) messages.warn(gpu.problem);  // of the others `recover` has told
  }
  UnattendedGpusOptions options;
  options.open = open_nvml_control;
  options.note = messages.note;
  return std::make_shared<UnattendedGpus>(std::move(gpus), std::move(journal), std::move(options));
}

/// Messages come from the threads of the GPUs too.
AgentMessages one_at_a_time(const AgentMessages& messages) {
  auto mutex = std::make_shared<std::mutex>();
  const auto guarded = [mutex](const std::function<void(std::string_view)>& speak) {
    return [mutex, speak](std::string_view text) {
      const std::lock_guard lock(*mutex);
      speak(text);
    };
  };
  return {.note = guarded(messages.note), .warn = guarded(messages.warn)};
}

}  // namespace

std::vector<std::string> serve_node(const AgentConfig& config, AgentMode mode, const AgentMessages& unguarded) {
  const AgentMessages messages = one_at_a_time(unguarded);
  const std::shared_ptr<GpuControlSystem> system = open_nvml_control();
  require_rights(*system, mode);
  for (const std::string& problem : system->problems()) messages.warn(problem);
  const bool dry_run = mode == AgentMode::dry_run;
  const std::filesystem::path control_socket = std::filesystem::absolute(config.process.http_socket);
  std::optional<LockFile> machine;
  if (!dry_run) machine.emplace(hold_machine(machine_lock_path(*system), control_socket));
  auto journal =
      std::make_shared<Journal>(dry_run ? forgetful_journal() : open_journal_folder(config.journal, control_socket));
  if (!journal->damage().empty()) messages.warn(journal->damage());
  for (const std::string& failure : recover(*journal, *system, config, messages.note)) {
    messages.warn(failure);
  }
  if (const std::string problem = journal->unwritable(); !problem.empty()) throw InputError(problem);

  ClockGovernorOptions governor;
  governor.dry_run = dry_run;
  governor.note = messages.note;
  AgentEnvironment environment;
  environment.gpus = system;
  environment.policy = std::make_shared<ConfiguredPolicy>(config, *system, journal, std::move(governor));
  environment.unattended = attend_to_the_rest(config, *system, journal, messages);
  environment.note = messages.note;
  environment.warn = messages.warn;
  RaplCpuMeter cpu_meter;
  messages.note(fmt::format("{} of {} {}GPUs may be changed{}", environment.policy->controlled_gpus().size(),
                            system->gpus().size(), system->simulated() ? "simulated " : "",
                            dry_run ? "; this is a dry run, which changes none" : ""));
  return run_agent(config.process, std::move(environment), &cpu_meter);
}

std::vector<std::string> restore_node(const AgentConfig& config, const AgentMessages& messages) {
  (void)read_journal_folder(config.journal);  // a folder that was mistyped is not made
  Journal journal(open_journal_folder(config.journal));
  std::vector<std::string> failures;
  if (journal.changed().empty() && !journal.damaged()) {
    messages.note("the journal names no GPU that was left changed; nothing was changed");
  } else {
    const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
    require_rights(*system, AgentMode::write);
    const LockFile machine = hold_machine(machine_lock_path(*system), {});
    failures = recover(journal, *system, config, messages.note);
  }
  for (const std::string& problem : {journal.damage(), journal.unwritable()}) {
    if (!problem.empty()) failures.push_back(problem);
  }
  return failures;
}

}  // namespace lowgear
