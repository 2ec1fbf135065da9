#include "planning/adapt/operating_point_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/core/error.h"
#include "base/core/probability.h"

namespace lowgear::adapt {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMaxDegreesOfFreedom = 200;  // beyond, Student's distribution is as good as normal

double pct(double logarithm) { return 100 * std::expm1(logarithm); }

/// The t within which a Student variable lies with this probability.
double student_limit(double confidence, int degrees_of_freedom) {
  return student_t_quantile((1 + confidence) / 2, std::min(degrees_of_freedom, kMaxDegreesOfFreedom));
}

void require(bool holds, std::string_view what) {
  if (!holds) throw InputError(fmt::format("search of the operating point: {}", what));
}

void require_valid(const SearchOptions& options) {
  require(options.allowed_slowdown_pct >= 0 && options.allowed_slowdown_pct <= 1000,
          "the allowed slowdown must be from 0 to 1000 %");
  require(options.block_s > 0 && options.block_s <= 86400, "a block must take more than 0 s and at most a day");
  require(options.settle_iterations >= 0 && options.settle_iterations <= 1000,
          "iterations to settle must be from 0 to 1000");
  require(options.confidence >= 0.5 && options.confidence <= 0.9999, "the confidence must be from 0.5 to 0.9999");
  require(options.tolerance >= 0 && options.tolerance < 1, "the tolerance must be from 0 to 1");
  require(options.slowdown_tolerance_pct >= 0 && options.slowdown_tolerance_pct <= 100,
          "the tolerance of the slowdown must be from 0 to 100 %");
  require(options.max_iterations >= 1, "at least 1 iteration must be allowed");
}

void require_valid(const std::vector<std::string>& points) {
  require(points.size() >= 2 && points.size() <= kMaxOperatingPoints,
          fmt::format("{} operating points; give 2 to {}", points.size(), kMaxOperatingPoints));
}

}  // namespace

OperatingPointSearch::OperatingPointSearch(std::vector<std::string> points, const SearchOptions& options)
    : options_(options) {
  require_valid(options_);
  restart(std::move(points));
}

void OperatingPointSearch::restart(std::vector<std::string> points) {
  require_valid(points);
  charged_ = cost();
  points_.clear();
  for (std::string& name : points) points_.push_back({std::move(name), true, {}});
  all_ = {};
  first_ = {};
  spread_ = {};
  chosen_.reset();
  begin_round();
}

int OperatingPointSearch::current() const { return chosen_ ? *chosen_ : order_[blocks_.size()]; }

std::vector<int> OperatingPointSearch::live_points() const {
  std::vector<int> live;
  for (std::size_t point = 0; point < points_.size(); ++point) {
    if (points_[point].is_live) live.push_back(static_cast<int>(point));
  }
  return live;
}

void OperatingPointSearch::begin_round() {
  order_ = live_points();
  order_.insert(order_.end(), order_.rbegin(), order_.rend());
  blocks_.clear();
  abandon_block();
}

void OperatingPointSearch::abandon_block() {
  block_ = {};
  block_with_settling_ = {};
  settling_ = options_.settle_iterations;
}

std::vector<SearchDecision> OperatingPointSearch::observe(double iteration_time_s, double energy_j) {
  const auto is_amount = [](double value) { return value > 0 && std::isfinite(value); };
  require(is_amount(iteration_time_s) && is_amount(energy_j),
          fmt::format("an iteration of {} s and {} J; both must be positive and finite", iteration_time_s, energy_j));
  if (chosen_) return {};
  const auto add = [&](Sample& sums) {
    sums = {sums.iterations + 1, sums.time + iteration_time_s, sums.energy + energy_j};
  };
  add(block_with_settling_);
  if (settling_ > 0) {
    --settling_;
    return {};
  }
  add(block_);
  if (block_.time < options_.block_s) return {};
  const auto add_block = [](Sample& sums, const Sample& block) {
    sums = {sums.iterations + block.iterations, sums.time + block.time, sums.energy + block.energy};
  };
  add_block(all_, block_with_settling_);
  if (current() == 0) add_block(first_, block_);
  blocks_.push_back({block_.iterations, block_.time / block_.iterations, block_.energy / block_.iterations});
  abandon_block();
  if (blocks_.size() < order_.size()) return {};
  return end_round();
}

std::vector<SearchDecision> OperatingPointSearch::end_round() {
  const std::size_t count = order_.size() / 2;
  add_spread_within_round();
  int iterations = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Sample& there = blocks_[i];
    const Sample& back = blocks_[order_.size() - 1 - i];
    iterations += there.iterations + back.iterations + 2 * options_.settle_iterations;
    points_[static_cast<std::size_t>(order_[i])].rounds.push_back({there.iterations + back.iterations,
                                                                   std::log((there.time + back.time) / 2),
                                                                   std::log((there.energy + back.energy) / 2)});
  }
  add_spread_between_rounds();
  std::vector<SearchDecision> decisions;
  drop_points(decisions);
  if (points_.front().rounds.size() >= 2) {
    const int best = best_point();
    const double kept = static_cast<double>(live_points().size()) / static_cast<double>(count);
    const bool has_room = all_.iterations + kept * iterations <= options_.max_iterations;
    if (const std::string reason = reason_to_end(best, has_room); !reason.empty()) {
      chosen_ = best;
      decisions.push_back({SearchAction::chosen, best, reason});
      return decisions;
    }
  }
  begin_round();
  return decisions;
}

/// Adds the differences between the two blocks of each point, without a drift in proportion to the time between
/// them. Half of such a difference has the variance of one result.
void OperatingPointSearch::add_spread_within_round() {
  const std::size_t count = order_.size() / 2;
  const auto half_difference = [&](std::size_t place) {
    const Sample& there = blocks_[place];
    const Sample& back = blocks_[order_.size() - 1 - place];
    return Sample{0, std::log(back.time / there.time) / 2, std::log(back.energy / there.energy) / 2};
  };
  const auto distance = [&](std::size_t place) { return static_cast<double>(order_.size() - 1 - 2 * place); };
  Sample slope;
  double squares = 0;
  for (std::size_t place = 0; place < count; ++place) squares += distance(place) * distance(place);
  for (std::size_t place = 0; place < count; ++place) {
    slope.time += half_difference(place).time * distance(place) / squares;
    slope.energy += half_difference(place).energy * distance(place) / squares;
  }
  for (std::size_t place = 0; place < count; ++place) {
    const double time = half_difference(place).time - slope.time * distance(place);
    const double energy = half_difference(place).energy - slope.energy * distance(place);
    spread_.time += time * time;
    spread_.energy += energy * energy;
  }
  spread_.degrees_of_freedom += static_cast<int>(count) - 1;
}

/// Recursive residuals: what a round's results deviate by from the means of the rounds before, both centred, with the
/// variance of one result. They are independent, however many points are left in each round.
void OperatingPointSearch::add_spread_between_rounds() {
  const std::vector<int> live = live_points();
  const std::size_t before = points_.front().rounds.size() - 1;
  if (before == 0) return;
  std::vector<Sample> deviations;
  Sample mean;
  for (const int point : live) {
    const std::vector<Sample>& rounds = points_[static_cast<std::size_t>(point)].rounds;
    Sample deviation = rounds.back();
    for (std::size_t round = 0; round < before; ++round) {
      deviation.time -= rounds[round].time / static_cast<double>(before);
      deviation.energy -= rounds[round].energy / static_cast<double>(before);
    }
    mean.time += deviation.time / static_cast<double>(live.size());
    mean.energy += deviation.energy / static_cast<double>(live.size());
    deviations.push_back(deviation);
  }
  const double scale = static_cast<double>(before) / static_cast<double>(before + 1);
  for (const Sample& deviation : deviations) {
    spread_.time += scale * (deviation.time - mean.time) * (deviation.time - mean.time);
    spread_.energy += scale * (deviation.energy - mean.energy) * (deviation.energy - mean.energy);
  }
  spread_.degrees_of_freedom += static_cast<int>(live.size()) - 1;
}

OperatingPointSearch::Sample OperatingPointSearch::difference(int point, int other) const {
  const std::vector<Sample>& rounds = points_[static_cast<std::size_t>(point)].rounds;
  const std::vector<Sample>& others = points_[static_cast<std::size_t>(other)].rounds;
  const std::size_t common = std::min(rounds.size(), others.size());
  Sample mean;
  for (std::size_t round = 0; round < common; ++round) {
    mean.time += (rounds[round].time - others[round].time) / static_cast<double>(common);
    mean.energy += (rounds[round].energy - others[round].energy) / static_cast<double>(common);
  }
  return mean;
}

double OperatingPointSearch::half_width(double squares, std::size_t rounds) const {
  if (rounds == 0 || spread_.degrees_of_freedom == 0) return kInfinity;
  const double variance = squares / spread_.degrees_of_freedom;
  return student_limit(options_.confidence, spread_.degrees_of_freedom) *
         std::sqrt(2 * variance / static_cast<double>(rounds));
}

double OperatingPointSearch::excess_time(int point) const {
  return difference(point, 0).time -
         std::log1p((options_.allowed_slowdown_pct + options_.slowdown_tolerance_pct / 2) / 100);
}

int OperatingPointSearch::best_point() const {
  int best = 0;
  for (const int point : live_points()) {
    if (excess_time(point) <= 0 && difference(point, best).energy < 0) best = point;
  }
  return best;
}

void OperatingPointSearch::drop_points(std::vector<SearchDecision>& decisions) {
  const std::size_t rounds = points_.front().rounds.size();
  const double time_error = half_width(spread_.time, rounds);
  const double energy_error = half_width(spread_.energy, rounds);
  const auto drop = [&](int point, SearchAction action, std::string reason) {
    points_[static_cast<std::size_t>(point)].is_live = false;
    decisions.push_back({action, point, std::move(reason)});
  };
  for (const int point : live_points()) {
    if (point == 0 || excess_time(point) <= time_error) continue;
    const double slowdown = difference(point, 0).time;
    drop(point, SearchAction::dropped_as_slow,
         fmt::format("{} is {:.2f} % slower than {}, at least {:.2f} %, and {} % is allowed",
                     points_[static_cast<std::size_t>(point)].name, pct(slowdown), points_.front().name,
                     pct(slowdown - time_error), options_.allowed_slowdown_pct));
  }
  const int best = best_point();
  for (const int point : live_points()) {
    const double excess = difference(point, best).energy;
    // The first point is what slowdowns are measured from.
    if (point == 0 || excess <= energy_error) continue;
    drop(point, SearchAction::dropped_as_costly,
         fmt::format("{} uses {:.2f} % more energy than {}, at least {:.2f} %",
                     points_[static_cast<std::size_t>(point)].name, pct(excess),
                     points_[static_cast<std::size_t>(best)].name, pct(excess - energy_error)));
  }
}

std::string OperatingPointSearch::reason_to_end(int best, bool has_room) const {
  const std::size_t rounds = points_.front().rounds.size();
  const double energy_error = half_width(spread_.energy, rounds);
  double possible = 0;  // what another point may save beyond the best one
  for (const int point : live_points()) {
    if (point != best) possible = std::max(possible, energy_error - difference(point, best).energy);
  }
  const PointEstimate found = estimate(best);
  const std::string& full_speed = points_.front().name;
  const std::string figures = best == 0
                                  ? fmt::format("{} after {} iterations", full_speed, all_.iterations)
                                  : fmt::format("{}: {:+.2f} % energy, {:+.2f} % time against {} after {} iterations",
                                                points_[static_cast<std::size_t>(best)].name, found.energy_pct,
                                                found.slowdown_pct, full_speed, all_.iterations);
  const double time_error = best == 0 ? 0 : half_width(spread_.time, rounds);
  const bool is_in_time = excess_time(best) + time_error <= options_.slowdown_tolerance_pct / 200;
  if (possible <= options_.tolerance && is_in_time) {
    return fmt::format("{}; no other point within the allowed slowdown saves {:.2f} % more", figures,
                       100 * options_.tolerance);
  }
  if (has_room) return {};
  const std::string uncertain =
      fmt::format("{}; not certain after the allowed {} iterations: another point may save {:.2f} % more", figures,
                  options_.max_iterations, 100 * std::max(possible, 0.0));
  if (best == 0) return uncertain;
  return fmt::format("{}, and this one may be {:.2f} % slower than {}", uncertain, found.slowdown_pct + pct(time_error),
                     full_speed);
}

PointEstimate OperatingPointSearch::estimate(int point) const {
  require(point >= 0 && point < static_cast<int>(points_.size()),
          fmt::format("there is no point {}; there are {}", point, points_.size()));
  const std::size_t rounds = points_[static_cast<std::size_t>(point)].rounds.size();
  const Sample found = difference(point, 0);
  return {static_cast<int>(rounds), pct(found.time), pct(found.energy),
          point == 0 ? 0 : pct(half_width(spread_.time, rounds)),
          point == 0 ? 0 : pct(half_width(spread_.energy, rounds))};
}

SearchProgress OperatingPointSearch::progress() const {
  return {.rounds = static_cast<int>(points_.front().rounds.size()),
          .points = static_cast<int>(live_points().size()),
          .round_s = static_cast<double>(order_.size()) * options_.block_s};
}

ProbingCost OperatingPointSearch::cost() const {
  ProbingCost cost = charged_;
  cost.iterations += all_.iterations;
  if (first_.iterations == 0) return cost;
  const double share = static_cast<double>(all_.iterations) / first_.iterations;
  cost.time_s += all_.time - share * first_.time;
  cost.energy_j += all_.energy - share * first_.energy;
  return cost;
}

namespace {

constexpr double kLowestClock = 0.55;  // of the highest
// Of the power that the job draws.
constexpr double kHighestLimit = 0.97;
constexpr double kLowestLimit = 0.5;

}  // namespace

std::vector<int> default_clocks_mhz(std::span<const int> supported_mhz, double running_mhz,
                                    double allowed_slowdown_pct) {
  if (supported_mhz.empty()) throw InputError("the GPU lists no clocks; name the operating points");
  std::vector<int> rising_mhz(supported_mhz.begin(), supported_mhz.end());
  std::ranges::sort(rising_mhz);
  const double highest_mhz = rising_mhz.back();
  const double lowest_mhz = kLowestClock * highest_mhz;
  const double allowed_mhz =
      std::max(std::min(running_mhz, highest_mhz) / (1 + allowed_slowdown_pct / 100), lowest_mhz);
  const auto at_or_above = [&](double clock_mhz) { return *std::ranges::lower_bound(rising_mhz, clock_mhz); };
  std::vector<int> points_mhz = {rising_mhz.back()};
  constexpr auto kBelow = static_cast<int>(kDefaultPoints) - 1;
  for (int i = 0; i < kBelow; ++i) {
    points_mhz.push_back(at_or_above(allowed_mhz + (lowest_mhz - allowed_mhz) * i / (kBelow - 1)));
  }
  points_mhz.erase(std::unique(points_mhz.begin(), points_mhz.end()), points_mhz.end());
  if (points_mhz.size() < 2) {
    throw InputError(fmt::format("the GPU has no clock between {:.0f} and {} MHz; name the operating points",
                                 lowest_mhz, rising_mhz.back()));
  }
  return points_mhz;
}

std::vector<double> default_power_limits_w(double min_w, double default_w, double running_w) {
  const double highest_w = kHighestLimit * std::min(running_w, default_w);
  const double lowest_w = std::max(min_w, kLowestLimit * running_w);
  if (!(lowest_w < highest_w)) {
    throw InputError(
        fmt::format("the job draws {:.0f} W, and the GPU's lowest power limit is {} W: no power limit would "
                    "slow it down; search among clocks",
                    running_w, min_w));
  }
  std::vector<double> points_w = {std::floor(default_w)};
  constexpr auto kBelow = static_cast<int>(kDefaultPoints) - 1;
  for (int i = 0; i < kBelow; ++i) {
    points_w.push_back(std::ceil(highest_w + (lowest_w - highest_w) * i / (kBelow - 1)));
  }
  points_w.erase(std::unique(points_w.begin(), points_w.end()), points_w.end());
  return points_w;
}

}  // namespace lowgear::adapt
