#include "server/fleet/budgeted_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

/// Assumed highest power of a GPU whose power limit is unknown.
constexpr double kUnknownLimitW = 1200;
/// Measurements of a job count for this time after its last request.
constexpr double kMeasuredS = 60;
constexpr double kSlowdownStepPct = 0.001;
/// Sums of powers are rounded.
constexpr double kPowerTolerance = 1e-6;
/// Hosts of a budget that are shown where none is known.
constexpr std::size_t kShownHosts = 20;

/// All GPUs at their power limits, also those whose ranks have not registered yet.
double full_power_w(const JobRecord& job, const PowerShares& shares) {
  double sum_w = 0;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && registered->finished) continue;
    // A GPU counts once, however many ranks have it.
    if (registered != nullptr && registered->shared && !registered->shared->counts_here) continue;
    if (job.ranks.counts_elsewhere(rank)) continue;
    sum_w += registered == nullptr ? kUnknownLimitW : limit_w(*registered, shares);
  }
  return sum_w;
}

double mean_power_w(const PlanVersion& version) { return version.time_s > 0 ? version.energy_j / version.time_s : 0; }

/// Of the plan that its ranks followed in their last iteration and the one that they should follow next, that which
/// draws more; all GPUs at their limits where it is not known what they follow.
double present_power_w(const JobRecord& job, const PowerShares& shares) {
  const PlanVersion* training = job.plans.training();
  if (job.state() != JobState::running || training == nullptr || !(training->time_s > 0))
    return full_power_w(job, shares);
  if (job.history.kept().empty()) return full_power_w(job, shares);
  const PlanVersion* in_force = job.plans.find(job.history.kept().back().plan_version);
  if (in_force == nullptr || !(in_force->time_s > 0)) return full_power_w(job, shares);
  return std::max(mean_power_w(*training), mean_power_w(*in_force));
}

/// From the fastest iteration that settings and signals want of the job to the one of least power. Empty: it cannot be
/// planned.
std::optional<PowerCurve> curve_of(const JobRecord& job, double floor_w) {
  if (job.state() != JobState::running || job.ranks.followers() == 0 || job.planning.frontier().empty())
    return std::nullopt;
  const double pipelines = static_cast<double>(job.spec.parallel.dp) * job.spec.parallel.tp;
  std::vector<CurvePoint> points;
  for (const auto& [time_s, energy_j] : job.planning.frontier()) points.push_back({time_s, energy_j * pipelines});
  constexpr double kForever = std::numeric_limits<double>::infinity();
  try {
    const PowerCurve whole(points, kForever);
    const double wanted_s =
        std::min(whole.fastest_s() * (1 + job.targets.wanted_slowdown_pct() / 100), whole.slowest_s());
    std::erase_if(points, [&](const CurvePoint& point) { return point.time_s <= wanted_s; });
    points.insert(points.begin(), {wanted_s, whole.power_w(wanted_s) * wanted_s});
    return PowerCurve(points, kForever).with_floor(floor_w);
  } catch (const InputError&) {
    return std::nullopt;  // of a damaged row
  }
}

/// The budgets of each host: there may be one for every node, so that not every job can be looked up in every budget.
class BudgetsOfHosts {
 public:
  explicit BudgetsOfHosts(const std::map<std::string, PowerBudget>& budgets) {
    for (const auto& [name, budget] : budgets) {
      for (const std::string& host : budget.hosts) of_host_[host].push_back(count_);
      if (budget.hosts.empty()) of_all_.push_back(count_);
      ++count_;
    }
  }

  /// The shares of a job's GPUs that budgets count, by budget.
  [[nodiscard]] std::vector<BudgetShare> shares_of(const JobRecord& job) const {
    std::map<std::size_t, int> there;
    for (const std::size_t budget : of_all_) there[budget] = job.ranks.size();
    for (int rank = 0; rank < job.ranks.size(); ++rank) {
      const RegisteredRank* registered = job.ranks.find(rank);
      if (registered == nullptr) continue;
      const auto there_too = of_host_.find(registered->spec.host);
      if (there_too == of_host_.end()) continue;
      for (const std::size_t budget : there_too->second) ++there[budget];
    }
    std::vector<BudgetShare> shares;
    for (const auto& [budget, gpus] : there) shares.push_back({budget, static_cast<double>(gpus) / job.ranks.size()});
    return shares;
  }

 private:
  std::size_t count_ = 0;
  std::unordered_map<std::string, std::vector<std::size_t>> of_host_;
  std::vector<std::size_t> of_all_;
};

/// By all budgets that name its run: the largest weight and floor.
BudgetedRun terms_of(const JobRecord& job, const std::map<std::string, PowerBudget>& budgets) {
  BudgetedRun terms{.weight = 0, .floor_w = 0};
  for (const auto& [name, budget] : budgets) {
    const auto run = budget.runs.find(job.spec.run);
    if (run == budget.runs.end()) continue;
    terms.weight = std::max(terms.weight, run->second.weight);
    terms.floor_w = std::max(terms.floor_w, run->second.floor_w);
  }
  if (terms.weight == 0) terms.weight = 1;
  return terms;
}

/// Power of the job's GPUs in its last iteration; empty if it does not train now or reports no energy.
std::optional<double> measured_power_w(const JobRecord& job, double now_s) {
  if (job.history.kept().empty() || now_s - job.status.heard_s > kMeasuredS) return std::nullopt;
  const JobIteration& last = job.history.kept().back();
  if (!last.energy_j || !(last.time_s > 0)) return std::nullopt;
  return *last.energy_j / last.time_s;
}

}  // namespace

double limit_w(const RegisteredRank& rank, const PowerShares& shares) {
  return shares.most_w(rank.spec.gpu_uuid).value_or(rank.spec.power_limit_w.value_or(kUnknownLimitW));
}

double share_of(const JobRecord& job, const PowerBudget& budget) {
  if (budget.hosts.empty()) return 1;
  int there = 0;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    there += registered != nullptr && budget.has(registered->spec.host) ? 1 : 0;
  }
  return static_cast<double>(there) / job.ranks.size();
}

std::vector<BudgetPower> powers_of(const std::map<std::string, PowerBudget>& budgets, double calendar_s) {
  std::vector<BudgetPower> powers;
  for (const auto& [name, budget] : budgets) powers.push_back({name, budget.watts_from(calendar_s), budget.other_w});
  return powers;
}

BudgetedFleet fleet_of(std::span<const JobRecord* const> jobs, const std::map<std::string, PowerBudget>& budgets,
                       const std::vector<BudgetPower>& powers, const PowerShares& shares_of_nodes, double now_s) {
  BudgetedFleet fleet;
  fleet.budgets = powers;
  fleet.measured.resize(powers.size());
  const BudgetsOfHosts budgets_of_hosts(budgets);
  const bool has_terms = std::ranges::any_of(budgets, [](const auto& entry) { return !entry.second.runs.empty(); });
  for (const JobRecord* job : jobs) {
    std::vector<BudgetShare> shares = budgets_of_hosts.shares_of(*job);
    const BudgetedRun terms = has_terms ? terms_of(*job, budgets) : BudgetedRun{};
    const double now_w = present_power_w(*job, shares_of_nodes);
    if (const auto measured_w = measured_power_w(*job, now_s)) {
      for (const BudgetShare& part : shares) {
        BudgetedFleet::Measured& there = fleet.measured[part.budget];
        there.power_w = there.power_w.value_or(0) + part.share * *measured_w;
        there.gpus += part.share * job->ranks.size();
      }
    }
    if (auto curve = curve_of(*job, terms.floor_w)) {
      fleet.movers.push_back({.job = job, .fastest_s = job->planning.frontier().front().first, .now_w = now_w});
      fleet.jobs.push_back({.curve = std::move(*curve),
                            .weight = terms.weight * job->spec.parallel.world_size(),
                            .budgets = std::move(shares)});
    } else {
      for (const BudgetShare& part : shares) fleet.budgets[part.budget].other_w += part.share * now_w;
    }
  }
  return fleet;
}

void leave_room(std::vector<BudgetPower>& powers, const std::map<std::string, PowerBudget>& budgets,
                std::span<const PowerShares::Use> uses) {
  std::size_t place = 0;
  for (const auto& [name, budget] : budgets) {
    if (place >= uses.size()) return;
    const PowerShares::Use& use = uses[place];
    if (use.nodes > 0) {
      const double left_w = std::max(0.0, powers[place].watts - powers[place].other_w - use.reserved_w);
      powers[place].other_w += use.reserved_w;
      powers[place].watts -= left_w * (1 - 1 / (1 + budget.peak_pct / 100));
    }
    ++place;
  }
}

bool can_switch_all(const BudgetedFleet& fleet) {
  std::vector<double> power_w;
  for (const BudgetPower& budget : fleet.budgets) power_w.push_back(budget.other_w);
  for (std::size_t job = 0; job < fleet.jobs.size(); ++job) {
    const double most_w = std::max(fleet.movers[job].now_w, fleet.movers[job].power_w);
    for (const BudgetShare& part : fleet.jobs[job].budgets) power_w[part.budget] += part.share * most_w;
  }
  return std::ranges::equal(power_w, fleet.budgets, [](double sum_w, const BudgetPower& budget) {
    return sum_w <= budget.watts * (1 + kPowerTolerance);
  });
}

double rounded_up_pct(double slowdown_pct) {
  constexpr double kRounding = 1e-6;
  return std::ceil(slowdown_pct / kSlowdownStepPct - kRounding) * kSlowdownStepPct;
}

std::string binding_budget(const BudgetJob& job, const PowerSplit& split, std::span<const BudgetPower> powers) {
  for (const BudgetShare& part : job.budgets) {
    if (split.budgets[part.budget].price_per_w > 0) {
      return fmt::format("power budget {} of {:.6g} W", quote(powers[part.budget].name), powers[part.budget].watts);
    }
  }
  return "";
}

void note_unknown_hosts(std::span<const JobRecord* const> jobs, const std::map<std::string, PowerBudget>& budgets,
                        const PowerShares& shares, std::vector<BudgetSnapshot>& snapshots) {
  std::unordered_set<std::string_view> of_ranks;
  for (const JobRecord* job : jobs) {
    for (int rank = 0; rank < job->ranks.size(); ++rank) {
      if (const RegisteredRank* registered = job->ranks.find(rank)) of_ranks.insert(registered->spec.host);
    }
  }
  auto snapshot = snapshots.begin();
  for (const auto& [name, budget] : budgets) {
    for (const std::string& host : budget.hosts) {
      if (snapshot->unknown_hosts.size() == kShownHosts) break;
      if (!of_ranks.contains(host) && !shares.has(host)) snapshot->unknown_hosts.push_back(host);
    }
    ++snapshot;
  }
}

std::vector<BudgetSnapshot> snapshots_of(const std::vector<BudgetPower>& powers, const BudgetedFleet& fleet,
                                         const PowerSplit& split, std::span<const PowerShares::Use> uses) {
  std::vector<BudgetSnapshot> snapshots;
  for (std::size_t i = 0; i < powers.size(); ++i) {
    snapshots.push_back({.name = powers[i].name,
                         .watts = powers[i].watts,
                         .planned_w = split.budgets[i].power_w,
                         .assumed_w = fleet.budgets[i].other_w,
                         .price_per_w = split.budgets[i].price_per_w,
                         .measured_w = fleet.measured[i].power_w,
                         .measured_gpus = fleet.measured[i].gpus,
                         .held = {}});
    if (i >= uses.size() || uses[i].nodes == 0) continue;
    snapshots.back().held = BudgetSnapshot::Held{
        .watts = powers[i].other_w + uses[i].held_w, .nodes = uses[i].nodes, .silent_nodes = uses[i].silent_nodes};
  }
  return snapshots;
}

}  // namespace lowgear::server
