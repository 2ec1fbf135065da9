#include "client/agent/agent_lease.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "client/measure/unit_log.h"

namespace lowgear::client {

namespace {

/// Its trials that end with the next plan; null: it has none.
const ipc::TrialIterations* last_trials(const ipc::PlanMessage& plan) {
  const auto found = std::ranges::find(plan.trials, kUntilNextPlan, &ipc::TrialIterations::iterations);
  return found == plan.trials.end() ? nullptr : &*found;
}

/// `clock_lead_s` of a plan that an agent has checked; it may be newer than this library.
double lead_of(const std::string& plan_json) {
  const Json plan = Json::parse(plan_json, nullptr, false);
  const auto lead = plan.find("clock_lead_s");
  return lead != plan.end() && lead->is_number() ? lead->get<double>() : 0;
}

}  // namespace

void HeldPlans::follow_now(HeldPlan plan, std::uint64_t begun) {
  are_single_ = false;
  plan.from_iteration = begun;
  versions_.follow(begun, plan.version);
  current_ = std::move(plan);
  followed_ = true;
}

void HeldPlans::follow_later(HeldPlan plan, std::uint64_t begun) {
  if (next_) {
    versions_.forget_from(next_->from_iteration);
    if (begun > next_->from_iteration) versions_.follow(next_->from_iteration, 0);
  }
  versions_.follow(plan.from_iteration, plan.version);
  const ipc::TrialIterations* const last = last_trials(plan.message);
  are_single_ = last != nullptr;
  if (last != nullptr) {
    const bool has_clocks = last->first_iteration != static_cast<std::uint32_t>(plan.from_iteration);
    single_[plan.from_iteration % single_.size()] = has_clocks ? plan.from_iteration + 1 : 0;
  }
  next_ = std::move(plan);
}

bool HeldPlans::begin_next(std::uint64_t begun, bool with_agent) {
  if (!next_ || begun <= next_->from_iteration) return false;
  current_ = std::exchange(next_, std::nullopt);
  followed_ = with_agent;
  return true;
}

std::optional<HeldPlan> HeldPlans::take_next() { return std::exchange(next_, std::nullopt); }

std::optional<HeldPlan> HeldPlans::current_again() const {
  if (!current_ || last_trials(current_->message) != nullptr) return std::nullopt;
  HeldPlan again = *current_;
  again.message.from_iteration.reset();
  if (!std::exchange(again.message.trials, {}).empty()) again.version = 0;
  return again;
}

void HeldPlans::forget_single() {
  for (std::atomic<std::uint64_t>& iteration : single_) iteration = 0;
}

void HeldPlans::lose_agent(std::uint64_t begun) {
  followed_ = false;
  forget_single();
  follow_none(begun);
}

void HeldPlans::forget() {
  current_.reset();
  next_.reset();
}

void HeldPlans::forget_versions(std::uint64_t begun) {
  follow_none(begun);
  if (current_) current_->version = 0;
  if (next_) next_->version = 0;
}

namespace {

/// The agent counts iterations modulo 2^32: a plan may begin at most half of that ahead.
constexpr std::uint64_t kMaxIterationsAhead = (std::uint64_t{1} << 31U) - 1;

/// Which units the plan that is followed does not name; empty: it names all that began.
std::string unplanned_problem(const ipc::UnitRing& ring, std::uint32_t rank) {
  const std::uint64_t units = ring.unplanned_units.load(std::memory_order_acquire);
  if (units == 0) return {};
  const ipc::UnitEvent unit = ipc::unpack_unit(0, ring.unplanned_unit.load(std::memory_order_relaxed));
  const std::string_view kind = unit.kind < kOpKindCount ? name(static_cast<OpKind>(unit.kind)) : "unit";
  return fmt::format(
      "the plan has no {} of stage {}, microbatch {} for rank {}: no clock is set for the units that it does not name, "
      "{} so far",
      kind, unit.stage, unit.microbatch, rank, units);
}

}  // namespace

AgentLease::AgentLease(AgentLeaseOptions options) : options_(std::move(options)) {
  const std::lock_guard lock(mutex_);
  connect();
}

AgentLease::~AgentLease() {
  if (agent_) agent_->release();
}

void AgentLease::connect() {
  asked_at_ = std::chrono::steady_clock::now();
  try {
    agent_ = std::make_unique<AgentConnection>(options_.socket, options_.hello, options_.timeout);
    problems_.lease.clear();
    rings_.push_back(agent_->ring());
    ring_.store(&rings_.back()->ring(), std::memory_order_release);
    state_ = LeaseState::held;
  } catch (const GpuHeld& error) {
    set_unleased(LeaseState::busy, error.what());
  } catch (const LeaseRefused& error) {
    set_unleased(LeaseState::refused, error.what());
  } catch (const Error& error) {
    set_unleased(rings_.empty() ? LeaseState::none : LeaseState::lost, error.what());
  }
}

void AgentLease::set_unleased(LeaseState state, std::string problem) {
  state_ = state;
  problems_.missed = "for a time the GPU was not leased: " + problem;
  problems_.lease = std::move(problem);
}

void AgentLease::connect_again() {
  connect();
  if (agent_) ++reconnects_;
}

/// The agent has gone, or sends what is not understood: clocks go back, and the iteration under way follows no plan.
void AgentLease::lose(std::string problem) {
  begin_next();
  ring_.store(nullptr, std::memory_order_release);
  agent_.reset();
  plans_.lose_agent(begun());
  set_unleased(LeaseState::lost, std::move(problem));
}

/// Forgets the loaded plans, so that they do not return when the program loads a plan for its next lease.
void AgentLease::give_up(std::string_view reason) {
  lose(fmt::format("the lease was ended: {}; the GPU is asked for again when the program loads a plan", reason));
  forget_plans();
  given_up_ = true;
}

void AgentLease::forget_plans() {
  loaded_.reset();
  plans_.forget();
  problems_.plan.clear();
}

void AgentLease::withdraw(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  if (agent_) agent_->release();
  lose(fmt::format("plans are not followed: {}", reason));
  forget_plans();
  state_ = LeaseState::none;
  withdrawn_ = true;
}

void AgentLease::ask_again() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(withdrawn_, false) || given_up_) return;
  connect_again();
}

ipc::PlanAnswer AgentLease::send(const ipc::PlanMessage& plan) {
  try {
    ipc::PlanAnswer answer = agent_->send_plan(plan, options_.timeout);
    if (std::holds_alternative<ipc::AcceptedMessage>(answer)) {
      clock_lead_s_ = std::max(clock_lead_s(), lead_of(plan.plan_json));
    }
    return answer;
  } catch (const LeaseEnded& ended) {
    give_up(ended.what());
    throw LeaseRefused(problems_.lease);
  } catch (const Error& error) {
    // Whether it has the plan is not known, nor which answer comes next.
    lose(error.what());
    throw;
  }
}

void AgentLease::follow_now(HeldPlan plan) {
  plans_.follow_now(std::move(plan), begun());
  problems_.lease.clear();
}

void AgentLease::begin_next() {
  const bool with_agent = agent_ != nullptr;
  if (plans_.begin_next(begun(), with_agent) && with_agent) problems_.lease.clear();  // that of the plan before
}

void AgentLease::load_plan(ipc::PlanMessage plan) {
  const std::lock_guard lock(mutex_);
  if (withdrawn_) throw LeaseRefused(problems_.lease);
  begin_next();
  loaded_ = std::move(plan);
  if (std::exchange(given_up_, false)) connect_again();
  if (!agent_) throw Error(problems_.lease);
  if (const std::optional<std::string> refusal = hand_over_loaded()) throw LeaseRefused(*refusal);
}

/// The plan that the program has loaded takes the place of all others, unless the agent refuses it, for the reason that
/// is returned: what was followed before is then followed on.
std::optional<std::string> AgentLease::hand_over_loaded() {
  const ipc::PlanAnswer answer = send(*loaded_);
  HeldPlan plan{.message = *std::exchange(loaded_, std::nullopt), .from_iteration = 0, .version = 0};
  if (const auto* refused = std::get_if<ipc::RefusedMessage>(&answer)) {
    problems_.plan = fmt::format("the plan loaded last was refused: {}", refused->reason);
    return refused->reason;
  }
  problems_.plan.clear();
  (void)plans_.take_next();
  follow_now(std::move(plan));
  return std::nullopt;
}

AgentLease::OfferAnswer AgentLease::offer(ipc::PlanMessage plan, std::uint64_t from_iteration, int version) {
  const std::lock_guard lock(mutex_);
  begin_next();
  if (!agent_) return {.offer = Offer::no_lease, .reason = problems_.lease};
  const std::uint64_t begun_now = begun();
  if (from_iteration < begun_now) return {.offer = Offer::too_late, .reason = {}};
  if (from_iteration - begun_now > kMaxIterationsAhead) {
    return {.offer = Offer::refused, .reason = fmt::format("iteration {} is too far ahead", from_iteration)};
  }
  plan.from_iteration = static_cast<std::uint32_t>(from_iteration);
  ipc::PlanAnswer answer;
  try {
    answer = send(plan);
  } catch (const Error& error) {
    return {.offer = Offer::no_lease, .reason = error.what()};
  }
  if (const auto* refused = std::get_if<ipc::RefusedMessage>(&answer)) {
    return {.offer = Offer::refused, .reason = refused->reason};
  }
  if (std::holds_alternative<ipc::TooLateMessage>(answer)) return {.offer = Offer::too_late, .reason = {}};
  problems_.lease.clear();
  problems_.plan.clear();
  plans_.follow_later({.message = std::move(plan), .from_iteration = from_iteration, .version = version}, begun());
  return {.offer = Offer::accepted, .reason = {}};
}

void AgentLease::keep() {
  const std::lock_guard lock(mutex_);
  begin_next();
  look_at_clocks();
  if (agent_) look_after_agent();
  if (agent_ || given_up_ || withdrawn_) return;
  if (std::chrono::steady_clock::now() - asked_at_ < options_.reconnect_after) return;
  connect_again();
  if (!agent_) return;
  try {
    hand_over_again();
  } catch (const Error&) {
    // The lease is lost, and the problem says why.
  }
}

void AgentLease::look_at_clocks() {
  if (!agent_ || agent_->ring()->ring().clocks_not_held.load(std::memory_order_acquire) == 0) return;
  problems_.missed = "the agent could not set the plan's clocks; lowgear agent status or its log says why";
}

void AgentLease::look_after_agent() {
  try {
    agent_->check();
  } catch (const LeaseEnded& ended) {
    give_up(ended.what());
  } catch (const Error&) {
    lose("the agent has ended; requesting the GPU again");
  }
}

/// A plan that was loaded meanwhile comes first. The plan that was followed begins at once, in the midst of an
/// iteration, and counts from the next; one that waits for its iteration keeps waiting.
void AgentLease::hand_over_again() {
  begin_next();
  if (loaded_ && !hand_over_loaded()) return;
  if (std::optional<HeldPlan> again = plans_.current_again()) hand_over_current(*std::move(again));
  hand_over_next();
}

void AgentLease::hand_over_current(HeldPlan again) {
  const ipc::PlanAnswer answer = send(again.message);
  if (const auto* refused = std::get_if<ipc::RefusedMessage>(&answer)) {
    problems_.lease = fmt::format("the plan is now refused: {}", refused->reason);
    return;
  }
  follow_now(std::move(again));
}

/// It waits, and its version counts, only once this agent has taken it; `lose` has forgotten the version.
void AgentLease::hand_over_next() {
  std::optional<HeldPlan> waiting = plans_.take_next();
  if (!waiting || waiting->from_iteration < begun()) return;
  if (!std::holds_alternative<ipc::AcceptedMessage>(send(waiting->message))) return;
  plans_.follow_later(*std::move(waiting), begun());
}

void AgentLease::forget_versions() {
  const std::lock_guard lock(mutex_);
  plans_.forget_versions(begun());
}

int AgentLease::plan_version(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  return plans_.version_of(iteration);
}

AgentLeaseStatus AgentLease::status() {
  const std::lock_guard lock(mutex_);
  begin_next();
  look_at_clocks();
  AgentLeaseStatus status;
  status.state = state_;
  status.has_plan = plans_.followed();
  status.reconnects = reconnects_;
  status.problem = !problems_.lease.empty() ? problems_.lease : problems_.plan;
  status.missed = problems_.missed;
  if (!agent_) return status;
  status.dry_run = agent_->lease().dry_run;
  const ipc::UnitRing& ring = agent_->ring()->ring();
  status.suspended = ring.state.load() == static_cast<std::uint32_t>(ipc::RingState::suspended);
  status.requested_clock_mhz = ring.requested_clock_mhz.load();
  if (status.problem.empty() && plans_.followed()) status.problem = unplanned_problem(ring, options_.hello.rank);
  return status;
}

}  // namespace lowgear::client
