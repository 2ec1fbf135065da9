#include "agent/process/agent.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace lowgear::agent {
namespace {

using Clock = std::chrono::steady_clock;

std::optional<ReadPowerLimit> power_limit_of(const GpuSettings& settings) {
  if (!settings.power_limits) return std::nullopt;
  return ReadPowerLimit{.power_limit_w = settings.power_limits->current_w,
                        .asked_at = Clock::time_point(std::chrono::nanoseconds(settings.asked_ns))};
}

}  // namespace

Agent::Agent(boost::asio::io_context& io, Options options, AgentEnvironment environment)
    : io_(io),
      gate_(std::make_shared<LoopGate>(io)),
      options_(std::move(options)),
      environment_(std::move(environment)),
      own_job_(environment_.processes->job(::getpid())),
      pending_writes_(io, options_.driver_timeout) {
  for (const gpu::GpuIdentity& identity : environment_.gpus.identities()) {
    gpus_.push_back({.identity = identity, .worker = nullptr, .silence = {}, .problem = {}, .energy_counter = {}});
  }
  for (const std::string& name : environment_.policy->controlled_gpus()) {
    Managed& managed = gpus_[environment_.gpus.index_of(name)];
    managed.worker =
        std::make_unique<GpuWorker>(environment_.gpus, environment_.policy->writer(managed.identity), options_.worker);
  }
  telemetry_ = std::make_unique<Telemetry>(environment_.gpus, options_.telemetry_rate_hz, options_.settings_period);
}

Agent::~Agent() {
  stop();
  gate_->close();
}

void Agent::listen() {
  lease_server_ = std::make_unique<LeaseServer>(io_, static_cast<LeaseGranter&>(*this), options_.lease_server);
}

std::vector<std::string> Agent::stop() {
  if (lease_server_) lease_server_->stop();
  const Restores restores = end_every_lease();
  const Clock::time_point deadline = Clock::now() + options_.driver_timeout;
  if (environment_.unattended) (void)environment_.unattended->restore().wait_until(deadline);
  return failures_of(restores, deadline);
}

Agent::Restores Agent::end_every_lease() {
  while (!leases_.all().empty()) {
    const std::uint64_t id = leases_.all().begin()->first;
    if (lease_server_) lease_server_->end(id, "the administrator has restored every GPU");
    (void)end_lease(id, "every GPU is being restored");
  }
  Restores restores;
  for (const Managed& managed : gpus_) {
    if (managed.worker) restores.emplace_back(&managed, managed.worker->end_lease());
  }
  return restores;
}

std::vector<std::string> Agent::failures_of(const Restores& restores, Clock::time_point deadline) const {
  std::vector<std::string> failures;
  for (const auto& [managed, done] : restores) {
    const std::string& uuid = managed->identity.uuid;
    if (done.wait_until(deadline) != std::future_status::ready) {
      failures.push_back(fmt::format("{}: the driver does not respond", uuid));
    } else if (managed->worker->status().writer.clock_state == ClockState::failed) {
      failures.push_back(fmt::format("{}: {}", uuid, managed->worker->status().writer.problem));
    }
  }
  if (!environment_.unattended) return failures;
  for (const UnattendedGpu& gpu : environment_.unattended->list()) {
    if (gpu.left_changed) failures.push_back(gpu.problem);
  }
  return failures;
}

bool Agent::hangs(const Managed& managed) const {
  return managed.worker && managed.worker->status().busy > options_.hung_after;
}

void Agent::check_health() {
  for (std::size_t index = 0; index < gpus_.size(); ++index) {
    Managed& managed = gpus_[index];
    report_silence(index);
    report_energy(index);
    if (!managed.worker) continue;
    if (managed.silence.empty() && leases_.of_gpu(index) != nullptr) {
      (void)managed.worker->post(
          [reading = telemetry_->reading(index),
           limit = power_limit_of(telemetry_->settings(index))](GpuWriter& writer) { writer.observe(reading, limit); });
    }
    report_problem(managed);
  }
}

std::string Agent::silence_of(std::size_t index) const {
  const GpuAnswering answering = telemetry_->answering(index);
  if (hangs(gpus_[index]) || answering.busy > options_.hung_after) {
    return "the driver does not respond; clocks stay as they are until it does";
  }
  return answering.problem;
}

void Agent::report_silence(std::size_t index) {
  Managed& managed = gpus_[index];
  std::string silence = silence_of(index);
  if (silence.empty() == managed.silence.empty()) return;
  managed.silence = std::move(silence);
  const std::string& uuid = managed.identity.uuid;
  if (managed.silence.empty()) {
    note(fmt::format("{}: the driver responds again", uuid));
  } else {
    warn(fmt::format("{}: {}", uuid, managed.silence));
  }
}

void Agent::report_energy(std::size_t index) {
  Managed& managed = gpus_[index];
  const EnergyCounterStatus before = std::exchange(managed.energy_counter, telemetry_->energy_counter(index));
  const EnergyCounterStatus& now = managed.energy_counter;
  if (!now.present) return;
  const std::string& uuid = managed.identity.uuid;
  if (now.newest_set_aside != before.newest_set_aside) {
    warn(fmt::format("{}: {}; this step is left out of its energy", uuid, now.newest_set_aside));
  }
  if (before.present && before.works == now.works) return;
  if (!now.works) {
    warn(fmt::format("{}: {}; its energy is not available until the counter can be right", uuid, now.problem));
  } else if (before.present) {
    note(fmt::format("{}: the energy counter works again", uuid));
  }
}

void Agent::report_problem(Managed& managed) {
  std::string problem = managed.worker->status().writer.problem;
  if (problem == managed.problem) return;
  managed.problem = std::move(problem);
  if (!managed.problem.empty()) warn(managed.problem);
}

// Telemetry and status.

bool Agent::simulated() const { return environment_.gpus.simulated(); }
bool Agent::dry_run() const { return environment_.policy->dry_run(); }
std::string Agent::driver_version() const { return environment_.gpus.driver_version(); }
bool Agent::may_read(const Peer& peer) const { return environment_.policy->may_read(peer); }

GpuStatus Agent::status_of(std::size_t index) {
  const Managed& managed = gpus_[index];
  GpuStatus status;
  status.identity = managed.identity;
  const GpuSettings settings = telemetry_->settings(index);
  status.power_limits = settings.power_limits;
  status.persistence_mode = settings.persistence_mode;
  status.workload_power_profiles = settings.workload_power_profiles;
  status.power_smoothing = settings.power_smoothing;
  status.reading = telemetry_->reading(index);
  status.reading_age_s = telemetry_->answering(index).reading_age_s;
  status.problem = silence_of(index);
  status.healthy = status.problem.empty();
  if (const Lease* lease = leases_.of_gpu(index)) status.lease_id = lease->id;
  if (const GpuAssignment* assigned = environment_.assignments->find(managed.identity.uuid)) {
    status.assignment = *assigned;
  }
  status.energy_counter = telemetry_->energy_counter(index);
  if (!managed.worker) return status;
  const GpuWorkerStatus worker = managed.worker->status();
  status.controlled = true;
  if (status.healthy) status.problem = worker.writer.problem;
  status.clock_state = worker.writer.clock_state;
  status.requested_min_mhz = worker.writer.requested_min_mhz;
  status.requested_max_mhz = worker.writer.requested_max_mhz;
  status.clock_writes = worker.writer.clock_writes;
  status.clock_write_errors = worker.writer.clock_write_errors;
  status.late_units = worker.units.late;
  return status;
}

std::vector<GpuStatus> Agent::gpus() {
  std::vector<GpuStatus> statuses;
  for (std::size_t index = 0; index < gpus_.size(); ++index) statuses.push_back(status_of(index));
  return statuses;
}

std::vector<UnattendedGpu> Agent::unattended_gpus() {
  return environment_.unattended ? environment_.unattended->list() : std::vector<UnattendedGpu>{};
}

std::vector<LeaseStatus> Agent::leases() {
  std::vector<LeaseStatus> statuses;
  for (const auto& [id, lease] : leases_.all()) {
    const Managed& managed = gpus_[lease.gpu];
    const GpuWorkerStatus worker = managed.worker->status();
    std::vector<pid_t> other_pids;
    for (const LeaseSharer& sharer : lease.sharers) other_pids.push_back(sharer.peer.pid);
    statuses.push_back({.id = id,
                        .gpu_uuid = managed.identity.uuid,
                        .owner = lease.owner,
                        .user = user_name(lease.owner.uid),
                        .other_pids = std::move(other_pids),
                        .job = lease.job,
                        .rank = lease.rank,
                        .has_plan = worker.has_plan,
                        .suspended = worker.suspended,
                        .age_s = std::chrono::duration<double>(Clock::now() - lease.since).count(),
                        .units = worker.units.begun,
                        .lost = worker.units.lost,
                        .unplanned_units = worker.units.unplanned});
  }
  return statuses;
}

// Leases.

std::size_t Agent::index_of(std::string_view gpu) const {
  try {
    return environment_.gpus.index_of(gpu);
  } catch (const InputError& error) {
    throw NotFound(error.what());
  }
}

std::size_t Agent::controlled_gpu(std::string_view gpu) const {
  const std::size_t index = index_of(gpu);
  const Managed& managed = gpus_[index];
  if (!managed.worker) {
    throw AccessDenied(
        fmt::format("{}: the agent's configuration does not name this GPU for control", managed.identity.uuid));
  }
  if (managed.identity.mig_enabled) {
    throw AccessDenied(fmt::format(
        "{}: MIG is on, so its settings are those of all its instances, whoever has them: no process can lease it",
        managed.identity.uuid));
  }
  if (hangs(managed)) {
    throw gpu::GpuError(gpu::GpuErrorCode::timeout,
                        fmt::format("{}: the driver does not respond; see the agent's log", managed.identity.uuid));
  }
  return index;
}

void Agent::require_may_know(const Peer& peer, std::string_view gpu) const {
  if (may_read(peer)) return;
  try {
    const Managed& managed = gpus_[index_of(gpu)];
    (void)environment_.policy->allow(peer, managed.identity);
    if (managed.worker) return;
  } catch (const Error&) {
    // Why is none of this user's business.
  }
  throw AccessDenied(fmt::format(
      "user {} may not use GPU {} of this agent; its configuration needs an entry of allow for the user or one "
      "of its groups",
      peer.uid, quote(gpu)));
}

void Agent::require_not_of_others(const Peer& peer, std::size_t gpu) {
  const GpuAssignment* assigned = environment_.assignments->find(gpus_[gpu].identity.uuid);
  if (assigned == nullptr || peer.uid == 0) return;
  const std::string owner =
      fmt::format("this GPU is assigned to job {} of user {}", quote(assigned->job), user_name(assigned->uid));
  if (peer.uid != assigned->uid) throw GpuBusy(owner + ", until that ends");
  const std::optional<ProcessJob> job = environment_.processes->job(peer.pid);
  if (!job) {
    throw GpuBusy(owner + ", and the agent does not see the calling process, so neither whether it is of that job");
  }
  // The agent's own job or container does not distinguish processes of the machine.
  if (job->kind.empty() || (own_job_ && job->kind == own_job_->kind && job->id == own_job_->id)) return;
  if (!job->id.empty() && (job->id == assigned->job || job->id == assigned->sluid)) return;
  const std::string process = fmt::format("process {} is of {} {}", peer.pid, job->kind, quote(job->id));
  const bool has_number = job->id.find_first_not_of("0123456789") == std::string::npos;
  const bool is_slurms = job->kind == "Slurm job";
  if (!job->id.empty() && (has_number || !is_slurms || !assigned->sluid.empty())) {
    throw GpuBusy(fmt::format("{}, and {}: it can lease the GPUs that were given to that", owner, process));
  }
  const std::string reason = fmt::format(
      "the control group {} does not say which {} a process is of{}", quote(job->cgroup), job->kind,
      is_slurms ? "; set CgroupJobIdPaths=yes in cgroup.conf (from Slurm 26.05.2 on), or let the prolog give "
                  "the job's SLUID with the assignment"
                : "");
  if (!std::exchange(told_of_unknown_job_, true)) warn(fmt::format("a lease was refused: {}", reason));
  throw GpuBusy(fmt::format("{}, and {}", owner, reason));
}

void Agent::assign(const Peer& peer, std::string_view gpu, GpuAssignment assignment) {
  if (peer.uid != 0) throw AccessDenied("only root may assign GPUs to users");
  const std::string& uuid = gpus_[index_of(gpu)].identity.uuid;
  note(fmt::format("{} is assigned to job {} of user {}", uuid, quote(assignment.job), user_name(assignment.uid)));
  environment_.assignments->set(uuid, std::move(assignment));
}

void Agent::give_back(const Peer& peer, std::string_view gpu, std::string_view job) {
  if (peer.uid != 0) throw AccessDenied("only root may take GPUs back from users");
  const std::string& uuid = gpus_[index_of(gpu)].identity.uuid;
  if (!environment_.assignments->remove(uuid, job)) {
    throw NotFound(fmt::format("{} is not assigned to job {}", uuid, quote(job)));
  }
  note(fmt::format("{} is given back by job {}", uuid, quote(job)));
}

Lease& Agent::add_lease(Lease request) {
  require_not_of_others(request.owner, request.gpu);
  request.process = identify(*environment_.processes, request.owner.pid);
  request.since = Clock::now();
  Lease& lease = leases_.add(std::move(request));
  if (lease.process) lease.watch = watch(lease.id, *lease.process);
  note(fmt::format("lease {} of {} begins: process {} of user {}{}{}", lease.id, gpus_[lease.gpu].identity.uuid,
                   lease.owner.pid, user_name(lease.owner.uid), lease.rank ? fmt::format(", rank {}", *lease.rank) : "",
                   lease.job.empty() ? "" : ", job " + quote(lease.job)));
  return lease;
}

std::unique_ptr<ProcessWatch> Agent::watch(std::uint64_t lease_id, const ProcessIdentity& process) {
  return ProcessWatch::start(io_, *environment_.processes, process,
                             [this, lease_id, process] { process_ended(lease_id, process); });
}

void Agent::process_ended(std::uint64_t lease_id, const ProcessIdentity& process) {
  Lease* lease = leases_.find(lease_id);
  if (lease == nullptr) return;
  if (lease->process != process) {
    std::erase_if(lease->sharers, [&](const LeaseSharer& sharer) { return sharer.process == process; });
    return;
  }
  if (!lease->sharers.empty()) {
    LeaseSharer next = std::move(lease->sharers.front());
    lease->sharers.erase(lease->sharers.begin());
    note(fmt::format("lease {} of {} continues: process {} has ended, process {} of the same user has not", lease_id,
                     gpus_[lease->gpu].identity.uuid, process.pid, next.process.pid));
    lease->owner = next.peer;
    lease->process = next.process;
    lease->watch = std::move(next.watch);
    return;
  }
  if (lease_server_) lease_server_->close(lease_id);  // a child may hold on to the connection
  (void)end_lease(lease_id, "its process has ended");
}

std::future<void> Agent::end_lease(std::uint64_t lease_id, std::string_view why) {
  const Lease* lease = leases_.find(lease_id);
  if (lease == nullptr) return {};
  const Managed& managed = gpus_[lease->gpu];
  note(fmt::format("lease {} of {} ends: {}", lease_id, managed.identity.uuid, why));
  leases_.remove(lease_id);
  return managed.worker->end_lease();
}

LeaseGranter::Grant Agent::open_lease(const Peer& peer, const ipc::HelloMessage& hello) {
  require_may_know(peer, hello.gpu);
  const std::size_t index = controlled_gpu(hello.gpu);
  const Managed& managed = gpus_[index];
  const gpu::GpuIdentity& identity = managed.identity;
  const AllowedRange allowed = environment_.policy->allow(peer, identity);
  auto ring = std::make_shared<SharedUnitRing>();
  Lease request;
  request.gpu = index;
  request.owner = peer;
  request.job = hello.job;
  request.rank = hello.rank;
  request.connected = true;
  const Lease& lease = add_lease(std::move(request));
  (void)managed.worker->begin_lease(ring);
  return {.lease = {.lease_id = lease.id,
                    .gpu_uuid = identity.uuid,
                    .gpu_name = identity.name,
                    .min_clock_mhz = static_cast<std::uint32_t>(allowed.min_clock_mhz),
                    .max_clock_mhz = static_cast<std::uint32_t>(allowed.max_clock_mhz),
                    .simulated = simulated(),
                    .dry_run = dry_run()},
          .ring = std::move(ring)};
}

void Agent::take_plan(std::uint64_t lease_id, ipc::PlanMessage plan, std::function<void(ipc::PlanAnswer)> reply) {
  const Lease* lease = leases_.find(lease_id);
  if (lease == nullptr) {
    reply(ipc::RefusedMessage{.reason = "the lease has ended"});
    return;
  }
  const Managed& managed = gpus_[lease->gpu];
  AllowedRange allowed = environment_.policy->allow(lease->owner, managed.identity);
  // Power limits are then the node's share of a budget.
  if (options_.shares_power) allowed.power = false;
  const std::optional<std::uint32_t> from_iteration = plan.from_iteration;
  auto read = [policy = environment_.policy, plan = std::move(plan), gpu = managed.identity, allowed] {
    return policy->read_plan(plan, gpu, allowed);
  };
  managed.worker->follow_plan(std::move(read), from_iteration,
                              [gate = gate_, reply = std::move(reply)](ipc::PlanAnswer answer) {
                                gate->post([reply, answer = std::move(answer)] { reply(answer); });
                              });
}

void Agent::close_lease(std::uint64_t lease_id) { (void)end_lease(lease_id, "its connection has closed"); }

void Agent::release(const Peer& peer, std::uint64_t lease_id) {
  const Lease* lease = leases_.find(lease_id);
  if (lease == nullptr) throw NotFound(fmt::format("there is no lease {}", lease_id));
  if (peer.uid != 0 && peer.uid != lease->owner.uid) {
    throw AccessDenied(fmt::format("lease {} is of user {}", lease_id, user_name(lease->owner.uid)));
  }
  const std::string why = fmt::format("released by user {}", user_name(peer.uid));
  if (lease_server_) lease_server_->end(lease_id, why);
  (void)end_lease(lease_id, why);
}

void Agent::restore_all(const Peer& peer, WriteDone done) {
  if (peer.uid != 0) throw AccessDenied("only root may restore every GPU");
  const auto restores = std::make_shared<const Restores>(end_every_lease());
  const auto tell = [this, restores, done = std::move(done)](const std::exception_ptr&) {
    const std::vector<std::string> failures = failures_of(*restores, Clock::now());
    if (failures.empty()) return done(nullptr);
    done(std::make_exception_ptr(
        gpu::GpuError(gpu::GpuErrorCode::driver_error,
                      fmt::format("{} GPUs were not restored: {}", failures.size(), fmt::join(failures, "; ")))));
  };
  // The threads count down what is still waited for: one for each restore, and one for the GPUs that have no thread.
  const auto count_down = [left = std::make_shared<std::atomic<std::size_t>>(restores->size() + 1),
                           over = pending_writes_.add(tell, nullptr)] {
    if (--*left == 0) over(nullptr);
  };
  for (const auto& [managed, restored] : *restores) managed->worker->tell_when_done(count_down);
  if (environment_.unattended) {
    environment_.unattended->restore(count_down);
  } else {
    count_down();
  }
}

// Requests.

Lease& Agent::lease_for_request(const Peer& peer, std::size_t gpu) {
  const std::optional<ProcessIdentity> process = identify(*environment_.processes, peer.pid);
  if (!process) {
    throw AccessDenied(
        "the agent cannot see the calling process, because it runs in another pid namespace: take a lease through the "
        "lease socket instead, which lasts as long as the connection");
  }
  Lease* held = leases_.of_gpu(gpu);
  if (held != nullptr && held->process == process) return *held;
  if (held != nullptr && !held->connected && held->owner.uid == peer.uid) {
    require_not_of_others(peer, gpu);
    share(*held, peer, *process);
    return *held;
  }
  Lease request;
  request.gpu = gpu;
  request.owner = peer;
  return add_lease(std::move(request));
}

void Agent::share(Lease& lease, const Peer& peer, const ProcessIdentity& process) {
  if (std::ranges::find(lease.sharers, process, &LeaseSharer::process) != lease.sharers.end()) return;
  note(fmt::format("lease {} of {} is shared: process {} of the same user sets it, too", lease.id,
                   gpus_[lease.gpu].identity.uuid, peer.pid));
  lease.sharers.push_back({.peer = peer, .process = process, .watch = watch(lease.id, process)});
}

void Agent::limit_power(std::string_view gpu, double watts) {
  const std::size_t index = index_of(gpu);
  const Managed& managed = gpus_[index];
  if (!managed.worker || hangs(managed)) return;
  managed.worker->apply(
      gpu::SetPowerLimit{watts},
      pending_writes_.add([this, index](const std::exception_ptr&) { telemetry_->settings_changed(index); }, nullptr));
}

void Agent::apply(const Peer& peer, std::string_view gpu, const gpu::GpuSetting& setting, WriteDone done) {
  const std::size_t index = controlled_gpu(gpu);
  const Managed& managed = gpus_[index];
  require_allowed(setting, environment_.policy->allow(peer, managed.identity));
  if (options_.shares_power && std::holds_alternative<gpu::SetPowerLimit>(setting)) {
    throw AccessDenied(
        "power limits of this node are its share of a power budget: the agent sets them, and no process");
  }
  (void)lease_for_request(peer, index);
  const gpu::GpuError too_late(gpu::GpuErrorCode::timeout,
                               fmt::format("{}: the driver has not responded yet", managed.identity.uuid));
  const auto tell = [this, index, done = std::move(done)](const std::exception_ptr& error) {
    telemetry_->settings_changed(index);
    done(error);
  };
  managed.worker->apply(setting, pending_writes_.add(tell, std::make_exception_ptr(too_late)));
}

}  // namespace lowgear::agent
