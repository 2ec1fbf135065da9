#include "report/usage/energy_account.h"

#include <algorithm>
#include <cmath>

namespace lowgear::usage {
namespace {

/// Rows of one kind of GPU, as they are summed up.
class AccountSum {
 public:
  void add(const UsageRow& row) {
    total_.add(row);
    users_[row.user].add(row);
    Job& job = jobs_[row.job];
    job.label = row.name;
    job.user = row.user;
    job.sum.add(row);
  }

  [[nodiscard]] std::optional<EnergyAccount> account() const {
    if (jobs_.empty()) return std::nullopt;
    EnergyAccount account{.total = total_.balance(), .users = {}, .jobs = {}};
    for (const auto& [user, sum] : users_) {
      account.users.push_back({.name = user, .label = {}, .user = user, .balance = sum.balance()});
    }
    for (const auto& [id, job] : jobs_) {
      account.jobs.push_back({.name = id, .label = job.label, .user = job.user, .balance = job.sum.balance()});
    }
    const auto energy = [](const AccountEntry& entry) { return entry.balance.energy_j.value; };
    std::ranges::stable_sort(account.users, std::ranges::greater(), energy);
    std::ranges::stable_sort(account.jobs, std::ranges::greater(), energy);
    return account;
  }

 private:
  struct Job {
    std::string label;
    std::string user;
    BalanceSum sum;
  };
  BalanceSum total_;
  std::map<std::string, BalanceSum> users_;
  std::map<std::string, Job> jobs_;
};

}  // namespace

void BalanceSum::add(const UsageRow& row) {
  sum_.iterations += row.iterations;
  sum_.unmeasured_iterations += row.iterations - row.measured_iterations;
  sum_.time_s += row.time_s;
  sum_.energy_j.value += row.energy_j;
  sum_.doubtful_energy_j += row.doubtful_energy_j;
  const double variance = row.energy_error_j * row.energy_error_j;
  energy_variance_ += variance;
  if (!row.has_baseline() || row.measured_iterations == 0) return;
  const auto measured = static_cast<double>(row.measured_iterations);
  compared_.time_s += row.time_s;
  compared_.baseline_time_s += static_cast<double>(row.iterations) * row.baseline_time_s;
  compared_.energy_j += row.energy_j;
  compared_.energy_variance += variance;
  compared_.baseline_energy_j += measured * row.baseline_energy_j;
  baseline_errors_j_[{row.job, row.baseline_energy_j}] += measured * row.baseline_error_j;
}

Balance BalanceSum::balance() const {
  Balance balance = sum_;
  balance.energy_j.error = std::sqrt(energy_variance_);
  if (!(compared_.baseline_energy_j > 0)) return balance;
  double baseline_variance = 0;
  for (const auto& [baseline, error_j] : baseline_errors_j_) baseline_variance += error_j * error_j;
  const double ratio = compared_.energy_j / compared_.baseline_energy_j;
  balance.saving =
      Saving{.energy_j = compared_.energy_j,
             .baseline_energy_j = compared_.baseline_energy_j,
             .saved_j = {compared_.baseline_energy_j - compared_.energy_j,
                         std::sqrt(compared_.energy_variance + baseline_variance)},
             .saved_ratio = {1 - ratio, std::sqrt(compared_.energy_variance + ratio * ratio * baseline_variance) /
                                            compared_.baseline_energy_j},
             .slowdown_ratio = compared_.time_s / compared_.baseline_time_s - 1};
  return balance;
}

MonthAccount account_of(std::span<const UsageRow> rows, const Month& month) {
  AccountSum measured;
  AccountSum simulated;
  for (const UsageRow& row : rows) {
    if (month.has(row.hour_s)) (row.simulated ? simulated : measured).add(row);
  }
  return {.month = month, .measured = measured.account(), .simulated = simulated.account()};
}

Amount at_factor(const Amount& energy_j, double per_kwh) {
  const double factor = per_kwh / kJoulesPerKwh;
  return {energy_j.value * factor, energy_j.error * factor};
}

}  // namespace lowgear::usage
