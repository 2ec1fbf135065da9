#include "control/server/job/shared/power_budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json_members.h"
#include "base/http/message/error.h"
#include "control/protocol/json_members.h"

namespace lowgear::server {
namespace {

constexpr double kMaxWatts = 1e9;
constexpr std::size_t kMaxPoints = 10'000;
constexpr std::size_t kMaxHosts = 100'000;
/// A job may draw more than it does only if that shortens its iterations by at least so much; else plans would change
/// with every watt.
constexpr double kLeastGainPct = 0.2;
/// What a GPU is taken to draw at most whose power limit is not known.
constexpr double kUnknownLimitW = 1200;
/// Slowdowns that differ by less are the same.
constexpr double kSlowdownTolerancePct = 0.01;
/// Sums of powers are rounded.
constexpr double kPowerTolerance = 1e-6;

/// A job that can be moved along its frontier.
struct Mover {
  const JobRecord* job = nullptr;
  double fastest_s = 0;     ///< of its fastest plan
  double now_w = 0;         ///< of the plans that it may follow at present
  double slowdown_pct = 0;  ///< that it should have
  double power_w = 0;       ///< planned with that

  [[nodiscard]] double step_pct() const { return slowdown_pct - job->targets.budget_slowdown_pct(); }
  [[nodiscard]] bool has_to_slow_down() const { return step_pct() > kSlowdownTolerancePct; }
  [[nodiscard]] bool may_be_faster() const {
    return -step_pct() > kLeastGainPct || (slowdown_pct == 0 && step_pct() < 0);
  }
};

/// All GPUs at their power limits, also those whose ranks have not registered yet.
double full_power_w(const JobRecord& job) {
  double sum_w = 0;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    if (registered != nullptr && registered->finished) continue;
    sum_w += registered == nullptr ? kUnknownLimitW : registered->spec.power_limit_w.value_or(kUnknownLimitW);
  }
  return sum_w;
}

double mean_power_w(const PlanVersion& version) { return version.time_s > 0 ? version.energy_j / version.time_s : 0; }

/// Of the plan that its ranks followed in their last iteration and the one that they should follow next, that which
/// draws more; all GPUs at their limits where it is not known what they follow.
double present_power_w(const JobRecord& job) {
  const PlanVersion* training = job.plans.training();
  if (job.state() != JobState::running || training == nullptr || !(training->time_s > 0)) return full_power_w(job);
  if (job.history.kept().empty()) return full_power_w(job);
  const PlanVersion* in_force = job.plans.find(job.history.kept().back().plan_version);
  if (in_force == nullptr || !(in_force->time_s > 0)) return full_power_w(job);
  return std::max(mean_power_w(*training), mean_power_w(*in_force));
}

/// From the fastest iteration that settings and signals want of the job. Empty: it cannot be planned.
std::optional<budget::PowerCurve> curve_of(const JobRecord& job) {
  if (job.state() != JobState::running || job.ranks.followers() == 0 || job.frontier.empty()) return std::nullopt;
  const double pipelines = static_cast<double>(job.spec.parallel.dp) * job.spec.parallel.tp;
  std::vector<budget::CurvePoint> points;
  for (const auto& [time_s, energy_j] : job.frontier) points.push_back({time_s, energy_j * pipelines});
  constexpr double kForever = std::numeric_limits<double>::infinity();
  try {
    const budget::PowerCurve whole(points, kForever);
    const double wanted_s =
        std::min(whole.fastest_s() * (1 + job.targets.wanted_slowdown_pct() / 100), whole.slowest_s());
    std::erase_if(points, [&](const budget::CurvePoint& point) { return point.time_s <= wanted_s; });
    points.insert(points.begin(), {wanted_s, whole.power_w(wanted_s) * wanted_s});
    return budget::PowerCurve(points, kForever);
  } catch (const InputError&) {
    return std::nullopt;  // of a damaged row
  }
}

/// The share of a job's GPUs that a budget counts.
double share_of(const JobRecord& job, const PowerBudget& budget) {
  if (budget.hosts.empty()) return 1;
  int there = 0;
  for (int rank = 0; rank < job.ranks.size(); ++rank) {
    const RegisteredRank* registered = job.ranks.find(rank);
    there += registered != nullptr && budget.has(registered->spec.host) ? 1 : 0;
  }
  return static_cast<double>(there) / job.ranks.size();
}

/// All jobs, as budgets see them.
struct Fleet {
  std::vector<budget::PowerLimit> limits;  ///< by budget
  std::vector<budget::BudgetJob> jobs;
  std::vector<Mover> movers;  ///< by job
};

Fleet fleet_of(std::span<const JobRecord* const> jobs, const std::map<std::string, PowerBudget>& budgets,
               double now_s) {
  Fleet fleet;
  for (const auto& [name, budget] : budgets) fleet.limits.push_back({name, budget.watts_at(now_s), budget.other_w});
  for (const JobRecord* job : jobs) {
    std::vector<budget::LimitShare> shares;
    std::size_t limit = 0;
    for (const auto& [name, budget] : budgets) {
      if (const double share = share_of(*job, budget); share > 0) shares.push_back({limit, share});
      ++limit;
    }
    const double now_w = present_power_w(*job);
    if (auto curve = curve_of(*job)) {
      fleet.movers.push_back({.job = job, .fastest_s = job->frontier.front().first, .now_w = now_w});
      fleet.jobs.push_back({.curve = std::move(*curve),
                            .weight = static_cast<double>(job->spec.parallel.world_size()),
                            .limits = std::move(shares)});
    } else {
      for (const budget::LimitShare& part : shares) fleet.limits[part.limit].other_w += part.share * now_w;
    }
  }
  return fleet;
}

/// Whether all budgets are kept while ranks switch, one after the other, from what they follow to what they should.
bool can_switch_all(const Fleet& fleet) {
  std::vector<double> power_w;
  for (const budget::PowerLimit& limit : fleet.limits) power_w.push_back(limit.other_w);
  for (std::size_t job = 0; job < fleet.jobs.size(); ++job) {
    const double most_w = std::max(fleet.movers[job].now_w, fleet.movers[job].power_w);
    for (const budget::LimitShare& part : fleet.jobs[job].limits) power_w[part.limit] += part.share * most_w;
  }
  return std::ranges::equal(power_w, fleet.limits, [](double sum_w, const budget::PowerLimit& limit) {
    return sum_w <= limit.watts * (1 + kPowerTolerance);
  });
}

/// The first budget that slows the job down; empty: none does.
std::string binding_budget(const budget::BudgetJob& job, const budget::PowerSplit& split,
                           std::span<const budget::PowerLimit> limits) {
  for (const budget::LimitShare& part : job.limits) {
    if (split.limits[part.limit].price_per_w > 0) {
      return fmt::format("power budget {} of {:.6g} W", quote(limits[part.limit].name), limits[part.limit].watts);
    }
  }
  return "";
}

}  // namespace

double PowerBudget::watts_at(double now_s) const {
  const auto after = std::ranges::upper_bound(points, now_s, {}, &BudgetPoint::time_s);
  return after == points.begin() ? points.front().watts : std::prev(after)->watts;
}

PowerBudget read_power_budget(const std::string& /*name*/, const JsonView& body) {
  require_members(body, {"watts", "points", "hosts", "other_w"});
  PowerBudget budget;
  budget.document = body.json().dump();
  if (body.has("watts") == body.has("points")) body.fail("needs watts or points, one of both");
  if (body.has("watts")) budget.points.push_back({0, number_in(body.at("watts"), 1, kMaxWatts)});
  if (body.has("points")) {
    const JsonView points = body.at("points");
    if (points.size() == 0 || points.size() > kMaxPoints) points.fail(fmt::format("needs 1 to {} points", kMaxPoints));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const JsonView point = points.at(i);
      if (point.size() != 2) point.fail("expected [time_s, watts]");
      const double time_s = point.at(0).number();
      if (i > 0 && !(time_s > budget.points.back().time_s)) point.fail("is not after the point before it");
      budget.points.push_back({time_s, number_in(point.at(1), 1, kMaxWatts)});
    }
  }
  if (has_value(body, "other_w")) budget.other_w = number_in(body.at("other_w"), 0, kMaxWatts);
  if (has_value(body, "hosts")) {
    const JsonView hosts = body.at("hosts");
    if (hosts.size() == 0 || hosts.size() > kMaxHosts) hosts.fail(fmt::format("needs 1 to {} names", kMaxHosts));
    for (std::size_t i = 0; i < hosts.size(); ++i) budget.hosts.insert(protocol::name_text(hosts.at(i)));
  }
  return budget;
}

PowerBudgets::PowerBudgets(WatchedStore& store, std::function<void()> changed)
    : budgets_("budget/", read_power_budget, store, std::move(changed)) {}

void PowerBudgets::remove(const std::string& name, Settled settled) {
  if (!budgets_.values().contains(name)) {
    throw http::HttpError(http::ErrorCode::no_such_budget,
                          fmt::format("there is no budget {}; GET /v1/budgets lists them", quote(name)));
  }
  budgets_.remove(name, std::move(settled));
}

std::vector<PowerBudgets::Order> PowerBudgets::follow(std::span<const JobRecord* const> jobs, double now_s) {
  followed_s_ = now_s;
  Fleet fleet = fleet_of(jobs, budgets_.values(), now_s);
  const budget::PowerSplit split = budget::split_power(fleet.jobs, fleet.limits);
  uses_.clear();
  for (std::size_t i = 0; i < fleet.limits.size(); ++i) {
    uses_.push_back({.name = fleet.limits[i].name,
                     .watts = fleet.limits[i].watts,
                     .planned_w = split.limits[i].power_w,
                     .assumed_w = fleet.limits[i].other_w,
                     .price_per_w = split.limits[i].price_per_w});
  }
  for (std::size_t i = 0; i < fleet.movers.size(); ++i) {
    Mover& mover = fleet.movers[i];
    const bool is_free = split.jobs[i].time_s <= fleet.jobs[i].curve.fastest_s();
    mover.slowdown_pct = is_free ? 0 : (split.jobs[i].time_s / mover.fastest_s - 1) * 100;
    mover.power_w = split.jobs[i].power_w;
  }
  const bool may_be_faster = can_switch_all(fleet);
  std::vector<Order> orders;
  for (std::size_t i = 0; i < fleet.movers.size(); ++i) {
    const Mover& mover = fleet.movers[i];
    if (!mover.has_to_slow_down() && !(may_be_faster && mover.may_be_faster())) continue;
    const std::string binding = binding_budget(fleet.jobs[i], split, fleet.limits);
    orders.push_back({.job = mover.job,
                      .slowdown_pct = mover.slowdown_pct,
                      .why = binding.empty() ? "no power budget slows the job down any more"
                                             : fmt::format("{}: iterations are {:.3g} % longer than the fastest, and "
                                                           "draw {:.6g} W",
                                                           binding, mover.slowdown_pct, mover.power_w)});
  }
  return orders;
}

Json PowerBudgets::to_json() const {
  Json list = Json::array();
  for (const auto& [name, budget] : budgets_.values()) {
    Json entry = Json::parse(budget.document);
    entry["name"] = name;
    const auto known = std::ranges::find(uses_, name, &BudgetSnapshot::name);
    const BudgetSnapshot use = known != uses_.end() ? *known : BudgetSnapshot{};
    entry["watts_now"] = use.watts;
    entry["planned_w"] = use.planned_w;
    entry["assumed_w"] = use.assumed_w;
    entry["kept"] = use.planned_w <= use.watts * (1 + kPowerTolerance);
    entry["gpus_per_kw"] = use.price_per_w * 1000;
    list.push_back(std::move(entry));
  }
  return {{"budgets", std::move(list)}};
}

}  // namespace lowgear::server
