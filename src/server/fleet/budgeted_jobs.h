#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/fleet/power_budgets.h"
#include "server/fleet/power_shares.h"
#include "server/job/job_record.h"
#include "server/job/server_metrics.h"
#include "server/steering/power_split.h"

/// The jobs of a server as power budgets see them: the power that they draw, may draw and should draw.
namespace lowgear::server {

/// A job may draw more than it does only if that shortens its iterations by at least this much; otherwise plans would
/// change with every watt.
inline constexpr double kLeastGainPct = 0.2;
/// Slowdowns that differ by less are the same.
inline constexpr double kSlowdownTolerancePct = 0.01;

/// A job that can be moved along its frontier.
struct MovableJob {
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

/// All jobs, as budgets see them.
struct BudgetedFleet {
  std::vector<BudgetPower> budgets;  ///< by budget
  std::vector<BudgetJob> jobs;
  std::vector<MovableJob> movers;  ///< by job
  struct Measured {
    std::optional<double> power_w;
    double gpus = 0;
  };
  std::vector<Measured> measured;  ///< by budget, of all jobs
};

/// The most that the GPU may draw: by its agent, and by the rank only where no agent has the GPU, since a rank could
/// state any limit.
[[nodiscard]] double limit_w(const RegisteredRank& rank, const PowerShares& shares);
/// The share of a job's GPUs that the budget counts, from 0 to 1.
[[nodiscard]] double share_of(const JobRecord& job, const PowerBudget& budget);
/// The watts of each budget now, without jobs.
[[nodiscard]] std::vector<BudgetPower> powers_of(const std::map<std::string, PowerBudget>& budgets, double calendar_s);
/// Jobs with a frontier can be moved; the power of all others is taken off the budgets.
[[nodiscard]] BudgetedFleet fleet_of(std::span<const JobRecord* const> jobs,
                                     const std::map<std::string, PowerBudget>& budgets,
                                     const std::vector<BudgetPower>& powers, const PowerShares& shares_of_nodes,
                                     double now_s);
/// Where agents hold a budget, jobs are planned for less: the power limits of GPUs are above the mean that they are
/// planned to draw, and those of GPUs that are not planned for are not theirs.
void leave_room(std::vector<BudgetPower>& powers, const std::map<std::string, PowerBudget>& budgets,
                std::span<const PowerShares::Use> uses);
/// Whether all budgets are kept while ranks switch, one after the other, from what they follow to what they should.
[[nodiscard]] bool can_switch_all(const BudgetedFleet& fleet);
/// The next multiple of a small step: jobs that are alike then have the same plans, and draw no more.
[[nodiscard]] double rounded_up_pct(double slowdown_pct);
/// The first budget that slows the job down; empty: none does.
[[nodiscard]] std::string binding_budget(const BudgetJob& job, const PowerSplit& split,
                                         std::span<const BudgetPower> powers);
/// Adds to each snapshot the hosts that neither a rank nor an agent has: a misspelt name limits nothing.
void note_unknown_hosts(std::span<const JobRecord* const> jobs, const std::map<std::string, PowerBudget>& budgets,
                        const PowerShares& shares, std::vector<BudgetSnapshot>& snapshots);
/// The budgets as the jobs were split among them.
[[nodiscard]] std::vector<BudgetSnapshot> snapshots_of(const std::vector<BudgetPower>& powers,
                                                       const BudgetedFleet& fleet, const PowerSplit& split,
                                                       std::span<const PowerShares::Use> uses);

}  // namespace lowgear::server
