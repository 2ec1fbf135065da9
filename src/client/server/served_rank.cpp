#include "client/server/served_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "base/core/formats/json.h"
#include "client/server/server_messages.h"

namespace lowgear::client {

namespace {

/// Iterations that were waited for or predicted, and whose reports are still to come.
constexpr std::size_t kMostTaken = 1'000;

}  // namespace

void IterationWaits::set(const protocol::ReportsAnswer& answer) {
  wants_begins_.store(answer.wants_begins, std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  asked_ = answer.delays;
}

void IterationWaits::set_iteration_s(double time_s) {
  const std::lock_guard lock(mutex_);
  iteration_s_ = time_s;
}

double IterationWaits::take_s(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  newest_ = std::max(newest_.value_or(0), iteration);
  if (!asked_ || (!taken_.empty() && taken_.back().first >= iteration)) return 0;
  const std::int64_t since = static_cast<std::int64_t>(iteration) - asked_->from_iteration;
  if (since < 0 || since >= asked_->iterations) return 0;
  const double wait_s = std::min(asked_->delay_s, kMostShare * iteration_s_);
  if (taken_.size() == kMostTaken) taken_.pop_front();
  taken_.emplace_back(iteration, wait_s);
  return wait_s;
}

bool IterationWaits::can_wait(std::uint64_t iteration) const {
  const std::lock_guard lock(mutex_);
  return newest_ && *newest_ >= iteration;
}

double IterationWaits::taken_s(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  while (!taken_.empty() && taken_.front().first < iteration) taken_.pop_front();
  return !taken_.empty() && taken_.front().first == iteration ? taken_.front().second : 0;
}

namespace {

/// Of a time of CLOCK_MONOTONIC, by the clock that reports say when they are sent by.
double unix_time_s(std::uint64_t time_ns) {
  const auto ago = std::chrono::steady_clock::now().time_since_epoch() - std::chrono::nanoseconds(time_ns);
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch() - ago).count();
}

/// Whether the GPU runs at other clocks than the plan's, as the agent cannot set them now.
bool clocks_are_not_held(const AgentLease& lease) {
  const ipc::UnitRing* const ring = lease.ring();
  return ring != nullptr && ring->clocks_not_held.load(std::memory_order_acquire) != 0;
}

/// Reports have members that only some policies need.
std::optional<protocol::JobPolicy> policy_of(const std::string& job_json) {
  const Json job = Json::parse(job_json, nullptr, /*allow_exceptions=*/false);
  const Json policy = job.is_object() ? job.value("policy", Json()) : Json();
  return policy.is_string() ? protocol::find_job_policy(policy.get<std::string>()) : std::nullopt;
}

}  // namespace

ServedRank::ServedRank(ServedRankOptions options, AgentLease* lease)
    : lease_(lease),
      profile_(std::move(options.like), options.start_ns),
      policy_(policy_of(options.server.job_json)),
      server_(std::move(options.server), *this) {}

void ServedRank::add(std::span<const measure::GpuSample> samples) {
  std::optional<ProfileRequest> asked;
  {
    const std::lock_guard lock(mutex_);
    asked = std::exchange(asked_, std::nullopt);
    if (std::exchange(forgets_profile_, false)) profile_.reset();
  }
  if (asked) {
    post(profile_.finish());
    profile_.begin(*std::move(asked));
  }
  for (const measure::GpuSample& sample : samples) {
    profile_.add(sample);
    gpu_means_.set_temperature(sample.temperature_c);
  }
}

void ServedRank::add(const UnitRecord& record, const std::optional<MeasuredIteration>& measured) {
  if (record.type == RecordType::iteration_end) {
    int version = lease_ != nullptr ? lease_->plan_version(record.iteration) : 0;
    // It says nothing about the plan, nor about how fast this rank is at the plan's clocks.
    if (lease_ != nullptr && clocks_are_not_held(*lease_)) version = 0;
    plan_version_.store(version, std::memory_order_relaxed);
    follow_profile_plan(version);
    count_iteration(version);
  }
  if (measured) report(*measured);
  post(profile_.add(record));
}

/// The server counts an iteration once: what training repeats after it has gone back to a checkpoint is not reported.
void ServedRank::report(const MeasuredIteration& measured) {
  gpu_means_.add(measured);
  if (newest_reported_ && measured.iteration <= *newest_reported_) return server_.hear(gpu_means_.now());
  newest_reported_ = measured.iteration;
  protocol::IterationReport report = report_of(measured, plan_version_.load(std::memory_order_relaxed));
  waits_.set_iteration_s(measured.time_s);
  if (waits_.wants_begins()) {
    report.begin_s = unix_time_s(measured.begin_ns);
    report.delay_s = waits_.taken_s(measured.iteration);
    report.cannot_wait = !waits_.can_wait(measured.iteration);
  }
  const bool decides_by_waits = policy_ == protocol::JobPolicy::envpipe;
  if (decides_by_waits && measured.wait_s.size() <= protocol::kMaxReportedWaits) report.wait_s = measured.wait_s;
  if (policy_ == protocol::JobPolicy::steps) add_prediction(measured, report);
  server_.report(report, gpu_means_.now());
}

void ServedRank::predict(std::uint64_t iteration, double time_s, bool full_clocks) {
  const std::lock_guard lock(mutex_);
  predictions_[iteration] = {.time_s = time_s, .full_clocks = full_clocks};
  if (predictions_.size() > kMostTaken) predictions_.erase(predictions_.begin());
}

void ServedRank::add_prediction(const MeasuredIteration& measured, protocol::IterationReport& report) {
  const auto is_stated = [](double time_s) {
    return time_s >= protocol::kMinIterationS && time_s <= protocol::kMaxIterationS;
  };
  if (is_stated(measured.units_s)) report.units_time_s = measured.units_s;
  const std::lock_guard lock(mutex_);
  const auto found = predictions_.find(measured.iteration);
  report.full_clocks = found == predictions_.end() || found->second.full_clocks;
  if (found != predictions_.end() && is_stated(found->second.time_s)) report.predicted_time_s = found->second.time_s;
  predictions_.erase(predictions_.begin(), predictions_.upper_bound(measured.iteration));
}

/// Under the lock: a result is either handed over before the server's new job begins, which drops it, or not at all.
void ServedRank::post(std::optional<ProfileResult> result) {
  const std::lock_guard lock(mutex_);
  if (result && !forgets_profile_) server_.post(*std::move(result));
}

/// Units that ran while the agent was away had no clock held for them. A newer plan ends what is measured.
void ServedRank::follow_profile_plan(int version) {
  const auto& request = profile_.request();
  if (!request || version == request->plan_version) return;
  profile_.discard_iteration();
  if (version > request->plan_version) post(profile_.finish());
}

void ServedRank::count_iteration(int version) {
  const std::lock_guard lock(mutex_);
  ++iterations_;
  const auto purpose = purposes_.find(version);
  if (purpose == purposes_.end()) {
    if (planned_ + measured_ + at_full_clocks_ == 0) ++before_plans_;
    return;
  }
  switch (purpose->second) {
    case protocol::PlanPurpose::train:
      ++planned_;
      break;
    case protocol::PlanPurpose::full_clocks:
      ++at_full_clocks_;
      break;
    case protocol::PlanPurpose::baseline:
    case protocol::PlanPurpose::profile:
      ++measured_;
      break;
  }
}

std::string ServedRankStatus::other_iterations(std::uint64_t all) const {
  const std::uint64_t with_plan = planned + measured + at_full_clocks;
  if (with_plan == 0) return "";
  std::string others;
  if (measured > 0) others += fmt::format("; in {} the server measured the job", measured);
  if (at_full_clocks > 0) others += fmt::format("; {} ran at full clocks in place of a plan", at_full_clocks);
  if (before_plans > 0) others += fmt::format("; {} ran before the server's first plan", before_plans);
  const std::uint64_t known = with_plan + before_plans;
  if (all > known) others += fmt::format("; in {} the agent held no plan's clocks", all - known);
  return others;
}

AgentLease::OfferAnswer ServedRank::offer(const protocol::RankPlan& plan) {
  if (lease_ == nullptr) return {.offer = AgentLease::Offer::no_lease, .reason = "no agent is used"};
  ipc::PlanMessage message{.plan_rank = 0, .nearest_below = false, .plan_json = plan.plan_json, .from_iteration = {}};
  for (const plan::ClockTrial& trial : plan.trials) {
    message.trials.push_back({.first_iteration = static_cast<std::uint32_t>(trial.first_iteration),
                              .iterations = static_cast<std::uint32_t>(trial.iterations),
                              .clock_mhz = static_cast<std::uint32_t>(trial.clock_mhz)});
  }
  const auto from_iteration = static_cast<std::uint64_t>(plan.from_iteration);
  AgentLease::OfferAnswer answer = lease_->offer(std::move(message), from_iteration, plan.version);
  if (answer.offer != AgentLease::Offer::accepted) return answer;
  const std::lock_guard lock(mutex_);
  purposes_[plan.version] = plan.purpose;
  asked_.reset();
  if (plan.purpose == protocol::PlanPurpose::profile) {
    asked_ = {.plan_version = plan.version,
              .sweep = plan.sweep,
              .from_iteration = from_iteration,
              .trials = plan.trials,
              .settle_iterations = plan.settle_iterations,
              .settle_s = plan.settle_s};
  }
  return answer;
}

void ServedRank::forget_versions() {
  if (lease_ != nullptr) lease_->forget_versions();
  const std::lock_guard lock(mutex_);
  asked_.reset();
  forgets_profile_ = true;
}

ServedRankStatus ServedRank::status() const {
  const std::lock_guard lock(mutex_);
  return {.server = server_.status(),
          .plan_version = plan_version_.load(std::memory_order_relaxed),
          .iterations = iterations_,
          .planned = planned_,
          .measured = measured_,
          .at_full_clocks = at_full_clocks_,
          .before_plans = before_plans_};
}

}  // namespace lowgear::client
