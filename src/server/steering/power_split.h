#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lowgear::server {

/// An iteration of a job: its time, and the energy of all its GPUs.
struct CurvePoint {
  double time_s = 0;
  double energy_j = 0;
};

/// Time of an iteration by the mean power of all GPUs of a job. Between two vertices of its frontier the energy is
/// linear in time, E(t) = c - s t, and every deadline between them has a plan; so the mean power is E(t) / t = c / t -
/// s. It falls with time and is convex, since E falls and is convex: power has falling returns.
class PowerCurve {
 public:
  /// `vertices`: fastest first, times rising, energies falling and convex (as `frontier` of the server returns them),
  /// at least one. Slower iterations than `slowest_s` are left out, but not the fastest one. Throws InputError naming
  /// the vertex.
  PowerCurve(std::span<const CurvePoint> vertices, double slowest_s);

  /// Without the iterations that draw less than this; the fastest one stays.
  [[nodiscard]] PowerCurve with_floor(double least_w) const { return {vertices_, time_s(least_w)}; }

  [[nodiscard]] double fastest_s() const { return vertices_.front().time_s; }
  [[nodiscard]] double slowest_s() const { return vertices_.back().time_s; }
  [[nodiscard]] double most_w() const { return power_w(fastest_s()); }
  [[nodiscard]] double least_w() const { return power_w(slowest_s()); }

  /// Mean power of an iteration of this time, clamped to [fastest_s, slowest_s].
  [[nodiscard]] double power_w(double time_s) const;
  /// The shortest time with at most this power; slowest_s where none has so little.
  [[nodiscard]] double time_s(double power_w) const;
  /// The time with the least `time_weight * time + price * power`: the time weighs per second, the price is per watt.
  [[nodiscard]] double best_time_s(double time_weight, double price) const;

 private:
  /// Of the line of energies from vertex `i` to the next one: E at time 0.
  [[nodiscard]] double intercept_j(std::size_t i) const;

  std::vector<CurvePoint> vertices_;
};

/// The power of one budget.
struct BudgetPower {
  std::string name;
  double watts = 0;  ///< that its GPUs may draw together: those of a cluster, a row or a node
  /// Drawn there by jobs and GPUs that cannot be planned: jobs that have no frontier yet or were not heard of, at full
  /// power, and idle GPUs.
  double other_w = 0;
};

/// A job's share of a budget.
struct BudgetShare {
  std::size_t budget = 0;  ///< its place in the list of budgets
  double share = 1;        ///< of the job's power that counts there, above 0 and at most 1
};

/// A job that can be moved along its frontier.
struct BudgetJob {
  PowerCurve curve;
  /// How much a relative loss of its time counts against that of others. Above 0.
  double weight = 1;
  std::vector<BudgetShare> budgets = {};
};

struct JobPower {
  double power_w = 0;  ///< mean power that the job may have
  double time_s = 0;   ///< of an iteration then
};

struct BudgetUse {
  double power_w = 0;  ///< of all jobs there and of other consumers
  /// Loss that one more watt there would save: sum of weight * (time / fastest time). 0 where the budget does not bind.
  double price_per_w = 0;
};

struct PowerSplit {
  std::vector<JobPower> jobs;      ///< by job
  std::vector<BudgetUse> budgets;  ///< by budget
  /// Sum over jobs of weight * (time / fastest time - 1).
  double loss = 0;
  /// No split within the budgets loses less: the Lagrangian bound of the prices (Everett 1963; weak duality, so that it
  /// holds for any prices).
  double least_loss = 0;
};

/// Divides the power of all budgets among jobs such that the weighted relative loss of time is least. Every job then
/// has the same marginal loss by watt, its price: the sum of the prices of its budgets by share. Prices are found by
/// coordinate ascent of the dual, which is smooth, as jobs move along their frontiers without jumps. The split always
/// keeps the budgets, except those that cannot be kept, as even all jobs at their least power draw too much there: they
/// are treated as if they were as high as they need to be. Throws InputError naming job or budget when a weight, a
/// share or a budget is out of range.
[[nodiscard]] PowerSplit split_power(std::span<const BudgetJob> jobs, std::span<const BudgetPower> budgets);

}  // namespace lowgear::server
