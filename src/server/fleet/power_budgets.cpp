#include "server/fleet/power_budgets.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "base/core/numbers/figure_text.h"
#include "protocol/json_members.h"
#include "server/fleet/budgeted_jobs.h"
#include "server/fleet/refusal.h"

namespace lowgear::server {
namespace {

constexpr double kMaxWatts = 1e9;
constexpr std::size_t kMaxPoints = 10'000;
constexpr std::size_t kMaxHosts = 100'000;
constexpr std::size_t kMaxRuns = 1'000;
constexpr double kLeastWeight = 0.001;
constexpr double kMaxWeight = 1'000;
constexpr double kMaxPeakPct = 100;
constexpr double kMaxStaggerPct = 99;
constexpr std::string_view kNodePrefix = "node/";
/// A budget that is not kept for so long is reported.
constexpr double kExcessLastsS = 10;
/// A fall of a timetable is known before: agents and their drivers have so long to follow. Twice as long as budgets are
/// left alone.
constexpr double kLeadS = 2;

std::map<std::string, BudgetedRun, std::less<>> read_runs(const JsonView& runs) {
  if (runs.size() > kMaxRuns) runs.fail(fmt::format("more than {} runs", kMaxRuns));
  std::map<std::string, BudgetedRun, std::less<>> read;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const JsonView run = runs.at(i);
    require_members(run, {"run", "weight", "floor_w"});
    BudgetedRun terms;
    if (has_value(run, "weight")) terms.weight = number_in(run.at("weight"), kLeastWeight, kMaxWeight);
    if (has_value(run, "floor_w")) terms.floor_w = number_in(run.at("floor_w"), 0, kMaxWatts);
    if (!read.emplace(protocol::name_text(run.at("run")), terms).second) run.at("run").fail("occurs twice");
  }
  return read;
}

}  // namespace

double PowerBudget::watts_from(double calendar_s) const {
  auto next = std::ranges::upper_bound(points, calendar_s, {}, &BudgetPoint::time_s);
  double watts = next == points.begin() ? points.front().watts : std::prev(next)->watts;
  for (; next != points.end() && next->time_s <= calendar_s + kLeadS; ++next) watts = std::min(watts, next->watts);
  return watts;
}

PowerBudget read_power_budget(const std::string& /*name*/, const JsonView& body) {
  require_members(body, {"watts", "points", "hosts", "other_w", "peak_pct", "runs", "stagger_pct", "stagger_apply"});
  PowerBudget budget;
  budget.document = body.json().dump();
  if (body.has("watts") == body.has("points")) body.fail("needs either watts or points");
  if (body.has("watts")) budget.points.push_back({0, number_in(body.at("watts"), 1, kMaxWatts)});
  if (body.has("points")) {
    const JsonView points = body.at("points");
    if (points.size() == 0 || points.size() > kMaxPoints) points.fail(fmt::format("needs 1 to {} points", kMaxPoints));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const JsonView point = points.at(i);
      if (point.size() != 2) point.fail("expected [time_s, watts]");
      const double time_s = protocol::calendar_time_s(point.at(0));
      if (i > 0 && !(time_s > budget.points.back().time_s)) point.fail("is not after the point before it");
      budget.points.push_back({time_s, number_in(point.at(1), 1, kMaxWatts)});
    }
  }
  if (has_value(body, "other_w")) budget.other_w = number_in(body.at("other_w"), 0, kMaxWatts);
  if (has_value(body, "peak_pct")) budget.peak_pct = number_in(body.at("peak_pct"), 0, kMaxPeakPct);
  if (has_value(body, "runs")) budget.runs = read_runs(body.at("runs"));
  if (has_value(body, "stagger_pct")) budget.stagger.most_pct = number_in(body.at("stagger_pct"), 0, kMaxStaggerPct);
  if (has_value(body, "stagger_apply")) budget.stagger.applies = body.at("stagger_apply").boolean();
  if (budget.stagger.applies && budget.stagger.most_pct == 0)
    body.at("stagger_apply").fail("needs stagger_pct above 0");
  if (has_value(body, "hosts")) {
    const JsonView hosts = body.at("hosts");
    if (hosts.size() == 0 || hosts.size() > kMaxHosts) hosts.fail(fmt::format("needs 1 to {} names", kMaxHosts));
    for (std::size_t i = 0; i < hosts.size(); ++i) budget.hosts.insert(protocol::name_text(hosts.at(i)));
  }
  return budget;
}

PowerBudgets::PowerBudgets(WatchedStore& store, std::function<void()> changed, double most_node_w)
    : store_(&store), most_node_w_(most_node_w), budgets_("budget/", read_power_budget, store, std::move(changed)) {}

bool PowerBudgets::restore(const StoredDocument& row) {
  if (!row.key.starts_with(kNodePrefix)) return budgets_.restore(row);
  const Json body = parse_json(row.document, row.key);
  shares_.restore(row.key.substr(kNodePrefix.size()), protocol::read_node_power(JsonView(body, row.key)));
  return true;
}

protocol::NodeShares PowerBudgets::grant(const std::string& host, const protocol::NodePower& node, double now_s) {
  double most_w = 0;
  for (const protocol::GpuPowerLimit& gpu : node.gpus) most_w += gpu.most_w;
  // Power that a node claims is taken from the others, so a node that claims too much would starve them.
  if (most_w > most_node_w_) {
    throw Refused(
        Refusal::not_allowed,
        fmt::format("host {} names {} GPUs with limits of {:.6g} W together, and the GPUs of a node may have {:.6g} W "
                    "(limits.max_node_w of server.yaml)",
                    quote(host), node.gpus.size(), most_w, most_node_w_));
  }
  if (shares_.is_another(host, node, now_s)) {
    throw Refused(Refusal::disagrees,
                  fmt::format("another machine, with other GPUs, asks for its share of power as host {}, too: "
                              "give each a name of its own (power_share.host of agent.yaml)",
                              quote(host)));
  }
  if (const std::string other = shares_.claimant(host, node, now_s); !other.empty()) {
    throw Refused(Refusal::disagrees,
                  fmt::format("host {} asks for a share of a GPU that host {} has, too: a GPU counts once", quote(host),
                              quote(other)));
  }
  if (!shares_.has(host) && shares_.size() >= PowerShares::kMaxNodes) {
    throw Refused(Refusal::full, fmt::format("{} nodes have shares of power, the largest number allowed: remove nodes "
                                             "that no longer exist (DELETE /v1/nodes/HOST)",
                                             PowerShares::kMaxNodes));
  }
  if (!shares_.knows(host, node)) {
    StoreChange change;
    change.documents.push_back({std::string(kNodePrefix) + host, protocol::to_json(node).dump()});
    store_->write(std::move(change), [](StoreOutcome) {});
  }
  return shares_.grant(host, node, now_s);
}

void PowerBudgets::answer_node(const protocol::NodePower& node, ShareWait wait, double now_s) {
  const protocol::NodeShares before = shares_.granted(wait.host);
  const protocol::NodeShares granted = grant(wait.host, node, now_s);
  if (wait.until_s <= now_s || granted != before) return wait.agent.give(granted);
  waits_.add(std::move(wait));
}

void PowerBudgets::forget_node(const std::string& host, OnCommitted on_committed) {
  if (!shares_.forget(host)) {
    throw Refused(Refusal::no_such_node,
                  fmt::format("there is no node {} that has asked for a share of power", quote(host)));
  }
  StoreChange change;
  change.removed_documents.push_back(std::string(kNodePrefix) + host);
  store_->write(std::move(change), std::move(on_committed));
}

void PowerBudgets::remove(const std::string& name, OnCommitted on_committed) {
  if (!budgets_.values().contains(name)) {
    throw Refused(Refusal::no_such_budget,
                  fmt::format("there is no budget {}; GET /v1/budgets lists them", quote(name)));
  }
  budgets_.remove(name, std::move(on_committed));
}

void PowerBudgets::divide_shares(std::span<const JobRecord* const> jobs, const std::vector<BudgetPower>& powers,
                                 double now_s) {
  if (shares_.empty() && shares_.uses().empty()) return;
  std::vector<ShareLimit> of_hosts;
  std::size_t place = 0;
  for (const auto& [name, budget] : budgets_.values()) {
    of_hosts.push_back({std::max(0.0, powers[place].watts - powers[place].other_w), &budget.hosts});
    ++place;
  }
  std::unordered_map<std::string, double> wanted_w;
  for (const JobRecord* job : jobs) {
    const auto planned = planned_w_.find(job->id);
    for (int rank = 0; rank < job->ranks.size(); ++rank) {
      const RegisteredRank* registered = job->ranks.find(rank);
      if (registered == nullptr || registered->finished) continue;
      // Jobs that share a GPU want it together.
      wanted_w[registered->spec.gpu_uuid] +=
          planned != planned_w_.end() ? planned->second / job->ranks.size() : limit_w(*registered, shares_);
    }
  }
  shares_.divide(std::move(of_hosts), wanted_w, now_s);
}

/// A job that is in several budgets is delayed by the first of them alone.
void PowerBudgets::follow_staggers(std::span<const JobRecord* const> jobs, double now_s) {
  std::erase_if(staggers_, [&](const auto& entry) {
    const auto budget = budgets_.values().find(entry.first);
    return budget == budgets_.values().end() || budget->second.stagger.most_pct == 0;
  });
  std::set<std::string> delayed;
  for (const auto& [name, budget] : budgets_.values()) {
    if (budget.stagger.most_pct == 0) continue;
    std::vector<StaggeredJob> staggered;
    for (const JobRecord* job : jobs) {
      std::optional<StaggeredJob> found = staggered_job(*job, share_of(*job, budget));
      if (!found) continue;
      if (budget.stagger.applies && !delayed.insert(job->id).second) found->pace.reset();
      staggered.push_back(*std::move(found));
    }
    staggers_[name].follow(staggered, budget.stagger, now_s);
  }
}

bool PowerBudgets::wants_begins() const {
  return std::ranges::any_of(budgets_.values(), [](const auto& entry) { return entry.second.stagger.applies; });
}

std::optional<protocol::IterationDelays> PowerBudgets::delays(const std::string& job) const {
  for (const auto& [name, stagger] : staggers_) {
    if (std::optional<protocol::IterationDelays> delays = stagger.delays(job)) return delays;
  }
  return std::nullopt;
}

std::vector<PowerBudgets::Order> PowerBudgets::follow(std::span<const JobRecord* const> jobs, double now_s,
                                                      double calendar_s) {
  followed_s_ = now_s;
  const std::vector<BudgetPower> powers = powers_of(budgets_.values(), calendar_s);
  divide_shares(jobs, powers, now_s);
  BudgetedFleet fleet = fleet_of(jobs, budgets_.values(), powers, shares_, now_s);
  leave_room(fleet.budgets, budgets_.values(), shares_.uses());
  const PowerSplit split = split_power(fleet.jobs, fleet.budgets);
  planned_w_.clear();
  for (std::size_t i = 0; i < fleet.movers.size(); ++i) planned_w_[fleet.movers[i].job->id] = split.jobs[i].power_w;
  divide_shares(jobs, powers, now_s);
  forget_lost_nodes(now_s);
  waits_.answer(shares_, now_s);
  follow_staggers(jobs, now_s);
  uses_ = snapshots_of(powers, fleet, split, shares_.uses());
  note_unknown_hosts(jobs, budgets_.values(), shares_, uses_);
  note_events(now_s);
  write_history(now_s);
  for (std::size_t i = 0; i < fleet.movers.size(); ++i) {
    MovableJob& mover = fleet.movers[i];
    const bool is_free = split.jobs[i].time_s <= fleet.jobs[i].curve.fastest_s();
    mover.slowdown_pct = is_free ? 0 : rounded_up_pct((split.jobs[i].time_s / mover.fastest_s - 1) * 100);
    mover.power_w = split.jobs[i].power_w;
  }
  const bool may_be_faster = can_switch_all(fleet);
  std::vector<Order> orders;
  for (std::size_t i = 0; i < fleet.movers.size(); ++i) {
    const MovableJob& mover = fleet.movers[i];
    if (!mover.has_to_slow_down() && !(may_be_faster && mover.may_be_faster())) continue;
    const std::string binding = binding_budget(fleet.jobs[i], split, powers);
    orders.push_back({.job = mover.job,
                      .slowdown_pct = mover.slowdown_pct,
                      .why = binding.empty() ? "no power budget slows the job down any more"
                                             : fmt::format("{}: iterations are {:.3g} % longer than the fastest, and "
                                                           "draw {:.6g} W",
                                                           binding, mover.slowdown_pct, mover.power_w)});
  }
  return orders;
}

void PowerBudgets::note_events(double now_s) {
  std::erase_if(exceeded_, [&](const auto& entry) { return !budgets_.values().contains(entry.first); });
  for (const BudgetSnapshot& use : uses_) {
    const auto is_exceeded = exceeded_[use.name].observe(!use.kept(), now_s, kExcessLastsS);
    if (!is_exceeded) continue;
    const std::string reason = fmt::format("plans and assumptions add up to {:.6g} W of {:.6g} W, {:.6g} W are assumed",
                                           use.planned_w, use.watts, use.assumed_w);
    events_.push_back(
        {*is_exceeded ? ServerEvent::budget_exceeded : ServerEvent::budget_kept, "budget", use.name, reason});
  }
  for (const PowerShares::NodeChange& change : shares_.take_changes(now_s)) {
    events_.push_back({change.is_silent ? ServerEvent::agent_silent : ServerEvent::agent_heard, "node", change.host,
                       change.is_silent ? "its agent no longer asks for its share of power: it counts at full power"
                                        : "its agent asks for its share of power again"});
  }
}

/// Without this a node that was named once would take power from the others for good.
void PowerBudgets::forget_lost_nodes(double now_s) {
  StoreChange change;
  for (const std::string& host : shares_.forget_lost(now_s)) {
    change.removed_documents.push_back(std::string(kNodePrefix) + host);
    events_.push_back({ServerEvent::agent_forgotten, "node", host,
                       fmt::format("its agent was silent for {}, and no job has its GPUs: it counts in no budget",
                                   duration_text(PowerShares::kForgottenS))});
  }
  if (!change.empty()) store_->write(std::move(change), [](StoreOutcome) {});
}

void PowerBudgets::write_history(double now_s) {
  StoreChange change;
  change.budgets = history_.due(uses_, now_s);
  if (!change.empty()) store_->write(std::move(change), [](StoreOutcome) {});
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
    entry["kept"] = use.kept();
    entry["measured_w"] = or_null(use.measured_w);
    entry["measured_gpus"] = std::llround(use.measured_gpus);
    entry["gpus_per_kw"] = use.price_per_w * 1000;
    entry["unknown_hosts"] = use.unknown_hosts;
    const auto stagger = staggers_.find(name);
    entry["stagger"] = stagger == staggers_.end() ? Json() : stagger->second.to_json();
    entry["held"] = nullptr;
    if (use.held) {
      entry["held"] = {
          {"watts", use.held->watts}, {"nodes", use.held->nodes}, {"silent_nodes", use.held->silent_nodes}};
    }
    list.push_back(std::move(entry));
  }
  Json jobs = Json::array();
  for (const auto& [job, watts] : std::map(planned_w_.begin(), planned_w_.end())) {
    jobs.push_back({{"job", job}, {"planned_w", watts}});
  }
  return {{"budgets", std::move(list)}, {"jobs", std::move(jobs)}};
}

}  // namespace lowgear::server
