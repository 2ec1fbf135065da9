#include "control/client/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/monotonic_clock.h"
#include "control/client/marks/cuda_stream_driver.h"
#include "control/client/rank/gpu_choice.h"
#include "control/client/server/server_messages.h"
#include "hardware/gpu/nvml_system.h"
#include "planning/plan/plan_json.h"

namespace lowgear::client {

namespace {

/// Longest that the training thread is taken to need between reading the clock and marking what it read it for.
constexpr std::uint64_t kMarkingNs = 100'000'000;

std::uint64_t event_time_ns() noexcept { return static_cast<std::uint64_t>(monotonic_ns()); }

/// 128 random bits.
std::string random_text() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", device(), device(), device(), device());
}

/// The stage that all ops of a plan's rank are of; empty where there are several.
std::optional<int> only_stage(const std::vector<plan::PlannedOp>& ops) {
  if (ops.empty()) return std::nullopt;
  const int stage = ops.front().stage;
  const bool same = std::ranges::all_of(ops, [stage](const plan::PlannedOp& op) { return op.stage == stage; });
  return same ? std::optional(stage) : std::nullopt;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

}  // namespace

Client::Client(Options options, const Environment& environment)
    : options_(std::move(options)), start_ns_(event_time_ns()) {
  JobPlaceFacts& place = options_.place;
  place.rank = options_.rank.rank;
  place.world_size = options_.rank.world_size_known ? std::optional(options_.rank.world_size) : std::nullopt;
  const AxisRank pipeline = pipeline_rank(place);
  const bool one_stage = !place.sizes || place.sizes->stage_is_pp_rank;
  keep_place(pipeline, one_stage ? pipeline.rank : std::nullopt);
  open_gpu(environment);
  if (!options_.recording.empty()) open_recording();
  if (gpu_ != nullptr && !options_.agent_socket.empty()) open_lease();
  if (!options_.server.address.empty()) open_server();
  if (recording_ || served_) log_ = std::make_unique<UnitLog>();
  following_ = std::make_unique<PlanFollowing>(lease_.get(), served_.get());
  writer_ = std::make_unique<MarkWriter>(lease_.get(), log_.get());
  const std::string cuda = environment("LOWGEAR_CUDA").value_or("libcuda.so.1");
  marks_ = std::make_unique<StreamMarks>(*writer_, [cuda] { return open_cuda_stream_driver(cuda); });
  if (gpu_ != nullptr) start_meter();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Client::~Client() {
  marks_->use(nullptr);  // what the GPU has not come to yet
  thread_.request_stop();
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  meter_.reset();
  drain();
  refuse_what_differs();
  served_.reset();
  lease_.reset();
  if (recording_) recording_->finish(lost());
}

// Without a GPU the rest works; a GPU that was requested and does not exist is an error.
void Client::open_gpu(const Environment& environment) {
  try {
    system_ = gpu::open_nvml();
    gpu_ = options_.gpu.empty() ? &choose_gpu(*system_, options_.rank.local_rank, environment)
                                : &find_gpu(*system_, options_.gpu);
  } catch (const gpu::GpuError& error) {
    if (!options_.gpu.empty()) throw InputError(error.what());
    gpu_problem_ = error.what();
  }
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
  recording_ =
      std::make_unique<RankRecording>(options_.recording, options_.recording_folder, std::move(header), start_ns_);
  samples_recorded_ = options_.first_recorded_iteration == 0;
}

void Client::open_lease() {
  AgentLeaseOptions lease;
  lease.socket = options_.agent_socket;
  lease.hello.gpu = gpu_->identity().uuid;
  lease.hello.rank = static_cast<std::uint32_t>(options_.rank.rank);
  lease.hello.job = options_.job;
  lease.timeout = options_.agent_timeout;
  lease.reconnect_after = options_.reconnect_after;
  lease_ = std::make_unique<AgentLease>(std::move(lease));
}

void Client::start_meter() {
  measure::EnergyMeterOptions meter;
  if (log_) {
    meter.observer = [this](std::size_t, const measure::GpuSample& sample) {
      if (served_) served_->add(sample);
      if (!recording_ || !samples_recorded_.load(std::memory_order_relaxed)) return;
      recording_->write(sample);
    };
  }
  meter_ = std::make_unique<measure::EnergyMeter>(*system_, std::vector<gpu::Gpu*>{gpu_}, std::move(meter));
}

protocol::RankSpec Client::registration() const {
  protocol::RankSpec rank;
  rank.rank = options_.rank.rank;
  const JobPlace place = job_place(options_.place);
  rank.pp_rank = place.pp;
  rank.dp_rank = place.dp;
  rank.tp_rank = place.tp;
  rank.instance = random_text();
  rank.host = host_name();
  if (gpu_ == nullptr) return rank;
  rank.gpu_uuid = gpu_->identity().uuid;
  rank.gpu = gpu_->identity().name;
  rank.simulated = system_->simulated();
  if (works(*gpu_, gpu::GpuFeature::supported_clocks)) rank.clocks_mhz = gpu_->supported_sm_clocks_mhz();
  if (works(*gpu_, gpu::GpuFeature::power_limits)) rank.power_limit_w = gpu_->power_limits().enforced_w;
  const AgentLeaseStatus lease = lease_ ? lease_->status() : AgentLeaseStatus{};
  rank.follows_plans = lease.has_lease && !lease.dry_run;
  return rank;
}

void Client::open_server() {
  ServedRankOptions served;
  served.server.endpoint = http::Endpoint::parse(options_.server.address);
  served.server.token_file = options_.server.token_file;
  served.server.job_json =
      complete_job(options_.server.job_json, options_.rank.run, gpu_ != nullptr ? gpu_->identity().name : "");
  served.server.rank = registration();
  served.start_ns = start_ns_;
  served.like.source = "rank " + std::to_string(options_.rank.rank);
  served.like.rank = options_.rank.rank;
  served.like.world_size = options_.rank.world_size;
  if (gpu_ != nullptr) {
    served.gpu.emplace(gpu_->identity(), gpu_->features());
    served.like.gpu_uuid = gpu_->identity().uuid;
    served.like.gpu_name = gpu_->identity().name;
    served.like.simulated = system_->simulated();
  }
  served_ = std::make_unique<ServedRank>(std::move(served), lease_.get());
}

void Client::load_plan(const std::filesystem::path& path, std::optional<int> plan_rank, bool nearest_below) {
  std::string text = read_file(path, ipc::kMaxFrameBytes - ipc::kMaxStringBytes);
  const plan::Plan plan = plan::read_plan(text, path.string());
  const auto ranks = static_cast<int>(plan.ranks.size());
  const AxisRank own =
      plan_rank ? AxisRank{.rank = plan_rank, .reason = "plan_rank"} : pipeline_rank(options_.place, ranks);
  if (!own.rank) throw InputError(fmt::format("{}: {}", printable(path.string()), own.reason));
  const int rank = *own.rank;
  if (rank < 0 || rank >= ranks) {
    throw InputError(
        fmt::format("{}: there is no rank {} in this plan of {} ranks", printable(path.string()), rank, ranks));
  }
  keep_place(own, only_stage(plan.ranks[static_cast<std::size_t>(rank)]));
  refuse_what_differs();
  following_->require();
  if (!lease_) throw Error(gpu_problem_.empty() ? "no agent is used" : gpu_problem_);
  lease_->load_plan({.plan_rank = static_cast<std::uint32_t>(rank),
                     .nearest_below = nearest_below,
                     .plan_json = std::move(text),
                     .from_iteration = {}});
}

void Client::keep_place(const AxisRank& pipeline, std::optional<int> stage) {
  const std::lock_guard lock(place_mutex_);
  pipeline_ = pipeline;
  stage_ = stage;
}

void Client::describe_place(Status& status) {
  const std::lock_guard lock(place_mutex_);
  status.pp_rank = pipeline_.rank;
  status.stage = stage_;
  status.place = pipeline_.reason;
  if (pipeline_.rank && !stage_) {
    status.place = fmt::format(
        "pipeline rank {} ({}) has more than one stage, or one that is not known: name the stage "
        "with every unit",
        *pipeline_.rank, pipeline_.reason);
  }
}

void Client::iteration_begin() noexcept { iteration_begin({.number = training_.iteration}); }

void Client::iteration_begin(const IterationLabel& label) noexcept {
  if (training_.in_iteration) writer_->count_mismatch();
  training_.in_iteration = true;
  training_.iteration = label.number;
  training_.next.begin_iteration();
  expected_.iteration_begins(label.number);
  // Energy is known between samples: the recorded iterations need some of their neighbours.
  samples_recorded_.store(
      is_recorded(label.number) || is_recorded(label.number + 1) || (label.number > 0 && is_recorded(label.number - 1)),
      std::memory_order_relaxed);
  marks_->mark({.time_ns = event_time_ns(),
                .number = label.number,
                .type = ipc::UnitEventType::iteration_begin,
                .settling = label.settling});
}

void Client::iteration_end() noexcept {
  if (!training_.in_iteration) return writer_->count_mismatch();
  expected_.iteration_ends();
  marks_->mark({.time_ns = event_time_ns(), .number = training_.iteration, .type = ipc::UnitEventType::iteration_end});
  ++training_.iteration;
  training_.in_iteration = false;
}

void Client::unit_begin(UnitKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  if (microbatch == kNextMicrobatch) {
    const std::optional<std::uint32_t> next = training_.next.begin(kind, stage);
    if (!next) return writer_->count_mismatch();
    microbatch = *next;
  }
  expected_.unit_begins({.microbatch = microbatch, .stage = stage, .kind = kind});
  marks_->mark({.time_ns = event_time_ns(),
                .number = microbatch,
                .stage = stage,
                .kind = kind,
                .type = ipc::UnitEventType::unit_begin});
}

void Client::unit_end(UnitKind kind, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  if (microbatch == kNextMicrobatch) {
    const std::optional<std::uint32_t> last = training_.next.end(kind, stage);
    if (!last) return writer_->count_mismatch();
    microbatch = *last;
  }
  marks_->mark({.time_ns = event_time_ns(),
                .number = microbatch,
                .stage = stage,
                .kind = kind,
                .type = ipc::UnitEventType::unit_end});
}

bool Client::is_recorded(std::uint64_t iteration) const noexcept {
  return iteration >= options_.first_recorded_iteration &&
         iteration - options_.first_recorded_iteration < options_.recorded_iterations;
}

void Client::follow_again() {
  refuse_what_differs();
  following_->follow_again();
}

/// What the training thread has found is carried out by another one, as it takes system calls.
void Client::refuse_what_differs() {
  if (expected_.has_failed()) following_->refuse("the schedule differs: " + expected_.first_difference());
}

std::uint64_t Client::lost() const { return (log_ ? log_->lost() : 0) + marks_->lost(); }

measure::EnergyMeter::WindowId Client::window_begin(std::string name) {
  if (!meter_) throw Error(gpu_problem_);
  return meter_->begin(std::move(name));
}

measure::WindowMeasurement Client::window_end(measure::EnergyMeter::WindowId window) {
  if (!meter_) throw Error(gpu_problem_);
  return meter_->end(window);
}

/// The thread that runs next to training: keeps the lease, and hands on what was marked.
void Client::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(sleep_mutex_);
      wake_.wait_for(lock, stop, options_.drain_period, [] { return false; });
    }
    drain();
    refuse_what_differs();
    if (lease_) lease_->keep();
  }
}

void Client::drain() {
  if (!log_) return;
  const std::uint64_t now_ns = event_time_ns();
  if (served_) served_->take_samples();
  UnitRecord record;
  while (log_->pop(record)) {
    if (served_) served_->add(record);
    if (!recording_ || !is_recorded(record.iteration)) continue;
    recording_->write(record);
  }
  if (recording_) recording_->flush();
  if (!served_) return;
  const std::uint64_t lost = this->lost();
  if (std::exchange(lost_before_, lost) != lost) served_->lose_records();
  served_->advance_to(now_ns - kMarkingNs);
}

std::string Client::problem(const AgentLeaseStatus& lease) const {
  if (!gpu_problem_.empty()) return gpu_problem_;
  if (!lease.problem.empty()) return lease.problem;
  return options_.rank.conflict;
}

Status Client::status() {
  Status status;
  refuse_what_differs();
  status.units = writer_->units();
  status.mismatched = writer_->mismatched();
  status.lost = lost();
  status.differing_iterations = expected_.differing_iterations();
  status.difference = expected_.first_difference();
  status.not_following = following_->why_not();
  StreamMarksStatus stream = marks_->status();
  status.follow_stream = stream.follow_stream;
  status.stream_problem = std::move(stream.problem);
  if (gpu_ != nullptr) {
    status.gpu_uuid = gpu_->identity().uuid;
    status.simulated = system_->simulated();
  }
  const AgentLeaseStatus lease = lease_ ? lease_->status() : AgentLeaseStatus{};
  status.has_lease = lease.has_lease;
  status.has_plan = lease.has_plan;
  status.suspended = lease.suspended;
  status.dry_run = lease.dry_run;
  status.requested_clock_mhz = lease.requested_clock_mhz;
  status.reconnects = lease.reconnects;
  status.problem = problem(lease);
  describe_place(status);
  if (served_) {
    const ServedRankStatus served = served_->status();
    status.has_server = true;
    status.server_connected = served.server.connected;
    status.plan_version = served.plan_version;
    status.reports_lost = served.server.reports_lost;
    status.server_problem = served.server.problem;
  }
  if (status.problem.empty() && recording_) status.problem = recording_->problem();
  return status;
}

}  // namespace lowgear::client
