#include "client/served_rank.h"

#include <utility>

namespace lowgear {
namespace {

/// Samples that wait for `take_samples`, which comes several times a second.
constexpr std::size_t kMaxNewSamples = 4'096;

/// Whether the GPU runs at other clocks than the plan's, as the agent cannot set them now.
bool clocks_are_not_held(const AgentLease& lease) {
  const UnitRing* const ring = lease.ring();
  return ring != nullptr && ring->clocks_not_held.load(std::memory_order_acquire) != 0;
}

}  // namespace

ServedRank::ServedRank(ServedRankOptions options, AgentLease* lease)
    : lease_(lease),
      iterations_(std::move(options.gpu)),
      profile_(std::move(options.like), options.start_ns),
      server_(std::move(options.server), *this) {}

void ServedRank::add(const GpuSample& sample) {
  const std::lock_guard lock(mutex_);
  if (new_samples_.size() < kMaxNewSamples) new_samples_.push_back(sample);
}

void ServedRank::take_samples() {
  std::vector<GpuSample> samples;
  {
    const std::lock_guard lock(mutex_);
    samples.swap(new_samples_);
    if (asked_) profile_.begin(*std::exchange(asked_, std::nullopt));
  }
  for (const GpuSample& sample : samples) {
    iterations_.add(sample);
    profile_.add(sample);
    gpu_now_ = {.power_w = sample.power_w, .sm_clock_mhz = sample.sm_clock_mhz, .temperature_c = sample.temperature_c};
  }
}

void ServedRank::add(const UnitRecord& record) {
  if (record.type == RecordType::iteration_end) {
    int version = lease_ != nullptr ? lease_->plan_version(record.iteration) : 0;
    // It says nothing about the plan, nor about how fast this rank is at the plan's clocks.
    if (lease_ != nullptr && clocks_are_not_held(*lease_)) version = 0;
    plan_version_.store(version, std::memory_order_relaxed);
    follow_profile_plan(record.iteration, version);
  }
  const std::optional<MeasuredIteration> measured = iterations_.add(record);
  if (measured) {
    server_.report({.measured = *measured, .plan_version = plan_version_.load(std::memory_order_relaxed)}, gpu_now_);
  }
  if (std::optional<ProfileResult> result = profile_.add(record)) server_.post(*std::move(result));
}

/// Units that ran while the agent was away had no clock held for them: what is measured begins anew once it is back.
void ServedRank::follow_profile_plan(std::uint64_t iteration, int version) {
  const std::lock_guard lock(mutex_);
  const auto& request = profile_.request();
  if (request && iteration >= request->from_iteration && version != request->plan_version) {
    interrupted_ = request;
    profile_.cancel();
  } else if (interrupted_ && version == interrupted_->plan_version) {
    interrupted_->from_iteration = iteration;
    profile_.begin(*std::exchange(interrupted_, std::nullopt));
  }
}

void ServedRank::lose_records() {
  iterations_.lose_iteration();
  if (const auto request = profile_.request()) profile_.begin(*request);
}

AgentLease::OfferAnswer ServedRank::offer(const OfferedPlan& plan) {
  if (lease_ == nullptr) return {.offer = AgentLease::Offer::no_lease, .reason = "no agent is used"};
  AgentLease::OfferAnswer answer =
      lease_->offer({.plan_rank = 0, .nearest_below = false, .plan_json = plan.plan_json, .from_iteration = {}},
                    plan.from_iteration, plan.version);
  if (answer.offer != AgentLease::Offer::accepted) return answer;
  const std::lock_guard lock(mutex_);
  interrupted_.reset();
  if (plan.purpose == "profile") {
    asked_ = {.plan_version = plan.version,
              .from_iteration = plan.from_iteration,
              .settle_iterations = plan.settle_iterations,
              .iterations = plan.iterations};
  }
  return answer;
}

void ServedRank::forget_versions() {
  if (lease_ != nullptr) lease_->forget_versions();
}

ServedRankStatus ServedRank::status() const {
  return {.server = server_.status(), .plan_version = plan_version_.load(std::memory_order_relaxed)};
}

}  // namespace lowgear
