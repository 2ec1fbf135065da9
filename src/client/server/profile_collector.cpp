#include "client/server/profile_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "base/core/error.h"

namespace lowgear::client {
namespace {

/// Some 20 MiB.
constexpr std::size_t kMaxUnits = 200'000;
constexpr std::size_t kMaxSamples = 100'000;

constexpr double kStallFactor = 1.5;

/// Of an even number, the lower one: most stalls are the longer ones. Sorts them.
double lower_median(std::vector<double>& times_s) {
  std::ranges::sort(times_s);
  return times_s[(times_s.size() - 1) / 2];
}

bool all_identified(const profile::RecordedProfile& profile) {
  return std::ranges::all_of(profile.cells, [](const profile::RecordedCell& cell) { return cell.is_identified; });
}

ProfileResult evaluate(std::span<const profile::Recording> parts, int plan_version) {
  ProfileResult result{.plan_version = plan_version, .profile = {}, .problem = {}};
  try {
    result.profile = profile_one_rank(parts, {.skipped_iterations = 0, .blocking_w = {}});
    if (!all_identified(result.profile)) {
      result.problem = fmt::format("profile plan {}: energies of some units cannot be distinguished", plan_version);
    }
  } catch (const InputError& error) {
    result.problem = fmt::format("profile plan {}: {}", plan_version, error.what());
  }
  return result;
}

}  // namespace

void ProfileCollector::begin(ProfileRequest request) {
  if (request.sweep != sweep_) {
    parts_.clear();
    iterations_ = 0;
    counted_.clear();
    has_others_ = false;
  }
  sweep_ = request.sweep;
  parts_.push_back(like_);
  parts_.back().part = static_cast<int>(parts_.size()) - 1;
  iteration_begin_ = 0;
  records_ = false;
  settled_ns_ = 0;
  request_ = std::move(request);
}

void ProfileCollector::reset() {
  request_.reset();
  parts_.clear();
  sweep_ = 0;
  iterations_ = 0;
  counted_.clear();
  records_ = false;
}

void ProfileCollector::discard_iteration() {
  if (!request_) return;
  std::vector<profile::RecordedUnit>& units = parts_.back().units;
  for (std::size_t unit = iteration_begin_; unit < units.size(); ++unit) units[unit].settling = true;
  settles_ = true;
}

void ProfileCollector::add(const measure::GpuSample& sample) {
  if (!records_ || parts_.back().samples.size() == kMaxSamples) return;
  profile::EnergySample taken;
  taken.time_s = sample.energy_time_s() - static_cast<double>(start_ns_) * 1e-9;
  taken.energy_j = sample.energy_j;
  taken.power_w = sample.power_w;
  taken.sm_mhz = sample.sm_clock_mhz;
  taken.temperature_c = sample.temperature_c;
  if (sample.throttle_reasons) taken.throttle_reasons = sample.throttle_reasons->bits;
  parts_.back().samples.push_back(taken);
}

/// Iterations that the clock has been the same before this one; -1: it has not changed since the plan began.
std::int64_t ProfileCollector::iterations_since_change(std::int64_t iteration) const {
  std::int64_t since = -1;
  for (const plan::ClockTrial& trial : request_->trials) {
    if (iteration >= trial.first_iteration) since = iteration - trial.first_iteration;
    if (iteration >= trial.end_iteration()) since = iteration - trial.end_iteration();
  }
  return since;
}

bool ProfileCollector::is_last(std::uint64_t iteration) const {
  return request_->trials.empty() ||
         static_cast<std::int64_t>(iteration) + 1 >= request_->trials.back().end_iteration();
}

std::size_t ProfileCollector::unit_count() const {
  std::size_t count = 0;
  for (const profile::Recording& part : parts_) count += part.units.size();
  return count;
}

void ProfileCollector::begin_iteration(const UnitRecord& record) {
  iteration_begin_ = parts_.back().units.size();
  begin_ns_ = record.begin_ns;
  const bool is_first = !records_;
  records_ = record.iteration >= request_->from_iteration;
  if (!records_) return;
  const std::int64_t since = iterations_since_change(static_cast<std::int64_t>(record.iteration));
  if (since == 0 || is_first) settled_ns_ = record.begin_ns + static_cast<std::uint64_t>(request_->settle_s * 1e9);
  settles_ = since >= 0 && since < request_->settle_iterations;
}

void ProfileCollector::add_unit(const UnitRecord& record) {
  if (!records_ || unit_count() >= kMaxUnits) return;
  if (!is_scheduled(record.kind)) {
    has_others_ = true;
    return;
  }
  const auto since_start_s = [&](std::uint64_t time_ns) {
    return static_cast<double>(static_cast<std::int64_t>(time_ns - start_ns_)) * 1e-9;
  };
  parts_.back().units.push_back({.iteration = iterations_,
                                 .stage = record.stage,
                                 .kind = record.kind,
                                 .microbatch = static_cast<int>(record.microbatch),
                                 .start_s = since_start_s(record.begin_ns),
                                 .end_s = since_start_s(record.end_ns),
                                 .clock_mhz = static_cast<int>(record.clock_mhz),
                                 .settling = settles_ || record.begin_ns < settled_ns_});
}

void ProfileCollector::end_iteration(const UnitRecord& record) {
  Iteration iteration{
      .number = iterations_++, .clock_mhz = 0, .time_s = static_cast<double>(record.end_ns - begin_ns_) * 1e-9};
  const std::vector<profile::RecordedUnit>& units = parts_.back().units;
  for (std::size_t unit = iteration_begin_; unit < units.size(); ++unit) {
    iteration.clock_mhz = std::max(iteration.clock_mhz, units[unit].clock_mhz);
  }
  if (!settles_ && iteration.clock_mhz > 0) counted_.push_back(iteration);
}

/// Marks the units of iterations that stalled as settling, for good. Returns the number of these iterations.
int ProfileCollector::leave_out_stalled() {
  std::map<int, std::vector<double>, std::greater<>> times_s;
  for (const Iteration& iteration : counted_) times_s[iteration.clock_mhz].push_back(iteration.time_s);
  if (times_s.empty()) return 0;
  std::map<int, double> limits_s;
  const int full_mhz = times_s.begin()->first;
  const double full_s = lower_median(times_s.begin()->second);
  for (auto& [clock_mhz, times] : times_s) {
    limits_s[clock_mhz] = kStallFactor * std::min(lower_median(times), full_s * full_mhz / clock_mhz);
  }
  std::set<int> stalled;
  for (const Iteration& iteration : counted_) {
    if (iteration.time_s > limits_s.at(iteration.clock_mhz)) stalled.insert(iteration.number);
  }
  for (profile::Recording& part : parts_) {
    for (profile::RecordedUnit& unit : part.units) unit.settling = unit.settling || stalled.contains(unit.iteration);
  }
  std::erase_if(counted_, [&](const Iteration& iteration) { return stalled.contains(iteration.number); });
  return static_cast<int>(stalled.size());
}

std::optional<ProfileResult> ProfileCollector::add(const UnitRecord& record) {
  if (!request_) return std::nullopt;
  switch (record.type) {
    case RecordType::iteration_begin:
      begin_iteration(record);
      return std::nullopt;
    case RecordType::unit:
      add_unit(record);
      return std::nullopt;
    case RecordType::iteration_end:
      break;
  }
  if (!records_) return std::nullopt;
  end_iteration(record);
  return is_last(record.iteration) ? finish() : std::nullopt;
}

std::optional<ProfileResult> ProfileCollector::finish() {
  if (!request_) return std::nullopt;
  records_ = false;
  const int plan_version = std::exchange(request_, std::nullopt)->plan_version;
  if (has_others_) {
    return ProfileResult{
        .plan_version = plan_version,
        .profile = {},
        .problem = fmt::format("profile plan {}: units of kind forward_backward cannot be profiled, as "
                               "no schedule has them",
                               plan_version)};
  }
  const int stalled = leave_out_stalled();
  ProfileResult result = evaluate(parts_, plan_version);
  if (stalled > 0) {
    if (!result.problem.empty()) result.problem += "; ";
    result.problem += fmt::format("profile plan {}: {} iterations stalled and are left out", plan_version, stalled);
  }
  return result;
}

}  // namespace lowgear::client
