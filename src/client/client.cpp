#include "client/client.h"

#include <fmt/format.h>

#include <utility>

#include "client/gpu_choice.h"
#include "core/error.h"
#include "core/file.h"
#include "core/monotonic_clock.h"
#include "gpu/nvml_system.h"
#include "plan/plan_json.h"

namespace lowgear {

namespace {

std::uint64_t event_time_ns() noexcept { return static_cast<std::uint64_t>(monotonic_ns()); }

}  // namespace

Client::Client(ClientOptions options, const Environment& environment)
    : options_(std::move(options)), start_ns_(event_time_ns()) {
  open_gpu(environment);
  if (!options_.recording.empty()) open_recording();
  if (gpu_ != nullptr) {
    EnergyMeterOptions meter;
    if (recording_) {
      meter.observer = [this](std::size_t, const GpuSample& sample) {
        const std::lock_guard lock(recording_mutex_);
        recording_->write(sample);
      };
    }
    meter_ = std::make_unique<EnergyMeter>(*system_, std::vector<Gpu*>{gpu_}, std::move(meter));
    connect();
  }
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Client::~Client() {
  thread_.request_stop();
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  ring_ = nullptr;
  meter_.reset();
  if (agent_) agent_->release();
  if (recording_) {
    drain();
    recording_->finish(log_->lost());
  }
}

// Without a driver the rest works all the same; a GPU that was asked for and is not there is a mistake.
void Client::open_gpu(const Environment& environment) {
  try {
    system_ = open_nvml();
  } catch (const GpuError& error) {
    if (!options_.gpu.empty()) throw InputError(error.what());
    gpu_problem_ = error.what();
    return;
  }
  gpu_ = options_.gpu.empty() ? &choose_gpu(*system_, options_.rank.local_rank, environment)
                              : &find_gpu(*system_, options_.gpu);
}

void Client::open_recording() {
  RecordingHeader header;
  header.rank = options_.rank.rank;
  header.world_size = options_.rank.world_size;
  header.job = options_.job;
  if (gpu_ != nullptr) {
    header.gpu_uuid = gpu_->identity().uuid;
    header.gpu_name = gpu_->identity().name;
    header.driver_version = system_->driver_version();
    header.simulated = system_->simulated();
  }
  log_ = std::make_unique<UnitLog>();
  recording_ = std::make_unique<RecordingWriter>(options_.recording, std::move(header), start_ns_);
}

/// Asks the agent for a lease; whatever goes wrong is kept for `status`.
void Client::connect() {
  if (options_.agent_socket.empty()) return;
  const std::lock_guard lock(agent_mutex_);
  asked_at_ = std::chrono::steady_clock::now();
  try {
    agent_ = std::make_unique<AgentConnection>(options_.agent_socket,
                                               HelloMessage{.version = kLeaseProtocolVersion,
                                                            .gpu = gpu_->identity().uuid,
                                                            .rank = static_cast<std::uint32_t>(options_.rank.rank),
                                                            .job = options_.job},
                                               options_.agent_timeout);
    agent_problem_.clear();
    use_ring(agent_->ring());
  } catch (const Error& error) {
    agent_problem_ = error.what();
  }
}

void Client::use_ring(std::shared_ptr<MappedUnitRing> ring) {
  rings_.push_back(std::move(ring));
  ring_.store(&rings_.back()->ring(), std::memory_order_release);
}

void Client::load_plan(const std::filesystem::path& path, std::optional<int> plan_rank, bool nearest_below) {
  std::string text = read_file(path, kMaxFrameBytes - kMaxStringBytes);
  const int ranks = static_cast<int>(read_plan(text, path.string()).ranks.size());
  const int rank = plan_rank.value_or(options_.rank.rank % ranks);
  if (rank < 0 || rank >= ranks) {
    throw InputError(fmt::format("{}: there is no rank {} in this plan of {}", printable(path.string()), rank, ranks));
  }
  const std::lock_guard lock(agent_mutex_);
  plan_ = PlanMessage{
      .plan_rank = static_cast<std::uint32_t>(rank), .nearest_below = nearest_below, .plan_json = std::move(text)};
  plan_accepted_ = false;
  if (!agent_) {
    const std::string& problem = gpu_problem_.empty() ? agent_problem_ : gpu_problem_;
    throw Error(problem.empty() ? "no agent is used" : problem);
  }
  agent_->send_plan(*plan_, options_.agent_timeout);
  plan_accepted_ = true;
}

void Client::iteration_begin() noexcept {
  if (training_.in_iteration) count_mismatch();
  training_.in_iteration = true;
  training_.iteration_begin_ns = event_time_ns();
  if (UnitRing* ring = ring_.load(std::memory_order_acquire)) {
    write_unit(*ring, {.time_ns = training_.iteration_begin_ns,
                       .type = UnitEventType::iteration_begin,
                       .microbatch = static_cast<std::uint32_t>(training_.iteration)});
  }
}

void Client::iteration_end() noexcept {
  if (!training_.in_iteration) return count_mismatch();
  const std::uint64_t now_ns = event_time_ns();
  if (UnitRing* ring = ring_.load(std::memory_order_acquire)) {
    write_unit(*ring, {.time_ns = now_ns,
                       .type = UnitEventType::iteration_end,
                       .microbatch = static_cast<std::uint32_t>(training_.iteration)});
  }
  if (log_) {
    log_->push({.begin_ns = training_.iteration_begin_ns,
                .end_ns = now_ns,
                .iteration = training_.iteration,
                .is_iteration = true});
  }
  ++training_.iteration;
  training_.in_iteration = false;
}

void Client::unit_begin(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  if (training_.unit != 0) count_mismatch();
  const UnitEvent event{.time_ns = event_time_ns(),
                        .type = UnitEventType::unit_begin,
                        .kind = static_cast<std::uint8_t>(kind),
                        .stage = stage,
                        .microbatch = microbatch};
  if (UnitRing* ring = ring_.load(std::memory_order_acquire)) write_unit(*ring, event);
  training_.unit = pack_unit(event);
  training_.unit_begin_ns = event.time_ns;
}

void Client::unit_end(OpKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  UnitEvent event{.time_ns = event_time_ns(),
                  .type = UnitEventType::unit_begin,
                  .kind = static_cast<std::uint8_t>(kind),
                  .stage = stage,
                  .microbatch = microbatch};
  if (training_.unit != pack_unit(event)) return count_mismatch();
  training_.unit = 0;
  units_.store(units_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  UnitRing* ring = ring_.load(std::memory_order_acquire);
  if (ring != nullptr) {
    event.type = UnitEventType::unit_end;
    write_unit(*ring, event);
  }
  if (log_) {
    log_->push({.begin_ns = training_.unit_begin_ns,
                .end_ns = event.time_ns,
                .iteration = training_.iteration,
                .microbatch = microbatch,
                .clock_mhz = ring != nullptr ? ring->requested_clock_mhz.load(std::memory_order_relaxed) : 0,
                .stage = stage,
                .kind = event.kind});
  }
}

void Client::count_mismatch() noexcept {
  mismatched_.store(mismatched_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  training_.unit = 0;
}

EnergyMeter::WindowId Client::window_begin(std::string name) {
  if (!meter_) throw Error(gpu_problem_);
  return meter_->begin(std::move(name));
}

WindowMeasurement Client::window_end(EnergyMeter::WindowId window) {
  if (!meter_) throw Error(gpu_problem_);
  return meter_->end(window);
}

/// The thread beside training: writes the recording and keeps the lease.
void Client::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(sleep_mutex_);
      wake_.wait_for(lock, stop, options_.drain_period, [] { return false; });
    }
    drain();
    reconnect_if_needed();
  }
}

void Client::drain() {
  if (!log_) return;
  const std::lock_guard lock(recording_mutex_);
  UnitRecord record;
  while (log_->pop(record)) recording_->write(record);
  recording_->flush();
}

void Client::reconnect_if_needed() {
  {
    const std::lock_guard lock(agent_mutex_);
    if (gpu_ == nullptr || options_.agent_socket.empty() || (agent_ && agent_->alive())) return;
    if (agent_) {
      ring_.store(nullptr, std::memory_order_release);
      agent_.reset();
      plan_accepted_ = false;
      agent_problem_ = "the agent has gone; asking for the GPU again";
    }
    if (std::chrono::steady_clock::now() - asked_at_ < options_.reconnect_after) return;
  }
  connect();
  send_plan_again();
}

void Client::send_plan_again() {
  const std::lock_guard lock(agent_mutex_);
  if (!agent_) return;
  ++reconnects_;
  if (!plan_) return;
  try {
    agent_->send_plan(*plan_, options_.agent_timeout);
    plan_accepted_ = true;
  } catch (const Error& error) {
    agent_problem_ = error.what();
  }
}

std::string Client::problem() const {
  if (!gpu_problem_.empty()) return gpu_problem_;
  if (!agent_problem_.empty()) return agent_problem_;
  return options_.rank.conflict;
}

ClientStatus Client::status() {
  ClientStatus status;
  status.units = units_.load(std::memory_order_relaxed);
  status.mismatched = mismatched_.load(std::memory_order_relaxed);
  status.lost = log_ ? log_->lost() : 0;
  if (gpu_ != nullptr) {
    status.gpu_uuid = gpu_->identity().uuid;
    status.simulated = system_->simulated();
  }
  {
    const std::lock_guard lock(agent_mutex_);
    status.has_lease = agent_ != nullptr;
    status.has_plan = plan_accepted_;
    status.dry_run = agent_ && agent_->lease().dry_run;
    status.reconnects = reconnects_;
    status.problem = problem();
    if (agent_) {
      const UnitRing& ring = agent_->ring()->ring();
      status.suspended = ring.state.load() == static_cast<std::uint32_t>(RingState::suspended);
      status.requested_clock_mhz = ring.requested_clock_mhz.load();
    }
  }
  const std::lock_guard lock(recording_mutex_);
  if (status.problem.empty() && recording_) status.problem = recording_->problem();
  return status;
}

}  // namespace lowgear
