#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/budgets/power_curve.h"

namespace lowgear::server {

/// Watts that some GPUs may draw together: those of a cluster, a row or a node.
struct PowerLimit {
  std::string name;
  double watts = 0;
  /// Drawn there by what cannot be planned: jobs that have no frontier yet or were not heard of, at full power, and
  /// idle GPUs.
  double other_w = 0;
};

/// What a limit is to a job.
struct LimitShare {
  std::size_t limit = 0;  ///< its place in the list of limits
  double share = 1;       ///< of the job's power that counts there, above 0 and at most 1
};

/// A job that can be moved along its frontier.
struct BudgetJob {
  PowerCurve curve;
  /// How much a relative loss of its time counts against that of others. Above 0.
  double weight = 1;
  std::vector<LimitShare> limits = {};
};

struct JobPower {
  double power_w = 0;  ///< mean power that the job may have
  double time_s = 0;   ///< of an iteration then
};

struct LimitUse {
  double power_w = 0;  ///< of all jobs there, and of what else is there
  /// Loss that one more watt there would save: sum of weight * (time / fastest time). 0 where the limit does not bind.
  double price_per_w = 0;
};

struct PowerSplit {
  std::vector<JobPower> jobs;    ///< by job
  std::vector<LimitUse> limits;  ///< by limit
  /// Sum over jobs of weight * (time / fastest time - 1).
  double loss = 0;
  /// No split within the limits loses less: the Lagrangian bound of the prices (Everett 1963; weak duality, so that it
  /// holds for any prices).
  double least_loss = 0;
};

/// The limits that cannot be kept: there, even all jobs at their least power draw too much.
[[nodiscard]] std::vector<std::size_t> overloaded(std::span<const BudgetJob> jobs, std::span<const PowerLimit> limits);

/// Divides the power of all limits among jobs such that the weighted relative loss of time is least. Every job then has
/// the same marginal loss by watt, its price: the sum of the prices of its limits by share. Prices are found by
/// coordinate ascent of the dual, which is smooth, as jobs move along their frontiers without jumps. The split always
/// keeps the limits, but those that `overloaded` names: they are treated as if they were as high as they need to be.
/// Throws InputError naming job or limit when a weight, a share or a limit is out of range.
[[nodiscard]] PowerSplit split_power(std::span<const BudgetJob> jobs, std::span<const PowerLimit> limits);

}  // namespace lowgear::server
