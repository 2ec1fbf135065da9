#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/core/formats/json.h"
#include "control/server/job/job_record.h"
#include "control/server/job/server_metrics.h"
#include "control/server/job/shared/named_documents.h"
#include "planning/budget/power_split.h"

namespace lowgear::server {

/// Watts from a time on, until the next one.
struct BudgetPoint {
  double time_s = 0;  ///< since 1970
  double watts = 0;
};

/// What the GPUs of some hosts may draw together, on average over iterations: a cluster, a row, a node.
struct PowerBudget {
  std::string document;             ///< as it was put
  std::vector<BudgetPoint> points;  ///< at least one; the first counts before it, too
  double other_w = 0;               ///< drawn there by GPUs that no job of this server has
  std::set<std::string> hosts;      ///< empty: all hosts

  [[nodiscard]] double watts_at(double now_s) const;
  [[nodiscard]] bool has(const std::string& host) const { return hosts.empty() || hosts.contains(host); }
};

/// Throws InputError. `body` is the document.
[[nodiscard]] PowerBudget read_power_budget(const std::string& name, const JsonView& body);

/// All power budgets, by name, and how jobs keep them together: each job that has a frontier moves along it such that
/// the weighted relative loss of time of all is least (`budget::split_power`); a job weighs as much as it has GPUs. The
/// GPUs of other jobs count with their power limits: what is not known is assumed at full power.
class PowerBudgets {
 public:
  /// What a job has to do for the budgets.
  struct Order {
    const JobRecord* job = nullptr;
    double slowdown_pct = 0;  ///< its iterations have to be at least so much longer than its fastest plan's
    std::string why;
  };

  /// `store` outlives it. `changed` is called once other budgets count.
  PowerBudgets(WatchedStore& store, std::function<void()> changed);

  /// Takes a row of the store, or returns false when it is none of a budget. Throws InputError.
  bool restore(const StoredDocument& row) { return budgets_.restore(row); }
  /// Throws InputError.
  void put(const std::string& name, const JsonView& body, Settled settled) {
    budgets_.put(name, body, std::move(settled));
  }
  /// Throws HttpError 404 when there is no such budget.
  void remove(const std::string& name, Settled settled);

  [[nodiscard]] bool empty() const { return budgets_.values().empty(); }
  /// Whether there are budgets that were not followed for a second: jobs change meanwhile.
  [[nodiscard]] bool is_due(double now_s) const { return !empty() && now_s - followed_s_ >= 1; }
  /// For the jobs that have to be as they are not. Jobs that may draw more than they do wait until those that have to
  /// draw less follow their new plans, so that the sum is within the budgets while ranks switch.
  [[nodiscard]] std::vector<Order> follow(std::span<const JobRecord* const> jobs, double now_s);
  /// As GET /v1/budgets shows them.
  [[nodiscard]] Json to_json() const;
  /// As they were split last.
  [[nodiscard]] const std::vector<BudgetSnapshot>& uses() const { return uses_; }

 private:
  NamedDocuments<PowerBudget> budgets_;
  std::vector<BudgetSnapshot> uses_;
  double followed_s_ = 0;
};

}  // namespace lowgear::server
