#include "planning/api/power/stagger.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "base/core/error.h"

namespace lowgear::api {
namespace {

using Parts = std::array<double, kCycleParts>;
using Group = std::vector<std::size_t>;

/// Rounds in which every job of a group may move once. Few improve after the second.
constexpr int kRounds = 8;
/// Groups of at most so many also move two jobs at a time: what is good for many by chance is not for few.
constexpr std::size_t kPairedMembers = 4;
/// Sums of powers are rounded.
constexpr double kRoundingError = 1e-9;

void check(const JobCycle& cycle, std::size_t job) {
  const bool is_power = std::ranges::all_of(cycle.power_w, [](double w) { return w >= 0 && std::isfinite(w); });
  if (cycle.time_s > 0 && std::isfinite(cycle.time_s) && is_power) return;
  throw InputError(
      fmt::format("cycle {}: an iteration of {} s; its time must be above 0, its powers not below 0, and all finite",
                  job, cycle.time_s));
}

PowerRange range(const Parts& power_w) {
  const auto [least, most] = std::ranges::minmax_element(power_w);
  return {*most, *least};
}

/// Adds a job that begins `delay` parts late.
void add(Parts& sum_w, const Parts& power_w, std::size_t delay, double sign) {
  for (std::size_t part = 0; part < kCycleParts; ++part) {
    sum_w[(part + delay) % kCycleParts] += sign * power_w[part];
  }
}

/// How uneven a sum is: first its swing, then, of equal swings, the mean square.
struct Unevenness {
  double swing_w = 0;
  double mean_square = 0;
  [[nodiscard]] bool is_less_than(const Unevenness& other) const {
    const double tolerance = kRoundingError * std::max(swing_w, other.swing_w);
    if (std::abs(swing_w - other.swing_w) > tolerance) return swing_w < other.swing_w;
    return mean_square < other.mean_square * (1 - kRoundingError);
  }
};

Unevenness unevenness(const Parts& sum_w) {
  const double squares = std::inner_product(sum_w.begin(), sum_w.end(), sum_w.begin(), 0.0);
  return {range(sum_w).swing_w(), squares / kCycleParts};
}

/// Jobs whose iterations take the same time as the shortest of their group.
std::vector<Group> groups_of(std::span<const JobCycle> jobs) {
  Group by_time(jobs.size());
  std::iota(by_time.begin(), by_time.end(), std::size_t{0});
  std::ranges::stable_sort(by_time, {}, [&](std::size_t job) { return jobs[job].time_s; });
  std::vector<Group> groups;
  for (const std::size_t job : by_time) {
    const bool is_same =
        !groups.empty() && jobs[job].time_s <= jobs[groups.back().front()].time_s * (1 + kSameTimePct / 100);
    if (!is_same) groups.emplace_back();
    groups.back().push_back(job);
  }
  return groups;
}

/// One group's delays, in parts of an iteration.
class Placing {
 public:
  Placing(std::span<const JobCycle> jobs, const Group& group, std::size_t most_delay)
      : jobs_(jobs), group_(group), most_delay_(most_delay), delays_(group.size(), 0) {}

  [[nodiscard]] std::vector<std::size_t> delays() {
    place_all();
    for (int round = 0; round < kRounds && (move_all() || move_pairs()); ++round) {
    }
    return std::move(delays_);
  }

 private:
  [[nodiscard]] const Parts& power_w(std::size_t member) const { return jobs_[group_[member]].power_w; }

  /// With a member as well, which the sum does not have yet.
  [[nodiscard]] Unevenness with(const Parts& others_w, std::size_t member, std::size_t delay) const {
    Parts sum_w = others_w;
    add(sum_w, power_w(member), delay, 1);
    return unevenness(sum_w);
  }

  /// `known` where none is better.
  [[nodiscard]] std::size_t best_delay(const Parts& others_w, std::size_t member, std::size_t known) const {
    std::size_t best = known;
    Unevenness least = with(others_w, member, known);
    for (std::size_t delay = 0; delay <= most_delay_; ++delay) {
      const Unevenness found = with(others_w, member, delay);
      if (found.is_less_than(least)) {
        best = delay;
        least = found;
      }
    }
    return best;
  }

  void move(std::size_t member, std::size_t delay) {
    add(sum_w_, power_w(member), delays_[member], -1);
    delays_[member] = delay;
    add(sum_w_, power_w(member), delay, 1);
  }

  void place_all() {
    std::vector<std::size_t> order(group_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(),
                             [&](std::size_t member) { return range(power_w(member)).swing_w(); });
    for (const std::size_t member : order) {
      delays_[member] = best_delay(sum_w_, member, 0);
      add(sum_w_, power_w(member), delays_[member], 1);
    }
  }

  bool move_all() {
    bool moved = false;
    for (std::size_t member = 0; member < group_.size(); ++member) {
      Parts others_w = sum_w_;
      add(others_w, power_w(member), delays_[member], -1);
      const std::size_t best = best_delay(others_w, member, delays_[member]);
      if (best == delays_[member]) continue;
      move(member, best);
      moved = true;
    }
    return moved;
  }

  bool move_pairs() {
    if (group_.size() > kPairedMembers) return false;
    bool moved = false;
    for (std::size_t a = 0; a < group_.size(); ++a) {
      for (std::size_t b = a + 1; b < group_.size(); ++b) moved = move_pair(a, b) || moved;
    }
    return moved;
  }

  bool move_pair(std::size_t a, std::size_t b) {
    Parts others_w = sum_w_;
    add(others_w, power_w(a), delays_[a], -1);
    add(others_w, power_w(b), delays_[b], -1);
    std::pair best(delays_[a], delays_[b]);
    Unevenness least = unevenness(sum_w_);
    for (std::size_t delay = 0; delay <= most_delay_; ++delay) {
      Parts with_a = others_w;
      add(with_a, power_w(a), delay, 1);
      const std::size_t delay_b = best_delay(with_a, b, delays_[b]);
      const Unevenness found = with(with_a, b, delay_b);
      if (found.is_less_than(least)) {
        best = {delay, delay_b};
        least = found;
      }
    }
    if (best == std::pair(delays_[a], delays_[b])) return false;
    move(a, best.first);
    move(b, best.second);
    return true;
  }

  std::span<const JobCycle> jobs_;
  const Group& group_;
  std::size_t most_delay_;
  std::vector<std::size_t> delays_;  ///< by member
  Parts sum_w_ = {};                 ///< of the members that are placed
};

PowerRange range_of(std::span<const JobCycle> jobs, const Group& group, std::span<const std::size_t> delays) {
  Parts sum_w{};
  for (std::size_t member = 0; member < group.size(); ++member) {
    add(sum_w, jobs[group[member]].power_w, delays[member], 1);
  }
  return range(sum_w);
}

void add(PowerRange& sum, const PowerRange& part) {
  sum.peak_w += part.peak_w;
  sum.least_w += part.least_w;
}

}  // namespace

JobCycle extended(const JobCycle& cycle, double time_s, double waiting_w) {
  check(cycle, 0);
  if (!(time_s > cycle.time_s)) return cycle;
  JobCycle longer{.time_s = time_s};
  const double part_s = time_s / kCycleParts;
  const double known_part_s = cycle.time_s / kCycleParts;
  for (std::size_t part = 0; part < kCycleParts; ++part) {
    const double begin_s = static_cast<double>(part) * part_s;
    const double end_s = begin_s + part_s;
    double energy_j = waiting_w * std::max(0.0, end_s - std::max(begin_s, cycle.time_s));
    for (std::size_t known = 0; known < kCycleParts; ++known) {
      const double from_s = static_cast<double>(known) * known_part_s;
      energy_j +=
          cycle.power_w[known] * std::max(0.0, std::min(end_s, from_s + known_part_s) - std::max(begin_s, from_s));
    }
    longer.power_w[part] = energy_j / part_s;
  }
  return longer;
}

Stagger stagger_jobs(std::span<const JobCycle> jobs, double most_share) {
  if (!(most_share >= 0 && most_share < 1)) {
    throw InputError(
        fmt::format("a delay of at most {} of an iteration; give a share of at least 0 and below 1", most_share));
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) check(jobs[job], job);
  Stagger result{.delay_s = std::vector<double>(jobs.size(), 0), .together = {}, .staggered = {}};
  const auto most_delay = static_cast<std::size_t>(most_share * kCycleParts);
  for (const Group& group : groups_of(jobs)) {
    const std::vector<std::size_t> none(group.size(), 0);
    const PowerRange together = range_of(jobs, group, none);
    std::vector<std::size_t> delays = Placing(jobs, group, most_delay).delays();
    if (range_of(jobs, group, delays).swing_w() >= together.swing_w()) delays = none;
    add(result.together, together);
    add(result.staggered, range_of(jobs, group, delays));
    for (std::size_t member = 0; member < group.size(); ++member) {
      const double part_s = jobs[group[member]].time_s / kCycleParts;
      result.delay_s[group[member]] = static_cast<double>(delays[member]) * part_s;
    }
  }
  return result;
}

}  // namespace lowgear::api
