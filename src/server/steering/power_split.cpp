#include "server/steering/power_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server {

namespace {

/// Vertices of a frontier are rounded: slopes that rise by less count as equal.
constexpr double kSlopeTolerance = 1e-6;

double slope_w(const CurvePoint& from, const CurvePoint& to) {
  return (from.energy_j - to.energy_j) / (to.time_s - from.time_s);
}

void check(std::span<const CurvePoint> vertices) {
  if (vertices.empty()) throw InputError("a frontier without vertices; give one at least");
  double slope_before_w = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    const CurvePoint& vertex = vertices[i];
    if (!(vertex.time_s > 0 && vertex.energy_j > 0 && std::isfinite(vertex.time_s) && std::isfinite(vertex.energy_j))) {
      throw InputError(fmt::format("vertex {} of the frontier: {} s and {} J; both must be above 0 and finite", i,
                                   vertex.time_s, vertex.energy_j));
    }
    if (i == 0) continue;
    if (!(vertex.time_s > vertices[i - 1].time_s)) {
      throw InputError(fmt::format("vertex {} of the frontier: {} s does not exceed the time before it, {} s", i,
                                   vertex.time_s, vertices[i - 1].time_s));
    }
    const double slope = slope_w(vertices[i - 1], vertex);
    if (!(slope >= 0 && slope <= slope_before_w * (1 + kSlopeTolerance))) {
      throw InputError(
          fmt::format("vertex {} of the frontier: energies must fall, and ever more slowly; they fall by "
                      "{} J/s to it, and by {} J/s before",
                      i, slope, slope_before_w));
    }
    slope_before_w = slope;
  }
}

}  // namespace

PowerCurve::PowerCurve(std::span<const CurvePoint> vertices, double slowest_s) {
  check(vertices);
  vertices_.push_back(vertices.front());
  for (const CurvePoint& vertex : vertices.subspan(1)) {
    if (vertex.time_s <= slowest_s) {
      vertices_.push_back(vertex);
      continue;
    }
    const CurvePoint& last = vertices_.back();
    if (slowest_s > last.time_s) {
      const double fallen_j = slope_w(last, vertex) * (slowest_s - last.time_s);
      vertices_.push_back({slowest_s, last.energy_j - fallen_j});
    }
    break;
  }
}

double PowerCurve::intercept_j(std::size_t i) const {
  return vertices_[i].energy_j + slope_w(vertices_[i], vertices_[i + 1]) * vertices_[i].time_s;
}

double PowerCurve::power_w(double time_s) const {
  const double clamped_s = std::clamp(time_s, fastest_s(), slowest_s());
  const auto after = std::ranges::upper_bound(vertices_, clamped_s, {}, &CurvePoint::time_s);
  if (after == vertices_.end()) return vertices_.back().energy_j / vertices_.back().time_s;
  const auto i = static_cast<std::size_t>(after - vertices_.begin()) - 1;
  return intercept_j(i) / clamped_s - slope_w(vertices_[i], vertices_[i + 1]);
}

double PowerCurve::time_s(double power_w) const {
  const auto too_much = [&](const CurvePoint& vertex) { return vertex.energy_j > power_w * vertex.time_s; };
  const auto fits = std::ranges::partition_point(vertices_, too_much);
  if (fits == vertices_.begin()) return fastest_s();
  if (fits == vertices_.end()) return slowest_s();
  const auto i = static_cast<std::size_t>(fits - vertices_.begin()) - 1;
  return intercept_j(i) / (power_w + slope_w(vertices_[i], vertices_[i + 1]));
}

/// On a line, weight * t + price * (c / t - s) is least at sqrt(price c / weight). The intercepts c fall from line to
/// line, so that the first line whose best time is not after its end has the best one.
double PowerCurve::best_time_s(double time_weight, double price) const {
  for (std::size_t i = 0; i + 1 < vertices_.size(); ++i) {
    const double best_s = std::sqrt(price * intercept_j(i) / time_weight);
    if (best_s <= vertices_[i + 1].time_s) return std::max(best_s, vertices_[i].time_s);
  }
  return slowest_s();
}

namespace {

/// Rounds over all budgets. Budgets that share no job need one; a chain of nodes needs more. Ends earlier once the
/// split is proven to be as good as this.
constexpr int kMaxRounds = 200;
constexpr double kEnoughLoss = 1e-6;
constexpr int kBisections = 60;
/// Sums of powers are rounded: so much more than a budget is within it.
constexpr double kPowerTolerance = 1e-9;

void check(std::span<const BudgetJob> jobs, std::span<const BudgetPower> budgets) {
  for (const BudgetPower& budget : budgets) {
    if (budget.watts > 0 && std::isfinite(budget.watts) && budget.other_w >= 0 && std::isfinite(budget.other_w))
      continue;
    throw InputError(
        fmt::format("budget {} of {} W with {} W drawn by others: a budget must be above 0, the rest at "
                    "least 0, and both finite",
                    budget.name, budget.watts, budget.other_w));
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    if (!(jobs[job].weight > 0 && std::isfinite(jobs[job].weight))) {
      throw InputError(fmt::format("job {} has weight {}; it must be above 0 and finite", job, jobs[job].weight));
    }
    for (const BudgetShare& part : jobs[job].budgets) {
      if (part.budget < budgets.size() && part.share > 0 && part.share <= 1) continue;
      throw InputError(
          fmt::format("job {}: a share of {} in budget {}; it must be above 0 and at most 1, in one of {} "
                      "budgets",
                      job, part.share, part.budget, budgets.size()));
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
  Market(std::span<const BudgetJob> jobs, std::span<const BudgetPower> budgets)
      : jobs_(jobs), budgets_(budgets), members_(budgets.size()), prices_(budgets.size()), job_prices_(jobs.size()) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      for (const BudgetShare& part : jobs[job].budgets) members_[part.budget].push_back({job, part.share});
    }
    for (std::size_t budget = 0; budget < budgets.size(); ++budget) {
      allowed_w_.push_back(std::max(budgets[budget].watts - budgets[budget].other_w, least_w(budget)));
    }
  }

  /// Lowest power of the jobs of a budget.
  [[nodiscard]] double least_w(std::size_t budget) const {
    double sum_w = 0;
    for (const Member& member : members_[budget]) sum_w += member.share * jobs_[member.job].curve.least_w();
    return sum_w;
  }

  /// Gives each budget the least price at which it is kept, at the present prices of the others. Returns whether any
  /// price changed.
  bool settle_prices() {
    bool changed = false;
    for (std::size_t budget = 0; budget < budgets_.size(); ++budget) {
      const double before = prices_[budget];
      set_price(budget, least_price(budget));
      changed = changed || std::abs(prices_[budget] - before) > 1e-12 * before;
    }
    return changed;
  }

  /// Raises prices until every budget is kept, whatever rounding is left. A higher price of one budget adds nothing to
  /// another.
  void keep_all() {
    for (std::size_t budget = 0; budget < budgets_.size(); ++budget) {
      if (within(budget)) continue;
      set_price(budget, least_price(budget));
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
    for (std::size_t budget = 0; budget < budgets_.size(); ++budget) {
      const double used_w = this->used_w(budget);
      split.budgets.push_back({used_w + budgets_[budget].other_w, prices_[budget]});
      split.least_loss -= prices_[budget] * (allowed_w_[budget] - used_w);
    }
    return split;
  }

 private:
  [[nodiscard]] double time_s(std::size_t job) const {
    const BudgetJob& one = jobs_[job];
    return one.curve.best_time_s(one.weight / one.curve.fastest_s(), job_prices_[job]);
  }

  [[nodiscard]] double used_w(std::size_t budget) const {
    double sum_w = 0;
    for (const Member& member : members_[budget]) {
      sum_w += member.share * jobs_[member.job].curve.power_w(time_s(member.job));
    }
    return sum_w;
  }

  [[nodiscard]] bool within(std::size_t budget) const {
    return used_w(budget) <= allowed_w_[budget] * (1 + kPowerTolerance);
  }

  void set_price(std::size_t budget, double price) {
    prices_[budget] = price;
    for (const Member& member : members_[budget]) {
      double sum = 0;
      for (const BudgetShare& part : jobs_[member.job].budgets) sum += part.share * prices_[part.budget];
      job_prices_[member.job] = sum;
    }
  }

  /// By bisection between a price that is too low and one that is not; the latter is returned.
  [[nodiscard]] double least_price(std::size_t budget) {
    set_price(budget, 0);
    if (members_[budget].empty() || within(budget)) return 0;
    double low = 0;
    double high = 1e-9;
    while (set_price(budget, high), !within(budget)) {
      low = high;
      high *= 8;
    }
    for (int i = 0; i < kBisections && high - low > 1e-13 * high; ++i) {
      const double middle = (low + high) / 2;
      set_price(budget, middle);
      (within(budget) ? high : low) = middle;
    }
    return high;
  }

  std::span<const BudgetJob> jobs_;
  std::span<const BudgetPower> budgets_;
  std::vector<std::vector<Member>> members_;  ///< by budget
  std::vector<double> allowed_w_;             ///< for jobs, by budget
  std::vector<double> prices_;                ///< by budget
  std::vector<double> job_prices_;            ///< of a watt of the job
};

}  // namespace

PowerSplit split_power(std::span<const BudgetJob> jobs, std::span<const BudgetPower> budgets) {
  check(jobs, budgets);
  Market market(jobs, budgets);
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
