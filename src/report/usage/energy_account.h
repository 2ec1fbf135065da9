#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "report/usage/usage_row.h"

namespace lowgear::usage {

/// An amount and its standard error.
struct Amount {
  double value = 0;
  double error = 0;
};

/// What iterations saved against baselines that were measured: n iterations against n times the baseline's mean.
struct Saving {
  double energy_j = 0;           ///< that the compared iterations took
  double baseline_energy_j = 0;  ///< that as many took at full clocks
  Amount saved_j;                ///< the difference
  Amount saved_ratio;            ///< as a share of `baseline_energy_j`
  double slowdown_ratio = 0;     ///< additional time, as a share of the time at full clocks
};

/// Sums over some rows.
struct Balance {
  std::int64_t iterations = 0;
  std::int64_t unmeasured_iterations = 0;  ///< whose energy is not known, and in no sum
  double time_s = 0;                       ///< of iterations; of jobs that train concurrently each counts
  Amount energy_j;
  double doubtful_energy_j = 0;  ///< of it, where figures are invalid or GPUs are shared with other jobs
  std::optional<Saving> saving;  ///< empty: nothing was compared with a baseline

  /// Whether that of any iteration is known; else the sums of energy are no 0.
  [[nodiscard]] bool knows_energy() const { return unmeasured_iterations < iterations; }
};

/// Adds rows up. The error of a baseline's mean is the same in all iterations that are compared with it, so that it
/// adds up linearly over them; errors of different baselines, and of the meters in different rows, are independent.
class BalanceSum {
 public:
  void add(const UsageRow& row);
  [[nodiscard]] Balance balance() const;

 private:
  struct Compared {
    double time_s = 0;  ///< of all iterations that have a baseline
    double baseline_time_s = 0;
    double energy_j = 0;
    double energy_variance = 0;
    double baseline_energy_j = 0;
  };
  Balance sum_;
  double energy_variance_ = 0;
  Compared compared_;
  /// Iterations times the error of their baseline, by job and baseline.
  std::map<std::pair<std::string, double>, double> baseline_errors_j_;
};

/// The account of one job, or of all jobs of a user.
struct AccountEntry {
  std::string name;   ///< the job's id, or the user; a user without name: of jobs that state none
  std::string label;  ///< of a job: its name
  std::string user;   ///< of a job
  Balance balance;
};

/// Of all jobs on real GPUs, or of all on simulated ones: never of both.
struct EnergyAccount {
  Balance total;
  std::vector<AccountEntry> users;  ///< most energy first
  std::vector<AccountEntry> jobs;   ///< most energy first
};

struct MonthAccount {
  Month month;
  std::optional<EnergyAccount> measured;   ///< empty: no job trained on real GPUs
  std::optional<EnergyAccount> simulated;  ///< likewise on simulated ones
};

/// Of the rows whose hours lie within the month.
[[nodiscard]] MonthAccount account_of(std::span<const UsageRow> rows, const Month& month);

/// Price and emissions of one kWh, as far as the operator states them: there are no defaults.
struct EnergyFactors {
  std::optional<double> usd_per_kwh;
  std::optional<double> co2_g_per_kwh;
};

inline constexpr double kJoulesPerKwh = 3.6e6;

/// In proportion to the energy.
[[nodiscard]] Amount at_factor(const Amount& energy_j, double per_kwh);

}  // namespace lowgear::usage
