#include "planning/api/power/power_cap.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "planning/planner/policies/clock_choice.h"

namespace lowgear::api {
namespace {

constexpr int kScannedDeadlines = 64;
constexpr double kDeadlineTolerance = 1e-4;  // relative: a deadline that is found may be that much too long
constexpr int kPowerLevels = 16;
/// Powers come through sums of products: as much above a cap is within it.
constexpr double kPowerTolerance = 1e-9;
/// Times are rounded up to picoseconds: those that differ by less, relative to them, are the same.
constexpr double kTimeTolerance = 1e-9;

constexpr auto kScopes = std::to_array<std::string_view>({"gpu", "node", "job"});

std::string_view scope_word(CapScope scope) { return scope == CapScope::gpu ? "GPU" : name(scope); }

void check_cap(const PowerCap& cap) {
  if (cap.watts && !(*cap.watts > 0 && std::isfinite(*cap.watts))) {
    throw InputError(
        fmt::format("power cap: {} W per {}; it must be above 0 and finite", *cap.watts, scope_word(cap.scope)));
  }
  if (cap.swing_w && !(*cap.swing_w >= 0 && std::isfinite(*cap.swing_w))) {
    throw InputError(fmt::format("power cap: a swing of {} W; it must be 0 or more and finite", *cap.swing_w));
  }
}

/// Keeps the tightest of what it is shown.
class Tightest {
 public:
  void add(double power_w, const std::optional<double>& cap_w, const std::string& scope) {
    if (!cap_w) return;
    const double share = power_w <= *cap_w * (1 + kPowerTolerance) ? std::min(1.0, power_w / *cap_w) : power_w / *cap_w;
    if (!use_.scope.empty() && !(share > use_.share)) return;
    use_ = {scope, power_w, *cap_w, std::isnan(share) ? 0 : share};
  }
  [[nodiscard]] CapUse use() const { return use_; }

 private:
  CapUse use_;
};

double power_w(const profile::Measurement& row) { return row.energy_j / row.time_s; }

struct UnitPowers {
  double least_w = 0;  ///< what every op can do with
  double most_w = 0;
};

UnitPowers unit_powers(const profile::StageProfile& profile) {
  UnitPowers range;
  for (const profile::StageOp& op : profile.ops()) {
    const auto [low, high] = std::ranges::minmax(op.measurements, {}, power_w);
    range.least_w = std::max(range.least_w, power_w(low));
    range.most_w = std::max(range.most_w, power_w(high));
  }
  return range;
}

std::string describe(const CapUse& use) {
  if (use.scope.empty()) return "nothing is capped";
  return fmt::format("the {} needs {:.1f} W of {:.1f} W", use.scope, use.power_w, use.cap_w);
}

profile::StageProfile rows_where(
    const profile::StageProfile& profile,
    const std::function<bool(const profile::StageOp&, const profile::Measurement&)>& is_kept) {
  profile::StageProfile rest(profile.stages());
  for (const profile::StageOp& op : profile.ops()) {
    for (const profile::Measurement& row : op.measurements) {
      if (is_kept(op, row)) rest.add(op.stage, op.kind, row);
    }
  }
  return rest;
}

/// The highest of an op's clocks that is at most this; its lowest where all are higher.
int clock_up_to(std::span<const profile::Measurement> rows, int clock_mhz) {
  for (const profile::Measurement& row : rows) {
    if (row.clock_mhz <= clock_mhz) return row.clock_mhz;
  }
  return rows.back().clock_mhz;
}

/// What each GPU may draw where all of a node, or of the job, draw the same.
double equal_share_w(const PowerCap& cap, std::span<const GpuGroup> gpus) {
  std::map<int, int> gpus_of_scope;
  for (const GpuGroup& group : gpus) gpus_of_scope[cap.scope == CapScope::node ? group.node : 0] += group.gpus;
  int most = 1;
  for (const auto& [scope, count] : gpus_of_scope) most = std::max(most, count);
  return *cap.watts / most;
}

/// Solves the job again and again with fewer rows.
class CappedSearch {
 public:
  CappedSearch(const planner::PlanningProblem& problem, const CapConditions& conditions, const PowerCap& cap)
      : problem_(problem), conditions_(conditions), cap_(cap) {}

  /// Looks for a better plan, or one that fits, among those of these rows. False when fewer rows cannot lead to
  /// anything faster than what is known.
  bool try_rows(profile::StageProfile rows, planner::PlanGranularity granularity) {
    planner::PlannerOptions options = conditions_.planner;
    options.granularity = granularity;
    planner::PipelinePlanner planner(*problem_.schedule, rows, problem_.blocking_power_w, options, {},
                                     problem_.progress);
    const double known_s = fits() ? best_->plan.plan.time_s : std::numeric_limits<double>::infinity();
    if (planner.fastest_s() > known_s * (1 + kTimeTolerance)) return false;
    const double fastest_s = std::max(planner.fastest_s(), conditions_.wanted_deadline_s);
    const DeadlineRange range{fastest_s, std::max(fastest_s, std::min(planner.slowest_s(), known_s))};
    const auto plan_for = [&](double deadline_s) {
      if (problem_.progress != nullptr) problem_.progress->update("looking for a plan within the power cap", -1);
      return powered(planner.plan(deadline_s));
    };
    if (keep(search_deadlines(plan_for, range, cap_))) best_rows_ = std::move(rows);
    return may_be_faster();
  }

  /// Tries every clock for all ops together, which draws the same of every rank.
  void try_common_clocks() {
    std::set<int> clocks_mhz;
    for (const profile::StageOp& op : problem_.profile->ops()) {
      for (const profile::Measurement& row : op.measurements) clocks_mhz.insert(row.clock_mhz);
    }
    for (const int clock_mhz : clocks_mhz) {
      if (!keep(at_common_clock(clock_mhz))) continue;
      best_rows_ = rows_where(*problem_.profile, [&](const profile::StageOp& op, const profile::Measurement& row) {
        return row.clock_mhz <= clock_up_to(op.measurements, clock_mhz);
      });
    }
  }

  [[nodiscard]] bool may_be_faster() const {
    return !fits() || best_->plan.plan.time_s > conditions_.wanted_deadline_s;
  }
  /// Those that the best plan was found among.
  [[nodiscard]] const profile::StageProfile& best_rows() const { return best_rows_; }
  [[nodiscard]] const CapSearch& best() const { return *best_; }

 private:
  [[nodiscard]] PoweredPlan powered(plan::Plan plan) const {
    const auto traces = rank_power(plan, *problem_.profile, problem_.blocking_power_w);
    PlanPower power = plan_power(traces, conditions_.gpus, steady_phase(plan));
    return {std::move(plan), std::move(power)};
  }

  [[nodiscard]] CapSearch at_common_clock(int clock_mhz) const {
    std::vector<int> clocks_mhz;
    for (const schedule::ComputeOp& op : problem_.dag->ops) {
      clocks_mhz.push_back(clock_up_to(problem_.profile->measurements(op.stage, op.kind), clock_mhz));
    }
    const simulator::Timeline timeline = replay_clocks(problem_, clocks_mhz);
    PoweredPlan made =
        powered(plan_of_replay(std::string(planner::kLowgearPolicy), problem_, timeline,
                               planner::fastest_settings(*problem_.dag, *problem_.profile, std::move(clocks_mhz))));
    const CapUse use = tightest(made.power, cap_);
    return {std::move(made), use};
  }

  bool keep(CapSearch found) {
    if (best_ && !is_better(found)) return false;
    best_ = std::move(found);
    return true;
  }

  /// Than the best: nearer to the cap; or within it and faster, or as fast as that or as wanted and of less energy.
  [[nodiscard]] bool is_better(const CapSearch& found) const {
    if (found.use.fits() != fits()) return found.use.fits();
    if (!fits()) return found.use.share < best_->use.share;
    const double found_s = std::max(found.plan.plan.time_s, conditions_.wanted_deadline_s);
    const double best_s = std::max(best_->plan.plan.time_s, conditions_.wanted_deadline_s);
    if (std::abs(found_s - best_s) > kTimeTolerance * best_s) return found_s < best_s;
    return found.plan.plan.energy_j < best_->plan.plan.energy_j;
  }

  [[nodiscard]] bool fits() const { return best_ && best_->use.fits(); }

  const planner::PlanningProblem& problem_;
  const CapConditions& conditions_;
  const PowerCap& cap_;
  std::optional<CapSearch> best_;
  profile::StageProfile best_rows_;
};

}  // namespace

std::string_view name(CapScope scope) { return kScopes.at(static_cast<std::size_t>(scope)); }

std::optional<CapScope> cap_scope(std::string_view name) {
  const auto found = std::ranges::find(kScopes, name);
  if (found == kScopes.end()) return std::nullopt;
  return static_cast<CapScope>(found - kScopes.begin());
}

std::string describe(const std::optional<PowerCap>& cap) {
  if (!cap) return "no power cap";
  std::string text;
  if (cap->watts) text = fmt::format("at most {:.6g} W per {}", *cap->watts, scope_word(cap->scope));
  if (cap->swing_w) text += fmt::format("{}at most {:.6g} W between phases", text.empty() ? "" : ", ", *cap->swing_w);
  return text;
}

PowerCap share_of(PowerCap cap, double share) {
  if (cap.watts && cap.scope != CapScope::gpu) *cap.watts *= share;
  if (cap.swing_w) *cap.swing_w *= share;
  return cap;
}

CapUse tightest(const PlanPower& power, const PowerCap& cap) {
  check_cap(cap);
  Tightest use;
  switch (cap.scope) {
    case CapScope::gpu:
      for (std::size_t rank = 0; rank < power.gpus.size(); ++rank) {
        use.add(power.gpus[rank].peak_w, cap.watts, fmt::format("peak of a GPU of rank {}", rank));
      }
      break;
    case CapScope::node:
      for (const NodePower& node : power.nodes) {
        use.add(node.power.peak_w, cap.watts, fmt::format("peak of node {}", node.node));
      }
      break;
    case CapScope::job:
      use.add(power.job.peak_w, cap.watts, "peak of the job");
      break;
  }
  use.add(power.phase_swing_w, cap.swing_w, "swing of the job between phases");
  return use.use();
}

CapSearch search_deadlines(const PlanForDeadline& plan_for, const DeadlineRange& range, const PowerCap& cap) {
  const auto try_deadline = [&](double deadline_s) {
    PoweredPlan plan = plan_for(deadline_s);
    const CapUse use = tightest(plan.power, cap);
    return CapSearch{std::move(plan), use};
  };
  CapSearch best = try_deadline(range.fastest_s);
  if (best.use.fits()) return best;
  double too_fast_s = range.fastest_s;
  double fitting_s = range.fastest_s;
  for (int i = 1; i < kScannedDeadlines && !best.use.fits() && range.slowest_s > range.fastest_s; ++i) {
    too_fast_s = fitting_s;
    fitting_s = range.fastest_s + (range.slowest_s - range.fastest_s) * i / (kScannedDeadlines - 1);
    CapSearch found = try_deadline(fitting_s);
    if (found.use.share < best.use.share) best = std::move(found);
  }
  if (!best.use.fits()) return best;
  while (fitting_s - too_fast_s > kDeadlineTolerance * too_fast_s) {
    const double middle_s = (fitting_s + too_fast_s) / 2;
    CapSearch found = try_deadline(middle_s);
    (found.use.fits() ? fitting_s : too_fast_s) = middle_s;
    if (found.use.fits()) best = std::move(found);
  }
  return best;
}

profile::StageProfile within_gpu_power(const profile::StageProfile& profile, double limit_w) {
  return rows_where(profile, [&](const profile::StageOp& /*op*/, const profile::Measurement& row) {
    return power_w(row) <= limit_w * (1 + kPowerTolerance);
  });
}

CappedPlan plan_within_cap(const planner::PlanningProblem& problem, const CapConditions& conditions,
                           const PowerCap& cap) {
  check_cap(cap);
  if (problem.blocking_power_w.size() != problem.schedule->ranks.size()) {
    throw InputError(fmt::format("{} blocking powers for {} ranks; give one for each", problem.blocking_power_w.size(),
                                 problem.schedule->ranks.size()));
  }
  const UnitPowers powers = unit_powers(*problem.profile);
  const bool is_per_gpu = cap.watts && cap.scope == CapScope::gpu;
  const double highest_w = is_per_gpu ? std::min(powers.most_w, *cap.watts) : powers.most_w;
  if (highest_w < powers.least_w * (1 - kPowerTolerance)) {
    return {std::nullopt, fmt::format("no plan fits: some op draws {:.1f} W on a GPU at its lowest profiled clock, and "
                                      "the cap is {:.1f} W per GPU; give a cap of at least {:.0f} W",
                                      powers.least_w, *cap.watts, std::ceil(powers.least_w))};
  }
  CappedSearch search(problem, conditions, cap);
  const profile::StageProfile allowed = within_gpu_power(*problem.profile, highest_w);
  if (search.try_rows(allowed, conditions.planner.granularity)) {
    search.try_common_clocks();
    const double share_w = cap.watts && !is_per_gpu ? equal_share_w(cap, conditions.gpus) : 0;
    if (share_w >= powers.least_w && share_w < highest_w) {
      const profile::StageProfile rows = within_gpu_power(*problem.profile, share_w);
      static_cast<void>(search.try_rows(rows, conditions.planner.granularity));
    }
    for (int level = 1; level < kPowerLevels && search.may_be_faster(); ++level) {
      const double gpu_power_w = highest_w - (highest_w - powers.least_w) * level / (kPowerLevels - 1);
      const profile::StageProfile rows = within_gpu_power(*problem.profile, gpu_power_w);
      if (!search.try_rows(rows, planner::PlanGranularity::per_stage_kind)) break;
    }
    const profile::StageProfile best_rows = search.best_rows();
    if (best_rows != allowed) static_cast<void>(search.try_rows(best_rows, conditions.planner.granularity));
  }
  const CapSearch& best = search.best();
  if (!best.use.fits()) {
    return {std::nullopt, fmt::format("no plan fits: of those tried, the one that comes nearest takes {:.4f} s, and {}",
                                      best.plan.plan.time_s, describe(best.use))};
  }
  return {best.plan, fmt::format("{:.4f} s for an iteration: {}", best.plan.plan.time_s, describe(best.use))};
}

}  // namespace lowgear::api
