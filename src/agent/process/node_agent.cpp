#include "agent/process/node_agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/cpu/cpu_meter.h"
#include "agent/gpu/guarded_driver.h"
#include "agent/http/http_api.h"
#include "agent/journal/file_locks.h"
#include "agent/lease/lease_table.h"
#include "agent/mps/mps_sharing.h"
#include "agent/process/power_share_keeper.h"
#include "agent/writing/configured_policy.h"
#include "agent/writing/restore.h"
#include "agent/writing/unattended_gpus.h"
#include "base/core/files/user_database.h"
#include "base/core/monotonic_clock.h"
#include "base/http/tls/tls_credentials.h"
#include "base/ipc/termination_signals.h"
#include "hardware/gpu/gpu_control.h"

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

/// Messages of an agent from any of its threads; silent once it is closed.
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

/// State that is opened and restored before the agent serves.
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

namespace {

namespace asio = boost::asio;

/// Looks after the agent's health at regular times, and tells the service manager that its main thread lives.
class Heartbeat {
 public:
  /// `each_second` is called about once a second.
  Heartbeat(asio::io_context& io, Agent& agent, std::function<void()> each_second)
      : agent_(agent), each_second_(std::move(each_second)), timer_(io) {
    if (const auto wanted = ipc::service_watchdog_period())
      period_ = std::min<std::chrono::microseconds>(period_, *wanted / 2);
    beat();
  }

 private:
  void beat() {
    agent_.check_health();
    each_second_();
    ipc::notify_service_manager("WATCHDOG=1");
    timer_.expires_after(period_);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) beat();
    });
  }

  Agent& agent_;
  std::function<void()> each_second_;
  asio::steady_timer timer_;
  std::chrono::microseconds period_ = std::chrono::seconds(1);
};

HttpApiOptions http_options(const ProcessOptions& options, const AgentEnvironment& environment) {
  HttpApiOptions http;
  http.telemetry_period = std::chrono::milliseconds(static_cast<int>(1000 / options.agent.telemetry_rate_hz));
  http.zeusd_events = options.zeusd_events;
  http.server.warn = environment.warn;
  return http;
}

/// Null where no GPU is to be shared.
std::unique_ptr<MpsSharing> start_mps(asio::io_context& io, const ProcessOptions& options,
                                      const AgentEnvironment& environment) {
  if (environment.mps_gpus.empty()) return nullptr;
  return std::make_unique<MpsSharing>(io, options.mps, environment.mps_gpus,
                                      MpsEnvironment{.processes = environment.processes,
                                                     .in_group = system_group_lookup(),
                                                     .messages = {environment.note, environment.warn}});
}

}  // namespace

void check_agent(const ProcessOptions& options) {
  if (options.metrics && options.metrics->tls) (void)http::TlsServerSide(*options.metrics->tls);
  if (options.power_share) check_power_share(*options.power_share);
}

std::vector<std::string> run_agent(const ProcessOptions& options, AgentEnvironment environment, CpuMeter* cpu_meter,
                                   const ipc::TerminationSignals& signals) {
  asio::io_context io(1);
  asio::posix::stream_descriptor told_to_end(io, ::dup(signals.descriptor()));
  told_to_end.async_wait(asio::posix::stream_descriptor::wait_read, [&io](const boost::system::error_code& error) {
    if (!error) io.stop();
  });
  const std::unique_ptr<MpsSharing> mps = start_mps(io, options, environment);
  const std::function<void(std::string_view)> warn = environment.warn;
  HttpApiOptions http_api_options = http_options(options, environment);
  http_api_options.mps = mps.get();
  Agent agent(io, options.agent, std::move(environment));
  HttpApi http(io, agent, cpu_meter, http_api_options);
  http.listen_unix(options.http_socket, options.http_mode, options.http_group);
  if (options.http_port) (void)http.listen_tcp(*options.http_port);
  std::optional<http::WatchedTls> tls;
  if (options.metrics) {
    if (options.metrics->tls) tls.emplace(*options.metrics->tls);
    (void)http.listen_metrics(options.metrics->address, options.metrics->port, tls ? tls->side() : nullptr);
  }
  agent.listen();
  const Heartbeat heartbeat(io, agent, [&tls, warn] {
    const auto change = tls ? tls->check() : std::nullopt;
    if (change && !change->accepted && warn) warn(change->message);
  });
  std::optional<PowerShareKeeper> power_share;
  if (options.power_share) power_share.emplace(io, agent, *options.power_share, warn);
  ipc::notify_service_manager("READY=1");
  io.run();
  ipc::notify_service_manager("STOPPING=1");
  http.stop();
  power_share.reset();
  std::vector<std::string> failures = agent.stop();
  if (mps) {
    for (std::string& left : mps->stop()) failures.push_back(std::move(left));
  }
  return failures;
}

namespace {

std::string group_name(gid_t group) { return find_group_name(group).value_or(std::to_string(group)); }

std::string users_of(const AllowRule& rule) {
  if (rule.everybody) return "everybody";
  return rule.user ? "user " + user_name(*rule.user) : "group " + group_name(*rule.group);
}

bool is_for(const AllowRule& rule, const gpu::GpuIdentity& gpu) {
  return rule.gpus.empty() ||
         std::ranges::any_of(rule.gpus, [&](const std::string& name) { return name == "all" || is_called(gpu, name); });
}

std::string clocks_of(const AllowRule& rule, gpu::Gpu& gpu) {
  const std::vector<int> clocks_mhz = gpu.supported_sm_clocks_mhz();
  if (clocks_mhz.empty()) return "no SM clocks, as the GPU names none that can be locked";
  return fmt::format("SM clocks of {} to {} MHz", std::max(clocks_mhz.back(), rule.min_clock_mhz.value_or(0)),
                     std::min(clocks_mhz.front(), rule.max_clock_mhz.value_or(clocks_mhz.front())));
}

std::string power_of(const AllowRule& rule, gpu::Gpu& gpu) {
  const gpu::PowerLimits limits = gpu.power_limits();
  return fmt::format("a power limit of {} to {} W", std::max(limits.min_w, rule.min_power_w.value_or(0)),
                     std::min(limits.max_w, rule.max_power_w.value_or(limits.max_w)));
}

/// What one rule lets its users set on one GPU, or why that cannot be said.
std::string rights_of(const AllowRule& rule, gpu::Gpu& gpu) {
  if (!rule.control) return rule.read ? "would allow only reading" : "would allow neither setting nor reading";
  try {
    std::string rights = "would set " + clocks_of(rule, gpu);
    if (rule.power) rights += ", " + power_of(rule, gpu);
    if (rule.memory_clocks) rights += ", memory clocks";
    if (rule.persistence) rights += ", persistence mode";
    if (rule.workload_power_profiles) rights += ", workload power profiles";
    if (rule.power_smoothing) rights += ", power smoothing";
    return rights + ", as their processes request, and restore them when those end";
  } catch (const gpu::GpuError& error) {
    return fmt::format("would set nothing: {}", error.what());
  }
}

std::string lines_of(const Config& config, gpu::Gpu& gpu, bool controlled) {
  const gpu::GpuIdentity& identity = gpu.identity();
  std::string text =
      fmt::format("GPU {}: {}, {}, {}\n", identity.index, identity.name, identity.uuid, identity.pci_address);
  if (!controlled) return text + "  would only read it: no entry of gpu in the configuration names it\n";
  bool anybody = false;
  for (const AllowRule& rule : config.allow) {
    if (!is_for(rule, identity)) continue;
    text += fmt::format("  for {}: {}\n", users_of(rule), rights_of(rule, gpu));
    anybody = true;
  }
  return anybody ? text : text + "  would only read it: no entry of allow in the configuration lets anyone set it\n";
}

std::string sockets_of(const ProcessOptions& process) {
  std::string text = fmt::format("would take leases at {} (mode {:04o}) and answer HTTP at {} (mode {:04o})",
                                 process.agent.lease_server.socket.string(), process.agent.lease_server.mode,
                                 process.http_socket.string(), process.http_mode);
  if (process.http_port) text += fmt::format(" and, for reading only, at 127.0.0.1:{}", *process.http_port);
  if (process.metrics) {
    text += fmt::format(", and to every machine metrics and health at {} port {}", process.metrics->address,
                        process.metrics->port);
  }
  return text + "\n";
}

std::string mps_of(const MpsOptions& options) {
  std::string text;
  for (const std::string& gpu : options.gpus) {
    text += fmt::format(
        "would run {} for GPU {}, with directories below {} for group {}, and give shares of up to {} % "
        "in all\n",
        options.program.string(), gpu, options.folder.string(), group_name(options.group), options.max_percent);
  }
  return text;
}

}  // namespace

std::string preview_of_agent(const Config& config, const gpu::GpuSystem& system) {
  std::string text = system.simulated() ? "simulated GPUs\n" : "";
  const std::vector<std::string> controlled = controlled_gpus(config, system);
  for (const auto& gpu : system.gpus()) {
    text += lines_of(config, *gpu, std::ranges::find(controlled, gpu->identity().uuid) != controlled.end());
  }
  for (const UnattendedGpu& gpu : find_unattended_gpus(config, system, Journal(discarding_journal()))) {
    text += gpu.problem + "\n";
  }
  return text + mps_of(config.process.mps) + sockets_of(config.process);
}

}  // namespace lowgear::agent
