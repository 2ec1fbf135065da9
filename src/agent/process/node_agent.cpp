#include "agent/process/node_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "agent/cpu/rapl_cpu_meter.h"
#include "agent/gpu/driver_thread.h"
#include "agent/journal/machine_lock.h"
#include "agent/mps/mps_gpus.h"
#include "agent/process/agent_process.h"
#include "agent/writing/configured_policy.h"
#include "agent/writing/restore.h"
#include "agent/writing/unattended_gpus.h"
#include "base/core/monotonic_clock.h"
#include "hardware/gpu/nvml_control.h"

namespace lowgear::agent {
namespace {

void require_rights(const gpu::GpuSystem& system, Mode mode) {
  if (mode == Mode::dry_run || ::geteuid() == 0 || system.simulated()) return;
  throw InputError("only root may set clocks and limits: sudo lowgear agent; --dry-run needs no rights");
}

std::shared_ptr<UnattendedGpus> attend_to_the_rest(const Config& config, const gpu::GpuSystem& system,
                                                   std::shared_ptr<Journal> journal, const Messages& messages) {
  std::vector<UnattendedGpu> gpus = find_unattended_gpus(config, system, *journal);
  for (const UnattendedGpu& gpu : gpus) {
    if (!gpu.left_changed) messages.warn(gpu.problem);  // `recover` has reported the others
  }
  UnattendedGpusOptions options;
  options.open = gpu::open_nvml_control;
  options.note = messages.note;
  return std::make_shared<UnattendedGpus>(std::move(gpus), std::move(journal), std::move(options));
}

/// What an agent says, from any of its threads; nothing any more once it is closed.
class Voice {
 public:
  explicit Voice(Messages messages) : messages_(std::move(messages)) {}

  void note(std::string_view text) { say(messages_.note, text); }
  void warn(std::string_view text) { say(messages_.warn, text); }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }

 private:
  void say(const std::function<void(std::string_view)>& speak, std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (!closed_) speak(text);
  }

  std::mutex mutex_;
  Messages messages_;
  bool closed_ = false;  // under mutex_
};

Messages messages_of(const std::shared_ptr<Voice>& voice) {
  return {.note = [voice](std::string_view text) { voice->note(text); },
          .warn = [voice](std::string_view text) { voice->warn(text); }};
}

/// What has been opened and restored before an agent serves.
struct StartedNode {
  std::shared_ptr<gpu::GpuControlSystem> system;
  std::optional<LockFile> machine;
  std::shared_ptr<Journal> journal;
  std::shared_ptr<ConfiguredPolicy> policy;
  std::vector<MpsGpu> mps_gpus;
  std::vector<std::string> failures;  ///< what could not be restored
};

std::vector<MpsGpu> mps_gpus_of(const MpsOptions& options, bool dry_run) {
  if (options.gpus.empty()) return {};
  std::vector<MpsGpu> gpus = find_mps_gpus(options.gpus, gpu::survey_nvml());
  for (MpsGpu& gpu : gpus) {
    if (dry_run) gpu.refusal = fmt::format("{}: no MPS daemon: this is a dry run", gpu.identity.uuid);
  }
  return gpus;
}

StartedNode start_node(const Config& config, Mode mode, const Messages& messages) {
  StartedNode node;
  node.system = gpu::open_nvml_control();
  require_rights(*node.system, mode);
  for (const std::string& problem : node.system->problems()) messages.warn(problem);
  const bool dry_run = mode == Mode::dry_run;
  const std::filesystem::path control_socket = std::filesystem::absolute(config.process.http_socket);
  if (!dry_run) node.machine.emplace(hold_machine(machine_lock_path(*node.system), control_socket));
  node.journal =
      std::make_shared<Journal>(dry_run ? discarding_journal() : open_journal_folder(config.journal, control_socket));
  if (!node.journal->damage().empty()) messages.warn(node.journal->damage());
  node.failures = recover(*node.journal, *node.system, config, messages.note);
  for (const std::string& failure : node.failures) messages.warn(failure);
  if (const std::string problem = node.journal->unwritable(); !problem.empty()) throw InputError(problem);
  node.mps_gpus = mps_gpus_of(config.process.mps, dry_run);
  ClockGovernorOptions governor;
  governor.dry_run = dry_run;
  governor.note = messages.note;
  governor.warn = messages.warn;
  governor.clock_log = config.clock_log;
  if (config.process.power_share) governor.safe_power_w = config.process.power_share->safe_w;
  node.policy = std::make_shared<ConfiguredPolicy>(config, *node.system, node.journal, std::move(governor));
  return node;
}

/// Starts the node on a thread of its own: the driver may never return from it. Empty when a signal came and the driver
/// has held up the start for longer than an end may take.
std::optional<StartedNode> start_unless_signalled(const Config& config, Mode mode, const std::shared_ptr<Voice>& voice,
                                                  const ipc::TerminationSignals& signals) {
  constexpr std::chrono::milliseconds kLook{5};
  constexpr std::chrono::milliseconds kPatience{700};
  const auto promise = std::make_shared<std::promise<StartedNode>>();
  std::future<StartedNode> started = promise->get_future();
  DriverThread thread([config, mode, voice, promise] {
    try {
      promise->set_value(start_node(config, mode, messages_of(voice)));
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  while (started.wait_for(kLook) != std::future_status::ready) {
    if (!signals.came()) continue;
    if (started.wait_for(kPatience) == std::future_status::ready) break;
    voice->close();
    thread.end_until(DriverThread::Clock::now());
    return std::nullopt;
  }
  return started.get();
}

}  // namespace

std::vector<std::string> serve_node(const Config& config, Mode mode, const Messages& unguarded,
                                    const ipc::TerminationSignals& signals) {
  const auto voice = std::make_shared<Voice>(unguarded);
  const Messages messages = messages_of(voice);
  std::optional<StartedNode> node = start_unless_signalled(config, mode, voice, signals);
  if (!node) {
    return {
        "stopped while the driver blocked the start; what the journal names is restored at the next start, or by "
        "lowgear agent restore"};
  }
  if (signals.came()) return std::move(node->failures);

  AgentEnvironment environment;
  environment.gpus = node->system;
  environment.policy = node->policy;
  environment.unattended = attend_to_the_rest(config, *node->system, node->journal, messages);
  if (mode != Mode::dry_run) {
    environment.assignments = std::make_shared<GpuAssignments>(config.journal / "assignments.json", boot_id());
    if (const std::string& damage = environment.assignments->damage(); !damage.empty()) messages.warn(damage);
  }
  environment.mps_gpus = std::move(node->mps_gpus);
  environment.note = messages.note;
  environment.warn = messages.warn;
  RaplCpuMeter cpu_meter;
  messages.note(fmt::format("{} of {} {}GPUs may be changed{}", environment.policy->controlled_gpus().size(),
                            node->system->gpus().size(), node->system->simulated() ? "simulated " : "",
                            mode == Mode::dry_run ? "; this is a dry run, which changes none" : ""));
  std::vector<std::string> failures = run_agent(config.process, std::move(environment), &cpu_meter, signals);
  voice->close();  // threads that the driver holds outlive this, and the receiver of messages may not
  return failures;
}

std::vector<std::string> restore_node(const Config& config, const Messages& messages) {
  (void)read_journal_folder(config.journal);  // a folder that was mistyped is not made
  Journal journal(open_journal_folder(config.journal));
  std::vector<std::string> failures;
  if (journal.changed().empty() && !journal.damaged()) {
    messages.note("the journal names no GPU that was left changed; nothing was changed");
  } else {
    const std::unique_ptr<gpu::GpuControlSystem> system = gpu::open_nvml_control();
    require_rights(*system, Mode::write);
    const LockFile machine = hold_machine(machine_lock_path(*system), {});
    failures = recover(journal, *system, config, messages.note);
  }
  for (const std::string& problem : {journal.damage(), journal.unwritable()}) {
    if (!problem.empty()) failures.push_back(problem);
  }
  return failures;
}

}  // namespace lowgear::agent
