#include "agent/node_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <mutex>
#include <utility>

#include "agent/configured_policy.h"
#include "agent/rapl_cpu_meter.h"
#include "agent/restore.h"
#include "gpu/nvml_control.h"

namespace lowgear {
namespace {

void require_rights(const GpuSystem& system, AgentMode mode) {
  if (mode == AgentMode::dry_run || ::geteuid() == 0 || system.simulated()) return;
  throw InputError("clocks and limits are for root alone: sudo lowgear agent; --dry-run needs no rights");
}

/// As the configuration names them: one that is missing must not keep the others from being restored.
std::vector<std::string> names_to_restore(const AgentConfig& config, const GpuSystem& system) {
  std::vector<std::string> names = config.gpus;
  if (config.all_gpus) {
    for (const auto& gpu : system.gpus()) names.push_back(gpu->identity().uuid);
  }
  return names;
}

std::vector<std::string> recover_and_tell(Journal& journal, GpuControlSystem& system, const AgentConfig& config,
                                          const AgentMessages& messages) {
  for (const OriginalGpuState& state : journal.changed()) {
    messages.note(fmt::format("GPU {} was left changed; it is restored", state.uuid));
  }
  if (journal.damaged()) messages.warn("the journal is damaged; every GPU that may be changed is restored");
  return recover(journal, system, names_to_restore(config, system));
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
  auto journal = std::make_shared<Journal>(dry_run ? forgetful_journal() : open_journal_folder(config.journal));
  for (const std::string& failure : recover_and_tell(*journal, *system, config, messages)) messages.warn(failure);

  ClockGovernorOptions governor;
  governor.dry_run = dry_run;
  governor.note = messages.note;
  AgentEnvironment environment;
  environment.gpus = system;
  environment.policy = std::make_shared<ConfiguredPolicy>(config, system, journal, std::move(governor));
  environment.note = messages.note;
  environment.warn = messages.warn;
  RaplCpuMeter cpu_meter;
  messages.note(fmt::format("{} of {} {}GPUs may be changed{}", environment.policy->controlled_gpus().size(),
                            system->gpus().size(), system->simulated() ? "simulated " : "",
                            dry_run ? "; this is a dry run, which changes none" : ""));
  return run_agent(config.process, std::move(environment), &cpu_meter);
}

std::vector<std::string> restore_node(const AgentConfig& config, const AgentMessages& messages) {
  Journal journal(open_journal_folder(config.journal));
  if (journal.changed().empty() && !journal.damaged()) return {};
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  require_rights(*system, AgentMode::write);
  return recover_and_tell(journal, *system, config, messages);
}

}  // namespace lowgear
