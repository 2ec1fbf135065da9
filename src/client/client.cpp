#include "client/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/log.h"
#include "base/core/monotonic_clock.h"
#include "base/core/text.h"
#include "client/marks/stream_driver.h"
#include "client/rank/gpu_choice.h"
#include "client/server/server_addresses.h"
#include "client/server/server_messages.h"
#include "hardware/gpu/nvml_survey.h"
#include "planning/plan/plan_json.h"
#include "protocol/json_members.h"

namespace lowgear::client {

namespace {

/// As one line for people.
std::string as_told(std::string_view reason) {
  const std::string text = fitting_text(reason, protocol::kMaxReasonBytes);
  return text.empty() ? "the program gives no reason" : text;
}

}  // namespace

void PlanFollowing::end(State state, std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::refused || state_ == state) return;
  state_ = state;
  reason_ = as_told(reason);
  if (lease_ != nullptr) lease_->withdraw(reason_);
  tell_server();
}

void PlanFollowing::follow_again() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::follows) return;
  if (state_ == State::refused) throw LeaseRefused(fmt::format("plans are refused for good: {}", reason_));
  state_ = State::follows;
  reason_.clear();
  if (lease_ != nullptr) lease_->ask_again();
  tell_server();
}

void PlanFollowing::set_lease_problem(std::string_view problem) {
  const std::lock_guard lock(mutex_);
  if (problem == lease_problem_) return;
  lease_problem_ = problem.empty() ? "" : as_told(problem);
  tell_server();
}

/// The mutex is held.
void PlanFollowing::tell_server() {
  if (served_ == nullptr) return;
  served_->set_refusal(fitting_text(reason_.empty() ? lease_problem_ : reason_, protocol::kMaxNameBytes));
}

std::string PlanFollowing::why_not() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

namespace {

/// Longest that the training thread is taken to need between reading the clock and marking what it read it for.
constexpr std::uint64_t kMarkingNs = 100'000'000;
constexpr std::size_t kMaxBatchRecords = std::size_t{1} << 20;
constexpr const char* kDryRun = "the agent changed no clocks, as it runs with --no-writes";

bool is_refusal(LeaseState state) { return state == LeaseState::busy || state == LeaseState::refused; }

/// Of a rank whose iterations all ran without a plan; `others`: of which some are known to have had another purpose.
std::string text_of_unfollowed(std::uint64_t iterations, const std::string& others, const std::string& problem) {
  if (others.empty()) return fmt::format("{} in {} iterations: {}", kNoPlanFollowed, iterations, problem);
  return fmt::format("of {} iterations none followed a plan: {}; {}", iterations, others.substr(2), problem);
}

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

/// Place and rank are one thing, which a launcher says once.
Options with_rank(Options options) {
  options.place.rank = options.rank.rank;
  options.place.world_size = options.rank.world_size_known ? std::optional(options.rank.world_size) : std::nullopt;
  return options;
}

/// The only stage of a rank, where that is certain without a plan.
std::optional<int> known_stage(const JobPlaceFacts& place) {
  const bool one_stage = !place.sizes || place.sizes->stage_is_pp_rank;
  return one_stage ? pipeline_rank(place).rank : std::nullopt;
}

/// A wrong word in the variable ends no training.
void heed_log_level(const Environment& environment) {
  try {
    set_log_level(environment);
  } catch (const InputError& error) {
    fmt::print(stderr, "lowgear: warning: {}\n", error.what());
  }
}

}  // namespace

Client::Client(Options options, const Environment& environment)
    : options_(with_rank(std::move(options))),
      start_ns_(event_time_ns()),
      gpu_(open_rank_gpu(options_.gpu, options_.rank.local_rank, environment)),
      place_(pipeline_rank(options_.place), known_stage(options_.place)),
      mark_file_(environment("LOWGEAR_ATTACHED_MARK").value_or("")),
      note_(mark_file_, random_text()) {
  heed_log_level(environment);
  if (!options_.recording.folder.empty()) open_recording();
  if (gpu_.gpu != nullptr && !options_.agent_socket.empty()) open_lease();
  if (!options_.server.address.empty()) open_server();
  if (recording_ || served_ || options_.measures_iterations) log_ = std::make_unique<UnitLog>();
  following_ = std::make_unique<PlanFollowing>(lease_.get(), served_.get());
  const std::string cuda = environment("LOWGEAR_CUDA").value_or("libcuda.so.1");
  marks_.emplace(lease_.get(), log_.get(), [cuda] { return open_cuda_stream_driver(cuda); });
  if (gpu_.gpu != nullptr) start_meter();
  // The thread that runs next to training: keeps the lease, and hands on what was marked.
  thread_.emplace(options_.drain_period, [this] {
    drain();
    refuse_what_differs();
    if (lease_) lease_->keep();
    watch_agent();
    keep_record();
  });
  if (!mark_file_.empty()) std::ofstream(mark_file_, std::ios::app);
  note_.write({.rank = options_.rank.rank});
}

Client::~Client() {
  if (failure_.empty() && std::uncaught_exceptions() > exceptions_) failure_ = "a C++ exception";
  marks_->use_stream(nullptr);  // what the GPU has not come to yet
  thread_.reset();
  meter_.reset();
  drain();
  refuse_what_differs();
  watch_agent();
  if (recording_) recording_->finish(lost(), failure_text_.empty() ? failure_ : failure_text_);
  watch_recording();
  leave_mark();
  if (served_ && has_failed()) served_->set_failure(failure_);
  served_.reset();
  lease_.reset();
}

/// Says once that it has ended before the training.
void Client::watch_recording() {
  if (!recording_ || recording_ended_) return;
  const std::string problem = recording_->problem();
  if (problem.empty()) return;
  recording_ended_ = true;
  fmt::print(stderr, "lowgear: warning: {}; training continues\n", problem);
}

/// Says once that the agent has gone, and once that it is back: the first rank of each machine, for all of them. Each
/// rank says that its own GPU is refused, and that it is leased after all; so does the server learn it.
void Client::watch_agent() {
  if (!lease_ || !(had_plan_ || log_)) return;
  const AgentLeaseStatus status = lease_->status();
  const LeaseState state = status.state;
  // Another agent may have taken the place of the last one since.
  if (state == LeaseState::held) following_->set_lease_problem(status.dry_run ? kDryRun : "");
  const LeaseState before = std::exchange(lease_state_, state);
  if (state == before) return;
  const std::string& gpu = gpu_.gpu->identity().uuid;
  const bool speaks = options_.rank.local_rank == 0 && (served_ || had_plan_);
  if (is_refusal(state)) {
    const bool is_shared = recording_ && state == LeaseState::busy;
    fmt::print(stderr, "lowgear: warning: no plan is followed on {}: {}{}\n", gpu, status.problem,
               is_shared ? ". In this recording, the energy of all that runs on this GPU counts as this job's" : "");
    following_->set_lease_problem(status.problem);
  } else if (state == LeaseState::held && is_refusal(before)) {
    const bool is_ignored = served_ && !registered_to_follow_ && !status.dry_run;
    fmt::print(stderr, "lowgear: info: the agent leases {} now{}\n", gpu,
               is_ignored ? "; plans of the server are followed from the next start of the job on" : "");
  } else if (state == LeaseState::lost && speaks) {
    fmt::print(stderr, "lowgear: warning: {}; training continues without plans\n", status.problem);
  } else if (state == LeaseState::held && before == LeaseState::lost && speaks) {
    fmt::print(stderr, "lowgear: info: the agent leases the GPU again\n");
  }
}

/// A file of this client alone.
std::string Client::beside_mark(std::string_view infix) const {
  return fmt::format("{}{}{}-{}", mark_file_, infix, ::getpid(), start_ns_);
}

/// What `lowgear run` says of plans where this process ends without a word, as by SIGTERM: a file next to the mark,
/// written anew each second.
void Client::keep_record() {
  if (mark_file_.empty() || options_.rank.rank != 0 || !(served_ || had_plan_)) return;
  const std::uint64_t iterations = marks_->written().iterations();
  const auto now = std::chrono::steady_clock::now();
  if (iterations == 0 || now - recorded_at_ < std::chrono::seconds(1)) return;
  recorded_at_ = now;
  const ServedRankStatus served = served_ ? served_->status() : ServedRankStatus{};
  const std::uint64_t planned = had_plan_ ? marks_->written().planned_iterations() : served.planned;
  const std::string others = had_plan_ ? "" : served.other_iterations(iterations);
  const std::string why = planned > 0 ? "" : why_unfollowed(served, lease_status());
  const std::string next = beside_mark(".next-");
  std::ofstream(next) << (why.empty()
                              ? fmt::format("plans were followed in {} of {} iterations{}", planned, iterations, others)
                              : text_of_unfollowed(iterations, others, why))
                      << '\n';
  std::error_code unknown;
  std::filesystem::rename(next, beside_mark(kRecordInfix), unknown);
}

/// A person's Ctrl-C is no failure of the rank.
bool Client::has_failed() const { return !failure_.empty() && failure_ != kStoppedByUser; }

/// Tells `lowgear run`, at whose mark the client began, what was followed, and what ended the recording and the rank.
/// No problem with it concerns the training.
void Client::leave_mark() {
  if (mark_file_.empty()) return;
  std::string text;
  if (options_.rank.rank == 0) text = followed();
  if (!text.empty()) text += '\n';
  if (recording_ended_) text += recording_->problem() + '\n';
  if (has_failed()) {
    text += fmt::format("rank {} failed ({})\n", options_.rank.rank, failure_);
  }
  std::error_code unknown;
  if (!text.empty() && std::filesystem::exists(mark_file_, unknown)) {
    std::ofstream(mark_file_, std::ios::app) << text;
  }
  std::filesystem::remove(beside_mark(kRecordInfix), unknown);
  note_.remove();
}

void Client::open_recording() {
  RecordingHeader header;
  header.rank = options_.rank.rank;
  header.world_size = options_.rank.world_size;
  header.job = options_.job;
  if (gpu_.gpu != nullptr) {
    header.gpu_uuid = gpu_.gpu->identity().uuid;
    header.gpu_name = gpu_.gpu->identity().name;
    header.driver_version = gpu_.system->driver_version();
    header.simulated = gpu_.simulated();
  }
  recording_ = std::make_unique<RankRecording>(options_.recording, std::move(header), start_ns_);
}

void Client::open_lease() {
  AgentLeaseOptions lease;
  lease.socket = options_.agent_socket;
  lease.hello.gpu = gpu_.gpu->identity().uuid;
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
      samples_.add(sample);
      if (recording_) recording_->write(sample);
    };
  }
  drained_.iterations = IterationMeter(measure::GpuMeter(*gpu_.gpu));
  meter_ = std::make_unique<measure::EnergyMeter>(*gpu_.system, std::vector<gpu::Gpu*>{gpu_.gpu}, std::move(meter));
  if (options_.measures_iterations) meter_->await_ready();
}

std::vector<int> Client::gpu_clocks_mhz() const {
  if (gpu_.gpu == nullptr || !works(*gpu_.gpu, gpu::GpuFeature::supported_clocks)) return {};
  return gpu_.gpu->supported_sm_clocks_mhz();
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
  if (gpu_.gpu == nullptr) return rank;
  rank.gpu_uuid = gpu_.gpu->identity().uuid;
  rank.gpu = gpu_.gpu->identity().name;
  rank.simulated = gpu_.simulated();
  rank.clocks_mhz = gpu_clocks_mhz();
  if (works(*gpu_.gpu, gpu::GpuFeature::power_limits)) rank.power_limit_w = gpu_.gpu->power_limits().enforced_w;
  const AgentLeaseStatus lease = lease_status();
  // A rank of a busy agent refuses plans until that leases the GPU to it.
  const bool has_agent = lease.state == LeaseState::busy || (lease.has_lease() && !lease.dry_run);
  rank.follows_plans = has_agent && !rank.clocks_mhz.empty();
  return rank;
}

void Client::open_server() {
  ServedRankOptions served;
  served.server.addresses = parse_server_addresses(options_.server.address);
  served.server.tls = options_.server.tls;
  served.server.token_file = options_.server.token_file;
  served.server.job_json =
      complete_job(options_.server.job_json, options_.rank, gpu_.gpu != nullptr ? gpu_.gpu->identity().name : "");
  served.server.rank = registration();
  registered_to_follow_ = served.server.rank.follows_plans;
  served.server.mark = mark_file_;
  served.start_ns = start_ns_;
  served.like.source = "rank " + std::to_string(options_.rank.rank);
  served.like.rank = options_.rank.rank;
  served.like.world_size = options_.rank.world_size;
  if (gpu_.gpu != nullptr) {
    served.like.gpu_uuid = gpu_.gpu->identity().uuid;
    served.like.gpu_name = gpu_.gpu->identity().name;
    served.like.simulated = gpu_.simulated();
  }
  served_ = std::make_unique<ServedRank>(std::move(served), lease_.get());
}

void Client::load_plan(const std::filesystem::path& path, std::optional<int> plan_rank, bool nearest_below) {
  load_plan_text(read_file(path, ipc::kMaxFrameBytes - ipc::kMaxStringBytes), path.string(), plan_rank, nearest_below);
}

void Client::load_plan_text(std::string text, const std::string& source, std::optional<int> plan_rank,
                            bool nearest_below) {
  const plan::Plan plan = plan::read_plan(text, source);
  had_plan_ = true;
  const auto ranks = static_cast<int>(plan.ranks.size());
  const AxisRank own =
      plan_rank ? AxisRank{.rank = plan_rank, .reason = "plan_rank"} : pipeline_rank(options_.place, ranks);
  if (!own.rank) throw InputError(fmt::format("{}: {}", printable(source), own.reason));
  const int rank = *own.rank;
  if (rank < 0 || rank >= ranks) {
    throw InputError(fmt::format("{}: there is no rank {} in this plan of {} ranks", printable(source), rank, ranks));
  }
  place_.set(own, only_stage(plan.ranks[static_cast<std::size_t>(rank)]));
  refuse_what_differs();
  if (const std::string why = following_->why_not(); !why.empty()) {
    throw LeaseRefused(fmt::format("plans are not followed: {}", why));
  }
  if (!lease_) throw Error(gpu_.problem.empty() ? "no agent is used" : gpu_.problem);
  log_debug(fmt::format("plan {}: handed to the agent as that of rank {}", source, rank));
  lease_->load_plan({.plan_rank = static_cast<std::uint32_t>(rank),
                     .nearest_below = nearest_below,
                     .plan_json = std::move(text),
                     .from_iteration = {}});
}

Client::IterationAnswer Client::plan_iteration(IterationPlan plan) {
  had_plan_ = true;
  const std::uint64_t iteration = plan.iteration;
  const double predicted_time_s = plan.predicted_time_s;
  const bool is_full = plan.full_from <= iteration;
  IterationAnswer answer = offer(std::move(plan));
  if (served_) served_->predict(iteration, predicted_time_s, is_full || !answer.refusal.empty());
  return answer;
}

Client::IterationAnswer Client::offer(IterationPlan plan) {
  if (std::string reason = following_->why_not(); !reason.empty()) return {std::move(reason), false};
  if (!lease_) return {gpu_.problem.empty() ? "no agent is used" : gpu_.problem, false};
  const ipc::TrialIterations full{.first_iteration = static_cast<std::uint32_t>(plan.full_from),
                                  .iterations = kUntilNextPlan,
                                  .clock_mhz = static_cast<std::uint32_t>(plan.full_clock_mhz)};
  AgentLease::OfferAnswer answer = lease_->offer({.plan_rank = 0,
                                                  .nearest_below = false,
                                                  .plan_json = std::move(plan.plan_json),
                                                  .from_iteration = {},
                                                  .trials = {full}},
                                                 plan.iteration, 0);
  if (answer.offer == AgentLease::Offer::accepted) return {};
  if (answer.offer == AgentLease::Offer::too_late) return {"its plan came too late", true};
  return {std::move(answer.reason), answer.offer != AgentLease::Offer::no_lease};
}

void Client::follow_again() {
  refuse_what_differs();
  following_->follow_again();
}

void Client::report(protocol::TrainingDecision decision) {
  decision = sendable(std::move(decision));
  if (served_) served_->report(std::move(decision));
}

void Client::set_work(protocol::JobWork work) {
  work = sendable(std::move(work));
  if (served_) served_->set_work(std::move(work));
}

/// Refuses plans if the training thread has found another schedule. Runs on another thread, as it makes system calls.
void Client::refuse_what_differs() {
  const ExpectedUnits& expected = marks_->expected();
  if (expected.has_failed()) following_->refuse("the schedule differs: " + expected.first_difference());
}

std::uint64_t Client::lost() const { return (log_ ? log_->lost() : 0) + marks_->stream().lost(); }

measure::EnergyMeter::WindowId Client::window_begin(std::string name) {
  if (!meter_) throw Error(gpu_.problem);
  return meter_->begin(std::move(name));
}

measure::WindowMeasurement Client::window_end(measure::EnergyMeter::WindowId window) {
  if (!meter_) throw Error(gpu_.problem);
  return meter_->end(window);
}

void Client::stagger(std::uint64_t number) {
  const double wait_s = served_ ? served_->take_wait_s(number) : 0;
  if (!(wait_s > 0)) return;
  marks_->wait_for_gpu();  // a host that is ahead of its GPU by more than the wait would delay nothing
  std::this_thread::sleep_for(std::chrono::duration<double>(wait_s));
}

/// Feeds the meter; `drained_.mutex` is held. The log keeps what a batch has no room for, and counts what it loses.
void Client::measure() {
  const std::uint64_t now_ns = event_time_ns();
  Batch& batch = drained_.batch;
  for (const measure::GpuSample& sample : samples_.take()) {
    drained_.iterations.add(sample);
    batch.samples.push_back(sample);
  }
  UnitRecord record;
  while (batch.records.size() < kMaxBatchRecords && log_->pop(record)) {
    std::optional<MeasuredIteration> measured = drained_.iterations.add(record);
    if (measured) drained_.newest = measured;
    batch.records.emplace_back(record, std::move(measured));
  }
  if (const std::uint64_t lost_now = lost(); std::exchange(drained_.lost, lost_now) != lost_now) {
    drained_.iterations.lose_iteration();
    batch.lost = true;
  }
  drained_.iterations.advance_to(now_ns - kMarkingNs);
}

/// Server and recording may take long (a fit, a slow disk): they work without the lock, which the training thread
/// takes.
void Client::drain() {
  if (!log_) return;
  Batch batch;
  {
    const std::lock_guard lock(drained_.mutex);
    measure();
    batch = std::exchange(drained_.batch, {});
  }
  if (served_) served_->add(batch.samples);
  for (const auto& [record, measured] : batch.records) {
    if (served_) served_->add(record, measured);
    if (recording_) recording_->write(record);
  }
  if (recording_ && lease_) recording_->set_clock_lead(lease_->clock_lead_s());
  if (recording_) recording_->flush();
  watch_recording();
  if (served_ && batch.lost) served_->lose_iteration();
}

std::optional<MeasuredIteration> Client::measured_iteration(std::uint64_t number) {
  if (!log_) return std::nullopt;
  const std::lock_guard lock(drained_.mutex);
  measure();
  return drained_.newest && drained_.newest->iteration == number ? drained_.newest : std::nullopt;
}

AgentLeaseStatus Client::lease_status() const { return lease_ ? lease_->status() : AgentLeaseStatus{}; }

std::string Client::problem(const AgentLeaseStatus& lease) const {
  if (!gpu_.problem.empty()) return gpu_.problem;
  if (!lease.problem.empty()) return lease.problem;
  return options_.rank.conflict;
}

/// As server, agent and program say it; empty: none does.
std::string Client::why_unfollowed(const ServedRankStatus& served, const AgentLeaseStatus& lease) const {
  // What to do about the server was said when it was first asked.
  std::string problem = served.server.problem.substr(0, served.server.problem.find("; "));
  std::string here = following_->why_not();
  if (here.empty()) here = this->problem(lease);
  if (here.empty()) here = lease.missed;
  // The server's plan may have been refused for the same reason.
  const std::string_view reason = std::string_view(here).substr(0, here.find("; "));
  if (!here.empty() && problem.ends_with(reason)) return problem.substr(0, problem.size() - reason.size()) + here;
  // Both have to be mended before a plan is followed.
  if (!here.empty()) problem += (problem.empty() ? "" : "; ") + here;
  return problem;
}

std::string Client::followed() {
  if (!served_ && !had_plan_ && !step_note_) return "";
  constexpr int kMostWaits = 20;
  const std::uint64_t iterations = marks_->written().iterations();
  ServedRankStatus served = served_ ? served_->status() : ServedRankStatus{};
  // The thread that runs next to training hands iterations on a little later.
  for (int i = 0; served_ && served.iterations < iterations && i < kMostWaits; ++i) {
    std::this_thread::sleep_for(options_.drain_period);
    served = served_->status();
  }
  refuse_what_differs();
  const AgentLeaseStatus lease = lease_status();
  const std::string dry = lease.dry_run ? fmt::format("; {}", kDryRun) : "";
  std::string problem = why_unfollowed(served, lease);
  if (step_note_) {
    const std::uint64_t planned = marks_->written().planned_iterations();
    const std::string why = planned == 0 && !problem.empty() ? ": " + problem : "";
    return fmt::format("step clocks were followed in {} of {} iterations{}{}{}{}", planned, iterations,
                       step_note_->empty() ? "" : "; of the others ", *step_note_, dry, why);
  }
  const std::uint64_t planned = had_plan_ ? marks_->written().planned_iterations() : served.planned;
  const std::string others = had_plan_ ? "" : served.other_iterations(iterations);
  if (planned > 0) {
    const std::string why = planned == iterations || lease.missed.empty() ? "" : "; " + lease.missed;
    return fmt::format("{} were followed in {} of {} iterations{}{}{}", plans_, planned, iterations, others, why, dry);
  }
  if (problem.empty() && !had_plan_ && served.at_full_clocks == 0 && !failure_.empty()) {
    problem = fmt::format("the rank {} before a plan for training came", text_of_failure(failure_));
  } else if (problem.empty() && marks_->written().units() == 0) {
    problem =
        "no unit was marked, and a plan sets clocks for units; a job without a pipeline can search its clock: lowgear "
        "run --search slowdown=2%";
  } else if (problem.empty() && had_plan_) {
    problem = "none was there when an iteration began";
  } else if (problem.empty()) {
    problem = "the server says why: GET /v1/jobs, or its dashboard if it has one (lowgear serve --listen)";
  }
  return text_of_unfollowed(iterations, others, problem);
}

Status Client::status() {
  Status status;
  refuse_what_differs();
  status.units = marks_->written().units();
  status.mismatched = marks_->written().mismatched();
  status.lost = lost();
  status.differing_iterations = marks_->expected().differing_iterations();
  status.difference = marks_->expected().first_difference();
  status.not_following = following_->why_not();
  StreamMarksStatus stream = marks_->stream().status();
  status.follow_stream = stream.follow_stream;
  status.stream_problem = std::move(stream.problem);
  if (gpu_.gpu != nullptr) status.gpu_uuid = gpu_.gpu->identity().uuid;
  status.simulated = gpu_.simulated();
  const AgentLeaseStatus lease = lease_status();
  status.has_lease = lease.has_lease();
  status.has_plan = lease.has_plan;
  status.suspended = lease.suspended;
  status.dry_run = lease.dry_run;
  status.requested_clock_mhz = lease.requested_clock_mhz;
  status.reconnects = lease.reconnects;
  status.problem = problem(lease);
  KnownPlace::Place place = place_.get();
  status.pp_rank = place.pp_rank;
  status.stage = place.stage;
  status.place = std::move(place.text);
  if (served_) {
    const ServedRankStatus served = served_->status();
    status.has_server = true;
    status.server_connected = served.server.connected;
    status.plan_version = served.plan_version;
    status.reports_lost = served.server.reports_lost;
    status.decisions_waiting = served.server.decisions_waiting;
    status.decisions_lost = served.server.decisions_lost;
    status.server_problem = served.server.problem;
  }
  if (status.problem.empty() && recording_) status.problem = recording_->problem();
  if (status.problem.empty() && meter_) status.problem = meter_->counter_problem();
  return status;
}

}  // namespace lowgear::client
