#include "server/budgets/power_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

/// Rounds over all limits. Limits that share no job need one; a chain of nodes needs more. Ends earlier once the split
/// is proven to be as good as this.
constexpr int kMaxRounds = 200;
constexpr double kEnoughLoss = 1e-6;
constexpr int kBisections = 60;
/// Sums of powers are rounded: so much more than a limit is within it.
constexpr double kPowerTolerance = 1e-9;

void check(std::span<const BudgetJob> jobs, std::span<const PowerLimit> limits) {
  for (const PowerLimit& limit : limits) {
    if (limit.watts > 0 && std::isfinite(limit.watts) && limit.other_w >= 0 && std::isfinite(limit.other_w)) continue;
    throw InputError(
        fmt::format("limit {} of {} W with {} W drawn by others: a limit must be above 0, the rest at "
                    "least 0, and both finite",
                    limit.name, limit.watts, limit.other_w));
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    if (!(jobs[job].weight > 0 && std::isfinite(jobs[job].weight))) {
      throw InputError(fmt::format("job {} has weight {}; it must be above 0 and finite", job, jobs[job].weight));
    }
    for (const LimitShare& part : jobs[job].limits) {
      if (part.limit < limits.size() && part.share > 0 && part.share <= 1) continue;
      throw InputError(
          fmt::format("job {}: a share of {} in limit {}; it must be above 0 and at most 1, in one of {} "
                      "limits",
                      job, part.share, part.limit, limits.size()));
    }
  }
}

struct Member {
  std::size_t job = 0;
  double share = 1;
};

/// Prices, and what jobs do at them.
class Market {
 public:
  Market(std::span<const BudgetJob> jobs, std::span<const PowerLimit> limits)
      : jobs_(jobs), limits_(limits), members_(limits.size()), prices_(limits.size()), job_prices_(jobs.size()) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      for (const LimitShare& part : jobs[job].limits) members_[part.limit].push_back({job, part.share});
    }
    for (std::size_t limit = 0; limit < limits.size(); ++limit) {
      allowed_w_.push_back(std::max(limits[limit].watts - limits[limit].other_w, least_w(limit)));
    }
  }

  /// What the jobs of a limit draw there at least.
  [[nodiscard]] double least_w(std::size_t limit) const {
    double sum_w = 0;
    for (const Member& member : members_[limit]) sum_w += member.share * jobs_[member.job].curve.least_w();
    return sum_w;
  }

  /// Gives each limit the least price at which it is kept, at the present prices of the others. Returns whether any
  /// price changed.
  bool settle_prices() {
    bool changed = false;
    for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
      const double before = prices_[limit];
      set_price(limit, least_price(limit));
      changed = changed || std::abs(prices_[limit] - before) > 1e-12 * before;
    }
    return changed;
  }

  /// Raises prices until every limit is kept, whatever rounding is left. A higher price of one limit adds nothing to
  /// another.
  void keep_all() {
    for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
      if (within(limit)) continue;
      set_price(limit, least_price(limit));
    }
  }

  [[nodiscard]] PowerSplit split() const {
    PowerSplit split;
    for (std::size_t job = 0; job < jobs_.size(); ++job) {
      const double time_s = this->time_s(job);
      split.jobs.push_back({jobs_[job].curve.power_w(time_s), time_s});
      split.loss += jobs_[job].weight * (time_s / jobs_[job].curve.fastest_s() - 1);
    }
    split.least_loss = split.loss;
    for (std::size_t limit = 0; limit < limits_.size(); ++limit) {
      const double used_w = this->used_w(limit);
      split.limits.push_back({used_w + limits_[limit].other_w, prices_[limit]});
      split.least_loss -= prices_[limit] * (allowed_w_[limit] - used_w);
    }
    return split;
  }

 private:
  [[nodiscard]] double time_s(std::size_t job) const {
    const BudgetJob& one = jobs_[job];
    return one.curve.best_time_s(one.weight / one.curve.fastest_s(), job_prices_[job]);
  }

  [[nodiscard]] double used_w(std::size_t limit) const {
    double sum_w = 0;
    for (const Member& member : members_[limit]) {
      sum_w += member.share * jobs_[member.job].curve.power_w(time_s(member.job));
    }
    return sum_w;
  }

  [[nodiscard]] bool within(std::size_t limit) const {
    return used_w(limit) <= allowed_w_[limit] * (1 + kPowerTolerance);
  }

  void set_price(std::size_t limit, double price) {
    prices_[limit] = price;
    for (const Member& member : members_[limit]) {
      double sum = 0;
      for (const LimitShare& part : jobs_[member.job].limits) sum += part.share * prices_[part.limit];
      job_prices_[member.job] = sum;
    }
  }

  /// By bisection between a price that is too low and one that is not; the latter is returned.
  [[nodiscard]] double least_price(std::size_t limit) {
    set_price(limit, 0);
    if (members_[limit].empty() || within(limit)) return 0;
    double low = 0;
    double high = 1e-9;
    while (set_price(limit, high), !within(limit)) {
      low = high;
      high *= 8;
    }
    for (int i = 0; i < kBisections && high - low > 1e-13 * high; ++i) {
      const double middle = (low + high) / 2;
      set_price(limit, middle);
      (within(limit) ? high : low) = middle;
    }
    return high;
  }

  std::span<const BudgetJob> jobs_;
  std::span<const PowerLimit> limits_;
  std::vector<std::vector<Member>> members_;  ///< by limit
  std::vector<double> allowed_w_;             ///< for jobs, by limit
  std::vector<double> prices_;                ///< by limit
  std::vector<double> job_prices_;            ///< of a watt of the job
};

}  // namespace

std::vector<std::size_t> overloaded(std::span<const BudgetJob> jobs, std::span<const PowerLimit> limits) {
  check(jobs, limits);
  const Market market(jobs, limits);
  std::vector<std::size_t> result;
  for (std::size_t limit = 0; limit < limits.size(); ++limit) {
    const double needed_w = limits[limit].other_w + market.least_w(limit);
    if (needed_w > limits[limit].watts * (1 + kPowerTolerance)) result.push_back(limit);
  }
  return result;
}

PowerSplit split_power(std::span<const BudgetJob> jobs, std::span<const PowerLimit> limits) {
  check(jobs, limits);
  Market market(jobs, limits);
  PowerSplit best;
  for (int round = 0; round < kMaxRounds; ++round) {
    const bool changed = market.settle_prices();
    const double least_loss = std::max(best.least_loss, market.split().least_loss);
    Market kept = market;
    kept.keep_all();
    PowerSplit split = kept.split();
    if (round == 0 || split.loss < best.loss) best = std::move(split);
    best.least_loss = least_loss;
    if (!changed || best.loss - best.least_loss <= kEnoughLoss * best.loss) break;
  }
  return best;
}

}  // namespace lowgear::server
