#include "client/profile_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/error.h"

namespace lowgear {
namespace {

/// Steps of the energy counter (of 100 ms on an H100) that a first evaluation needs: a line through them tells the
/// times of the steps, and there are more of them than a stage has cells.
constexpr int kMinCounterSteps = 30;
/// Iterations beyond those asked for, as a multiple, before what is there has to do.
constexpr int kPatience = 20;
/// Some 20 MiB.
constexpr std::size_t kMaxUnits = 200'000;
constexpr std::size_t kMaxSamples = 100'000;

bool all_identified(const RecordedProfile& profile) {
  return std::ranges::all_of(profile.cells, [](const RecordedCell& cell) { return cell.is_identified; });
}

}  // namespace

void ProfileCollector::begin(ProfileRequest request) {
  cancel();
  request_ = request;
}

void ProfileCollector::cancel() {
  request_.reset();
  recording_.units.clear();
  recording_.samples.clear();
  counts_ = false;
  iterations_ = 0;
  counter_steps_ = 0;
  wanted_counter_steps_ = kMinCounterSteps;
}

void ProfileCollector::add(const GpuSample& sample) {
  if (!request_ || iterations_ + (counts_ ? 1 : 0) == 0 || recording_.samples.size() == kMaxSamples) return;
  EnergySample taken;
  taken.time_s = (sample.counter ? sample.counter->time_s : sample.time_s) - static_cast<double>(start_ns_) * 1e-9;
  if (sample.counter) taken.energy_j = sample.counter->energy_j;
  taken.power_w = sample.power_w;
  taken.sm_mhz = sample.sm_clock_mhz;
  taken.temperature_c = sample.temperature_c;
  if (sample.throttle_reasons) taken.throttle_reasons = sample.throttle_reasons->bits;
  const auto& samples = recording_.samples;
  if (!samples.empty() && samples.back().energy_j != taken.energy_j) ++counter_steps_;
  recording_.samples.push_back(taken);
}

bool ProfileCollector::enough() const {
  return iterations_ >= request_->iterations && counter_steps_ >= wanted_counter_steps_;
}

bool ProfileCollector::exhausted() const {
  return iterations_ >= request_->iterations * kPatience || recording_.units.size() >= kMaxUnits ||
         recording_.samples.size() >= kMaxSamples;
}

std::optional<ProfileResult> ProfileCollector::add(const UnitRecord& record) {
  if (!request_) return std::nullopt;
  const std::uint64_t first = request_->from_iteration + static_cast<std::uint64_t>(request_->settle_iterations);
  switch (record.type) {
    case RecordType::iteration_begin:
      counts_ = record.iteration >= first;
      return std::nullopt;
    case RecordType::unit:
      if (counts_ && recording_.units.size() < kMaxUnits) {
        const auto since_start_s = [&](std::uint64_t time_ns) {
          return static_cast<double>(static_cast<std::int64_t>(time_ns - start_ns_)) * 1e-9;
        };
        recording_.units.push_back({.iteration = iterations_,
                                    .stage = record.stage,
                                    .kind = static_cast<OpKind>(record.kind),
                                    .microbatch = static_cast<int>(record.microbatch),
                                    .start_s = since_start_s(record.begin_ns),
                                    .end_s = since_start_s(record.end_ns),
                                    .clock_mhz = static_cast<int>(record.clock_mhz)});
      }
      return std::nullopt;
    case RecordType::iteration_end:
      break;
  }
  if (!counts_) return std::nullopt;
  counts_ = false;
  ++iterations_;
  if (!enough() && !exhausted()) return std::nullopt;
  ProfileResult result = evaluate();
  if (!result.problem.empty() && !exhausted()) {
    wanted_counter_steps_ *= 2;
    return std::nullopt;
  }
  cancel();
  return result;
}

ProfileResult ProfileCollector::evaluate() const {
  ProfileResult result{.plan_version = request_->plan_version, .profile = {}, .problem = {}};
  try {
    result.profile = profile_recordings(std::span(&recording_, 1), {.skipped_iterations = 0, .blocking_w = {}});
    if (!all_identified(result.profile)) {
      result.problem = fmt::format("profile plan {}: energies of some units cannot be told apart", result.plan_version);
    }
  } catch (const InputError& error) {
    result.problem = fmt::format("profile plan {}: {}", result.plan_version, error.what());
  }
  return result;
}

}  // namespace lowgear
