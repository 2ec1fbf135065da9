#include "server/job/profile_watch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "base/core/formats/json.h"
#include "base/core/numbers/median.h"
#include "server/store/store.h"

namespace lowgear::server {
namespace {

/// Drift that a profile is renewed for.
constexpr double kProfiledAgainDrift = 0.05;
constexpr double kProfilePeriodS = 3'600;
/// Most iterations that a drift has to last: doubled by each profile that did not end it.
constexpr std::int64_t kLongestLasting = 1'000'000;

/// Of a rank that the detector has found.
SlowdownCause cause_named(std::string_view text) {
  for (const SlowdownCause cause : {SlowdownCause::power_throttle, SlowdownCause::thermal_throttle}) {
    if (text == name(cause)) return cause;
  }
  return SlowdownCause::straggler;
}

/// Of most ranks: the median of what they take by what they are expected to.
double typical_slowdown(const std::vector<RankIteration>& measured) {
  std::vector<double> factors;
  for (const RankIteration& rank : measured) factors.push_back(rank.compute_time_s / rank.expected_time_s);
  return upper_median(std::span(factors));
}

}  // namespace

Json to_json(const SlowRanks& slow) {
  Json list = Json::array();
  for (const auto& [rank, known] : slow) {
    list.push_back({{"rank", rank}, {"factor", known.factor}, {"cause", known.cause}});
  }
  return list;
}

SlowRanks read_slow_ranks(const JsonView& list) {
  SlowRanks slow;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView entry = list.at(i);
    slow[entry.at("rank").integer_in(0, kMaxStoredNumber)] = {entry.at("factor").number(), entry.at("cause").text()};
  }
  return slow;
}

void ProfileWatch::begin_profile(double now_s) {
  detector_.reset();
  slow_.clear();
  drift_.reset();
  profiled_s_ = now_s;
}

/// A new one continues from what was known when the server ended.
StragglerDetector& ProfileWatch::detector() {
  if (detector_) return *detector_;
  detector_.emplace(ranks_);
  for (const auto& [rank, slow] : slow_) detector_->assume(rank, slow.factor, cause_named(slow.cause));
  return *detector_;
}

std::vector<SlowdownChange> ProfileWatch::observe(const std::vector<RankIteration>& measured, std::int64_t iteration) {
  if (drift_ && std::abs(typical_slowdown(measured) - 1) <= kProfiledAgainDrift) drift_.reset();  // it was a hiccup
  std::vector<SlowdownChange> changes = detector().observe(measured);
  for (const SlowdownChange& change : changes) {
    if (!change.rank) {
      drift_ = Drift{.factor = change.factor, .since_iteration = iteration - change.iterations + 1};
    } else if (change.cause == SlowdownCause::none) {
      slow_.erase(*change.rank);
    } else {
      slow_[*change.rank] = {change.factor, std::string(name(change.cause))};
    }
  }
  if (drift_) drift_->factor = common_factor();
  return changes;
}

std::optional<Drift> ProfileWatch::outdated_profile(std::int64_t iteration, double now_s) {
  if (!drift_ || std::abs(drift_->factor - 1) <= kProfiledAgainDrift) return std::nullopt;
  const bool is_recent = profiled_s_ && now_s - *profiled_s_ < kProfilePeriodS;
  if (!is_recent) lasting_iterations_ = kLastingIterations;
  if (is_recent && iteration - drift_->since_iteration < lasting_iterations_) return std::nullopt;
  if (is_recent) lasting_iterations_ = std::min(2 * lasting_iterations_, kLongestLasting);
  return drift_;
}

void ProfileWatch::forget(int rank) {
  slow_.erase(rank);
  if (detector_) detector_->forget(rank);
}

void ProfileWatch::restore(const JsonView& state) {
  slow_ = read_slow_ranks(state.at("detected_slow"));
  if (has_value(state, "profiled_s")) profiled_s_ = state.at("profiled_s").number();
}

void ProfileWatch::write_state(Json& state) const {
  state["detected_slow"] = to_json(slow_);
  state["profiled_s"] = or_null(profiled_s_);
}

}  // namespace lowgear::server
