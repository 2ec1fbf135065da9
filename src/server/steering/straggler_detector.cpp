#include "server/steering/straggler_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/core/error.h"
#include "base/core/numbers/median.h"

namespace lowgear::server {
namespace {

constexpr int kMaxRanks = 1'000'000;
/// Median of |a - b| for independent normal a and b of standard deviation 1.
constexpr double kMedianDifference = 0.9539;
constexpr double kSlowestNoiseGain = 0.01;
/// Gain of the first iteration is one over this.
constexpr double kFirstNoiseWeight = 8;
/// A rank's noise counts as its own from this factor on.
constexpr double kOwnNoise = 1.5;
constexpr double kMostNoise = 0.5;
/// What one iteration adds to the sum at most, in thresholds.
constexpr double kMostOfOneIteration = 0.6;
constexpr double kCommonGain = 0.1;
constexpr double kFewRanksGain = 0.05;
/// The common level follows no faster than this per iteration, before the gain.
constexpr double kMostCommonStep = 0.05;
constexpr double kFewRanksMostStep = 0.02;
/// By how many standard errors a slowdown is above what is reported.
constexpr double kSignificance = 2.5;
/// Standard error of a median, in those of a mean.
constexpr double kMedianError = 1.25;
/// A CUSUM that has not led to a report by then starts again.
constexpr int kMostAlarmIterations = 256;
/// A factor that was found from two iterations is corrected when more of them differ by this.
constexpr double kCorrection = 0.005;
constexpr int kCorrectionInterval = 8;

/// Threshold of a one-sided CUSUM of normal values of standard deviation 1, in that unit, for a mean time between false
/// alarms (Siegmund 1985, "Sequential Analysis"; with his correction for the overshoot).
double siegmund_threshold(double allowance, double false_alarm_interval) {
  const double target = 2 * allowance * allowance * false_alarm_interval;
  double exponent = std::log(target + 1);
  for (int i = 0; i < 8; ++i) exponent = std::log(target + exponent + 1);
  return exponent / (2 * allowance) - 1.166;
}

void check_options(const StragglerOptions& options) {
  const bool ordered = options.disappears_at >= 1 && options.appears_at > options.disappears_at &&
                       options.appears_at <= 10 && options.drift_at > 1 && options.drift_at <= 10;
  const bool noisy =
      options.least_noise > 0 && options.first_noise >= options.least_noise && options.first_noise <= kMostNoise;
  const bool rates = options.false_alarm_interval >= 100 && options.false_alarm_interval <= 1e18 &&
                     options.throttled_share > 0 && options.throttled_share <= 1;
  if (ordered && noisy && rates) return;
  throw InputError(fmt::format(
      "straggler detector: options out of range; keep 1 <= disappears_at < appears_at <= 10, 1 < drift_at <= 10, "
      "0 < least_noise <= first_noise <= {}, 100 <= false_alarm_interval <= 1e18, 0 < throttled_share <= 1",
      kMostNoise));
}

}  // namespace

std::string_view name(SlowdownCause cause) {
  switch (cause) {
    case SlowdownCause::straggler:
      return "straggler";
    case SlowdownCause::power_throttle:
      return "power_throttle";
    case SlowdownCause::thermal_throttle:
      return "thermal_throttle";
    case SlowdownCause::drift:
      return "drift";
    case SlowdownCause::none:
      break;
  }
  return "none";
}

void StragglerDetector::Cusum::add(double excess, double most) {
  sum += std::min(excess, most);
  ++iterations;
  if (sum <= 0) *this = {};
}

StragglerDetector::StragglerDetector(int ranks, const StragglerOptions& options) : options_(options) {
  check_options(options);
  if (ranks < 1 || ranks > kMaxRanks) {
    throw InputError(fmt::format("straggler detector: {} ranks; it takes 1 to {}", ranks, kMaxRanks));
  }
  allowance_ = (std::log(options.appears_at) + std::log(options.disappears_at)) / 2;
  common_noise_ = options.first_noise;
  common_threshold_ = threshold_at(common_noise_);
  Rank first;
  first.median_difference = kMedianDifference * options.first_noise;
  ranks_.assign(static_cast<std::size_t>(ranks), first);
}

std::vector<SlowdownChange> StragglerDetector::observe(std::span<const RankIteration> ranks) {
  check(ranks);
  for (const RankIteration& iteration : ranks) add(ranks_[static_cast<std::size_t>(iteration.rank)], iteration);
  follow_noise();
  absorb_common_shift(ranks);
  std::vector<SlowdownChange> changes;
  for (const RankIteration& iteration : ranks) {
    if (auto change = judge(iteration.rank)) changes.push_back(*change);
  }
  const double away = follow_common_level(ranks);
  if (auto change = judge_common_level(away)) changes.push_back(*change);
  return changes;
}

void StragglerDetector::assume(int rank, double factor, SlowdownCause cause) {
  begin_at(ranks_.at(static_cast<std::size_t>(rank)), std::log(factor), cause);
}

void StragglerDetector::forget(int rank) {
  begin_at(ranks_.at(static_cast<std::size_t>(rank)), 0, SlowdownCause::none);
}

double StragglerDetector::factor(int rank) const { return std::exp(ranks_.at(static_cast<std::size_t>(rank)).level); }

double StragglerDetector::common_factor() const { return std::exp(common_); }

double StragglerDetector::noise(int rank) const { return noise_of(ranks_.at(static_cast<std::size_t>(rank))); }

void StragglerDetector::check(std::span<const RankIteration> ranks) const {
  std::vector<bool> seen(ranks_.size());
  const auto is_time = [](double time_s) { return time_s > 0 && std::isfinite(time_s); };
  const auto is_share = [](double share) { return share >= 0 && share <= 1; };
  for (const RankIteration& iteration : ranks) {
    const int rank = iteration.rank;
    if (rank < 0 || rank >= static_cast<int>(ranks_.size())) {
      throw InputError(fmt::format("rank {}: the job has ranks 0 to {}", rank, ranks_.size() - 1));
    }
    if (seen[static_cast<std::size_t>(rank)]) throw InputError(fmt::format("rank {}: reported twice", rank));
    seen[static_cast<std::size_t>(rank)] = true;
    if (!is_time(iteration.compute_time_s) || !is_time(iteration.expected_time_s)) {
      throw InputError(fmt::format("rank {}: compute time {} s, expected {} s; both must be above 0 and finite", rank,
                                   iteration.compute_time_s, iteration.expected_time_s));
    }
    if (!is_share(iteration.power_throttled_share) || !is_share(iteration.thermal_throttled_share)) {
      throw InputError(fmt::format("rank {}: throttled shares {} and {}; they must be from 0 to 1", rank,
                                   iteration.power_throttled_share, iteration.thermal_throttled_share));
    }
  }
}

void StragglerDetector::add(Rank& rank, const RankIteration& iteration) const {
  const double log_ratio = std::log(iteration.compute_time_s / iteration.expected_time_s);
  if (rank.seen > 0) {
    const double difference = std::abs(log_ratio - rank.log_ratio[(rank.seen - 1) % kHistory]);
    const double gain = std::max(kSlowestNoiseGain, 1.0 / (static_cast<double>(rank.seen) + kFirstNoiseWeight));
    rank.median_difference *= std::exp(difference > rank.median_difference ? gain : -gain);
    rank.median_difference =
        std::clamp(rank.median_difference, kMedianDifference * options_.least_noise, kMedianDifference * kMostNoise);
  }
  rank.log_ratio[rank.seen % kHistory] = log_ratio;
  ++rank.seen;
  ++rank.iterations_at_level;
  rank.power_share = (rank.power_share + iteration.power_throttled_share) / 2;
  rank.thermal_share = (rank.thermal_share + iteration.thermal_throttled_share) / 2;
  const double deviation = log_ratio - common_ - rank.level;
  const double most = threshold(rank) * kMostOfOneIteration;
  rank.slower.add(deviation - allowance_, most);
  rank.faster.add(-deviation - allowance_, rank.is_slow ? kMostNoise : most);
  if (!rank.is_slow && rank.slower.sum == 0) {
    rank.usual_iterations = std::min(rank.usual_iterations + 1, static_cast<int>(kHistory));
    rank.usual_power_share += (iteration.power_throttled_share - rank.usual_power_share) / rank.usual_iterations;
    rank.usual_thermal_share += (iteration.thermal_throttled_share - rank.usual_thermal_share) / rank.usual_iterations;
  }
  // Some ranks are always a little faster than the others: what they did long ago tells nothing of a common change.
  if (!rank.is_slow && rank.faster.iterations > static_cast<int>(kHistory)) rank.faster = {};
}

double StragglerDetector::noise_of(const Rank& rank) const {
  const double own = rank.median_difference / kMedianDifference;
  return own < common_noise_ * kOwnNoise && own * kOwnNoise > common_noise_ ? common_noise_ : own;
}

double StragglerDetector::threshold(const Rank& rank) const {
  const double noise = noise_of(rank);
  return noise == common_noise_ ? common_threshold_ : threshold_at(noise);
}

double StragglerDetector::threshold_at(double noise) const {
  const double by_noise = noise * siegmund_threshold(allowance_ / noise, options_.false_alarm_interval);
  return std::max(by_noise, allowance_);
}

/// x of an iteration: 0 the newest, 1 the one before it.
double StragglerDetector::latest(const Rank& rank, std::size_t back) const {
  return rank.log_ratio[(rank.seen - 1 - back) % kHistory] - common_;
}

/// Median x of the last iterations, as far as they are still known.
double StragglerDetector::recent_level(const Rank& rank, int iterations) const {
  const std::size_t count = std::min({static_cast<std::size_t>(std::max(1, iterations)), kHistory, rank.seen});
  std::array<double, kHistory> values{};
  for (std::size_t back = 0; back < count; ++back) values[back] = latest(rank, back);
  return median(std::span(values).first(count));
}

bool StragglerDetector::is_slower(const Rank& rank) const {
  const double least = rank.level + allowance_;
  return rank.seen >= 2 && latest(rank, 0) > least && latest(rank, 1) > least && rank.slower.sum > threshold(rank);
}

/// Of a rank that is not slow: faster than what all ranks have in common.
bool StragglerDetector::is_faster(const Rank& rank) const {
  return rank.seen >= 2 && latest(rank, 0) < -allowance_ && latest(rank, 1) < -allowance_ &&
         rank.faster.sum > threshold(rank);
}

/// How slow a rank with an alarm is, when that is surely enough to report.
std::optional<double> StragglerDetector::confirmed_level(const Rank& rank) const {
  const int iterations = rank.slower.iterations;
  const auto is_confirmed = [&](double level, int count) {
    return level - kSignificance * noise_of(rank) / std::sqrt(count) >= std::log(options_.appears_at);
  };
  for (const int count : {2, static_cast<int>(kHistory)}) {
    const double level = recent_level(rank, std::min(count, iterations));
    if (is_confirmed(level, std::min(count, iterations))) return level;
  }
  // More than is remembered: the sum itself tells their mean.
  const double level = allowance_ + rank.slower.sum / iterations;
  if (is_confirmed(level, iterations)) return level;
  return std::nullopt;
}

SlowdownCause StragglerDetector::cause_of(const Rank& rank) const {
  // A reason that was there as often before explains nothing.
  if (rank.usual_iterations == 0) return SlowdownCause::straggler;
  const double power_rise = rank.power_share - rank.usual_power_share;
  const double thermal_rise = rank.thermal_share - rank.usual_thermal_share;
  if (thermal_rise >= options_.throttled_share && thermal_rise >= power_rise) return SlowdownCause::thermal_throttle;
  if (power_rise >= options_.throttled_share) return SlowdownCause::power_throttle;
  return SlowdownCause::straggler;
}

/// Where most ranks have become slower together, or faster, it is the common level that has changed.
void StragglerDetector::absorb_common_shift(std::span<const RankIteration> ranks) {
  for (const double sign : {1.0, -1.0}) {
    if (const auto shift = common_shift(ranks, sign)) return move_common_level(*shift);
  }
}

/// Of ranks that have become slower (`sign` 1) or faster (-1).
std::optional<double> StragglerDetector::common_shift(std::span<const RankIteration> ranks, double sign) const {
  const auto counts = [this](const Rank& rank) {
    return !rank.is_slow && rank.seen > 0 && cause_of(rank) == SlowdownCause::straggler;
  };
  // The least of all alarms: what is common is in every one of them.
  double least = std::numeric_limits<double>::infinity();
  int iterations = 0;
  for (const RankIteration& iteration : ranks) {
    const Rank& rank = ranks_[static_cast<std::size_t>(iteration.rank)];
    if (!counts(rank) || !(sign > 0 ? is_slower(rank) : is_faster(rank))) continue;
    const int lasted = (sign > 0 ? rank.slower : rank.faster).iterations;
    const double level = sign * recent_level(rank, lasted);
    if (level >= least) continue;
    least = level;
    iterations = lasted;
  }
  if (iterations == 0) return std::nullopt;
  std::vector<double> levels;
  for (const Rank& rank : ranks_) {
    if (!counts(rank)) continue;
    const double level = recent_level(rank, iterations);
    if (sign * level >= least / 2) levels.push_back(level);
  }
  if (levels.size() < 2 || levels.size() * 2 <= ranks_.size()) return std::nullopt;
  return median(levels);
}

void StragglerDetector::move_common_level(double by) {
  common_ += by;
  for (Rank& rank : ranks_) {
    rank.slower = {};
    rank.faster = {};
  }
}

std::optional<SlowdownChange> StragglerDetector::judge(int index) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  if (rank.is_slow) return judge_slow(index);
  if (!is_slower(rank)) return std::nullopt;
  const int iterations = rank.slower.iterations;
  if (const auto level = confirmed_level(rank)) return set_level(index, *level, iterations);
  if (iterations >= kMostAlarmIterations) rank.slower = {};
  return std::nullopt;
}

/// A rank whose slowdown is known: has it gone, or become another, or is it known better by now?
std::optional<SlowdownChange> StragglerDetector::judge_slow(int index) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  const bool has_recovered = rank.faster.sum > threshold(rank);
  if (has_recovered || is_slower(rank)) {
    const int iterations = has_recovered ? rank.faster.iterations : rank.slower.iterations;
    return set_level(index, recent_level(rank, iterations), iterations);
  }
  if (rank.iterations_at_level % kCorrectionInterval == 0) {
    const int iterations = rank.iterations_at_level;
    const double level = recent_level(rank, iterations);
    const double error = kMedianError * noise_of(rank) / std::sqrt(std::min<double>(iterations, kHistory));
    const bool is_gone = level + error <= std::log(options_.disappears_at);
    const bool is_other = iterations <= static_cast<int>(kHistory) && std::abs(level - rank.level) > kCorrection;
    if (is_gone || is_other) {
      const SlowdownChange change = set_level(index, level, iterations);
      rank.iterations_at_level = iterations;
      return change;
    }
  }
  const SlowdownCause cause = cause_of(rank);
  if (rank.cause != SlowdownCause::straggler || cause == SlowdownCause::straggler) return std::nullopt;
  rank.cause = cause;
  return SlowdownChange{index, std::exp(rank.level), cause, rank.iterations_at_level};
}

SlowdownChange StragglerDetector::set_level(int index, double level, int iterations) {
  Rank& rank = ranks_[static_cast<std::size_t>(index)];
  const bool is_slow = level > std::log(options_.disappears_at);
  begin_at(rank, is_slow ? level : 0, is_slow ? cause_of(rank) : SlowdownCause::none);
  return {index, std::exp(rank.level), rank.cause, iterations};
}

/// What came before counts no more, for or against it.
void StragglerDetector::begin_at(Rank& rank, double level, SlowdownCause cause) {
  rank.is_slow = cause != SlowdownCause::none;
  rank.level = level;
  rank.cause = cause;
  rank.iterations_at_level = 0;
  rank.slower = {};
  rank.faster = {};
}

void StragglerDetector::follow_noise() {
  std::vector<double> noises;
  noises.reserve(ranks_.size());
  for (const Rank& rank : ranks_) noises.push_back(rank.median_difference / kMedianDifference);
  common_noise_ = median(noises);
  common_threshold_ = threshold_at(common_noise_);
}

/// Returns how far the ranks that are not slow were from it.
double StragglerDetector::follow_common_level(std::span<const RankIteration> ranks) {
  std::vector<double> levels;
  for (const RankIteration& iteration : ranks) {
    const Rank& rank = ranks_[static_cast<std::size_t>(iteration.rank)];
    if (!rank.is_slow) levels.push_back(latest(rank, 0));
  }
  if (levels.empty()) return 0;
  if (levels.size() <= 2) {
    const double mean = levels.size() == 1 ? levels[0] : (levels[0] + levels[1]) / 2;
    common_ += kFewRanksGain * std::clamp(mean, -kFewRanksMostStep, kFewRanksMostStep);
    return mean;
  }
  // Of an even number the lower one: half of the ranks may be slow and not known to be.
  const auto middle = levels.begin() + static_cast<std::ptrdiff_t>((levels.size() - 1) / 2);
  std::nth_element(levels.begin(), middle, levels.end());
  common_ += kCommonGain * std::clamp(*middle, -kMostCommonStep, kMostCommonStep);
  return *middle;
}

/// A level that is still on its way would be reported again and again, and one that ranks have left is over.
std::optional<SlowdownChange> StragglerDetector::judge_common_level(double away) {
  const double step = std::log(options_.drift_at);
  recent_common_[iterations_++ % kSettling] = common_;
  const bool is_gone = reported_common_ != 0 && std::abs(common_) < step / 2;
  const bool has_changed = is_gone || std::abs(common_ - reported_common_) >= step;
  changed_iterations_ = has_changed ? changed_iterations_ + 1 : 0;
  const auto [lowest, highest] = std::ranges::minmax(recent_common_);
  const bool has_settled = iterations_ >= kSettling && highest - lowest <= step / 2 && std::abs(away) <= step;
  if (!has_changed || !has_settled) return std::nullopt;
  reported_common_ = is_gone ? 0 : common_;
  const SlowdownCause cause = is_gone ? SlowdownCause::none : SlowdownCause::drift;
  return SlowdownChange{std::nullopt, std::exp(reported_common_), cause, std::exchange(changed_iterations_, 0)};
}

}  // namespace lowgear::server
