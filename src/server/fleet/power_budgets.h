#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "server/fleet/power_shares.h"
#include "server/fleet/staggering.h"
#include "server/fleet/store_writes.h"
#include "server/fleet/waits.h"
#include "server/job/job_record.h"
#include "server/job/server_metrics.h"
#include "server/steering/power_split.h"

namespace lowgear::server {

/// Watts from a time on, until the next one.
struct BudgetPoint {
  double time_s = 0;  ///< since 1970
  double watts = 0;
};

/// How a budget treats the jobs of one run.
struct BudgetedRun {
  double weight = 1;   ///< of a GPU of its jobs, against those of others
  double floor_w = 0;  ///< its jobs are planned for no less power than this
};

/// A limit of the power of all GPUs of some hosts, on average over iterations: a cluster, a row, a node.
struct PowerBudget {
  std::string document;             ///< as it was put
  std::vector<BudgetPoint> points;  ///< at least one; the first counts before it, too
  double other_w = 0;               ///< drawn there by GPUs that no job of this server has
  std::set<std::string> hosts;      ///< empty: all hosts
  double peak_pct = 0;              ///< taken off the watts that jobs are planned for, where agents hold the budget
  std::map<std::string, BudgetedRun, std::less<>> runs = {};  ///< by name; others weigh 1
  StaggerSettings stagger = {};

  /// The least from now on until a little later, so that a fall of the timetable is in force when it begins.
  [[nodiscard]] double watts_from(double calendar_s) const;
  [[nodiscard]] bool has(const std::string& host) const { return hosts.empty() || hosts.contains(host); }
};

/// Throws InputError. `body` is the document.
[[nodiscard]] PowerBudget read_power_budget(const std::string& name, const JsonView& body);

/// All power budgets, by name, and how jobs keep them together: each job that has a frontier moves along it such that
/// the weighted relative loss of time of all is least (`split_power`); a job weighs as much as it has GPUs,
/// times the weight of its run. The GPUs of other jobs count with their power limits, or full power where no limit is
/// known. Agents that ask for it are granted their node's share of the budgets, which they hold by themselves.
class PowerBudgets {
 public:
  /// A change of a job for the budgets.
  struct Order {
    const JobRecord* job = nullptr;
    double slowdown_pct = 0;  ///< by which its iterations have to be longer than its fastest plan's
    std::string why;
  };

  /// `store` outlives it. `changed` is called once other budgets count. `most_node_w`: largest sum of the highest
  /// power limits of a node's GPUs.
  PowerBudgets(WatchedStore& store, std::function<void()> changed, double most_node_w);

  /// Takes a row of the store, or returns false when it is none of a budget or node. Throws InputError.
  bool restore(const StoredDocument& row);
  /// Throws InputError.
  void put(const std::string& name, const JsonView& body, OnCommitted on_committed) {
    budgets_.put(name, body, std::move(on_committed));
  }
  /// Throws Refused where there is no such budget.
  void remove(const std::string& name, OnCommitted on_committed);

  /// The shares of a node's GPUs. A node that is new is stored: it counts at full power when it falls silent.
  /// Throws Refused where another machine of this name has just asked, or its GPUs could draw more than
  /// a node may.
  [[nodiscard]] protocol::NodeShares grant(const std::string& host, const protocol::NodePower& node, double now_s);
  /// The same as the answer to its agent: at once where it differs from the last grant, else once it does, or after
  /// `wait_s`.
  void answer_node(const protocol::NodePower& node, ShareWait wait, double now_s);
  /// Answers the agents that need not wait any more. To be called about ten times a second.
  void answer_waiting(double now_s) { waits_.answer(shares_, now_s); }
  void answer_all() { waits_.end_all(shares_); }
  /// Whether a budget delays jobs, for which reports have to say when iterations begin.
  [[nodiscard]] bool wants_begins() const;
  /// Waits of ranks of a job's first stage before iterations; empty: none.
  [[nodiscard]] std::optional<protocol::IterationDelays> delays(const std::string& job) const;
  /// The node counts no longer. Throws Refused where there is none.
  void forget_node(const std::string& host, OnCommitted on_committed);

  [[nodiscard]] bool empty() const { return budgets_.values().empty(); }
  /// Whether there are budgets, or agents that ask for shares, that were not followed for a second: jobs change
  /// meanwhile.
  [[nodiscard]] bool is_due(double now_s) const { return !(empty() && shares_.empty()) && now_s - followed_s_ >= 1; }
  /// Returns an order for each job that has to change. Jobs that may draw more than they do wait until those that have
  /// to draw less follow their new plans, so that the sum is within the budgets while ranks switch. `calendar_s`:
  /// seconds since 1970 by the system's clock, which timetables go by and which may be set; `now_s` never jumps.
  [[nodiscard]] std::vector<Order> follow(std::span<const JobRecord* const> jobs, double now_s, double calendar_s);
  /// As GET /v1/budgets shows them.
  [[nodiscard]] Json to_json() const;
  /// As they were split last.
  [[nodiscard]] const std::vector<BudgetSnapshot>& uses() const { return uses_; }
  [[nodiscard]] PowerShares::NodeCount nodes() const { return shares_.nodes(); }
  /// As PowerShares::most_w.
  [[nodiscard]] std::optional<double> most_w(const std::string& uuid) const { return shares_.most_w(uuid); }

  /// An event of a budget or a node, for operators.
  struct Event {
    ServerEvent event = ServerEvent::budget_exceeded;
    std::string subject;  ///< `budget` or `node`
    std::string name;
    std::string reason;
  };
  /// Since the last call.
  [[nodiscard]] std::vector<Event> take_events() { return std::exchange(events_, {}); }

 private:
  void divide_shares(std::span<const JobRecord* const> jobs, const std::vector<BudgetPower>& powers, double now_s);
  void follow_staggers(std::span<const JobRecord* const> jobs, double now_s);
  void note_events(double now_s);
  void forget_lost_nodes(double now_s);
  void write_history(double now_s);

  WatchedStore* store_;
  double most_node_w_;
  NamedDocuments<PowerBudget> budgets_;
  PowerShares shares_;
  ShareWaits waits_;
  std::unordered_map<std::string, double> planned_w_;  ///< by job that can be planned
  std::vector<BudgetSnapshot> uses_;
  std::map<std::string, BudgetStagger> staggers_;  ///< by budget that wants one
  double followed_s_ = 0;
  std::map<std::string, LastingState, std::less<>> exceeded_;  ///< by name
  std::vector<Event> events_;
  BudgetHistory history_;
};

}  // namespace lowgear::server
