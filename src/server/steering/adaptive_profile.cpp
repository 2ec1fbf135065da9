#include "server/steering/adaptive_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/core/error.h"
#include "planning/profile/few_clock_fit.h"
#include "planning/profile/options.h"
#include "planning/schedule/dag.h"

namespace lowgear::server {
namespace {

/// So many clocks at most are left out, one after the other, to see how well they are predicted.
constexpr std::size_t kMostLeftOut = 12;

using CellKey = std::pair<int, OpKind>;
/// By clock.
using Uses = std::map<int, double>;

/// How a plan uses the rows of one (stage, kind).
struct CellUse {
  Uses ops;        ///< n
  Uses bound_ops;  ///< m
};

/// How long each op may last longer before the iteration does.
std::vector<double> slack_s(const schedule::PipelineDag& dag, const plan::Plan& plan, std::vector<double>& duration_s) {
  std::vector<double> start_s;
  for (const auto& ops : plan.ranks) {
    for (const plan::PlannedOp& op : ops) {
      start_s.push_back(op.start_s);
      duration_s.push_back(op.duration_s);
    }
  }
  std::vector<std::vector<int>> followers(dag.ops.size());
  for (const schedule::DagEdge& edge : dag.edges) followers[static_cast<std::size_t>(edge.from)].push_back(edge.to);
  std::vector<double> latest_end_s(dag.ops.size(), plan.time_s);
  for (std::size_t left = dag.topological_order.size(); left > 0; --left) {
    const auto op = static_cast<std::size_t>(dag.topological_order[left - 1]);
    for (const int follower : followers[op]) {
      const auto next = static_cast<std::size_t>(follower);
      latest_end_s[op] = std::min(latest_end_s[op], latest_end_s[next] - duration_s[next]);
    }
  }
  std::vector<double> slack_s;
  for (std::size_t op = 0; op < dag.ops.size(); ++op) {
    slack_s.push_back(latest_end_s[op] - start_s[op] - duration_s[op]);
  }
  return slack_s;
}

std::map<CellKey, CellUse> uses_of(const schedule::PipelineDag& dag, const plan::Plan& plan) {
  std::vector<double> duration_s;
  const std::vector<double> slack = slack_s(dag, plan, duration_s);
  const std::vector<int> clocks_mhz = clocks_for(plan, dag);
  std::map<CellKey, CellUse> uses;
  for (std::size_t i = 0; i < dag.ops.size(); ++i) {
    CellUse& use = uses[{dag.ops[i].stage, dag.ops[i].kind}];
    use.ops[clocks_mhz[i]] += 1;
    if (slack[i] <= 1e-6 * plan.time_s) use.bound_ops[clocks_mhz[i]] += 1;
  }
  return uses;
}

/// Watts that one more second of time would save at this clock: the mean slope to the neighbours on the Pareto set.
double marginal_power_w(std::span<const profile::Option> options, int clock_mhz) {
  const auto at = std::ranges::find(options, clock_mhz, &profile::Option::clock_mhz);
  if (at == options.end() || options.size() < 2) return 0;
  const profile::Option& faster = at == options.begin() ? *at : *std::prev(at);
  const profile::Option& slower = std::next(at) == options.end() ? *at : *std::next(at);
  return (faster.effective_energy_j - slower.effective_energy_j) / (slower.time_s - faster.time_s);
}

/// Errors of the plan's energy from a row's relative errors of time and of power.
struct Sensitivity {
  double time_j = 0;
  double power_j = 0;
};

struct PredictedUse {
  double at = 0;            ///< log(clock)
  double time_error_j = 0;  ///< for a bridge of variance 1 at this place
  double power_error_j = 0;
};

double bridge_variance(double left, double at, double right) { return (at - left) * (right - at) / (right - left); }

/// The errors of one kind in all stages, and what they would be with more measurements.
struct KindError {
  std::set<double> measured;  ///< log(clock)
  std::vector<PredictedUse> predicted;
  std::map<int, double> measured_variance;  ///< by clock, J^2

  [[nodiscard]] double predicted_variance() const {
    double variance = 0;
    for (auto right = std::next(measured.begin()); right != measured.end(); ++right) {
      const double left = *std::prev(right);
      double time_j = 0;
      double power_j = 0;
      for (const PredictedUse& use : predicted) {
        if (use.at <= left || use.at >= *right) continue;
        const double deviation = std::sqrt(bridge_variance(left, use.at, *right));
        time_j += use.time_error_j * deviation;
        power_j += use.power_error_j * deviation;
      }
      variance += time_j * time_j + power_j * power_j;
    }
    return variance;
  }

  [[nodiscard]] double variance() const {
    double sum = predicted_variance();
    for (const auto& [clock_mhz, part] : measured_variance) sum += part;
    return sum;
  }

  void measure(int clock_mhz) {
    if (measured.insert(std::log(clock_mhz)).second) return;
    if (const auto again = measured_variance.find(clock_mhz); again != measured_variance.end()) again->second /= 2;
  }
};

double variance(const std::vector<KindError>& kinds) {
  double sum = 0;
  for (const KindError& kind : kinds) sum += kind.variance();
  return sum;
}

void check(const MeasuredError& error, const profile::StageProfile& measured) {
  if (error.time_error_s >= 0 && std::isfinite(error.time_error_s) && error.energy_error_j >= 0 &&
      std::isfinite(error.energy_error_j)) {
    static_cast<void>(measured.at_clock(error.stage, error.kind, error.clock_mhz));
    return;
  }
  throw InputError(fmt::format("stage {} {} at {} MHz: errors of {} s and {} J; they must be 0 or more and finite",
                               error.stage, name(error.kind), error.clock_mhz, error.time_error_s,
                               error.energy_error_j));
}

class ErrorModel {
 public:
  /// `understated`: how many times larger than stated the errors of predictions are.
  ErrorModel(const ProfilingTask& task, const profile::StageProfile& measured, std::span<const MeasuredError> errors,
             double understated)
      : dag_(build_dag(task.schedule)), ranks_(rank_of_stage(task.schedule)), task_(task), understated_(understated) {
    for (const MeasuredError& error : errors) {
      check(error, measured);
      errors_[{error.stage, error.kind, error.clock_mhz}] = error;
    }
  }

  [[nodiscard]] std::vector<KindError> kinds(const profile::FewClockFit& fit, const profile::StageProfile& profile,
                                             const plan::Plan& plan) const {
    const auto uses = uses_of(dag_, plan);
    std::map<CellKey, std::set<double>> measured;
    for (const profile::FilledRow& row : fit.rows) {
      if (row.origin == profile::RowOrigin::measured)
        measured[{row.stage, row.kind}].insert(std::log(row.value.clock_mhz));
    }
    std::map<std::pair<OpKind, std::set<double>>, KindError> kinds;
    for (const profile::FilledRow& row : fit.rows) {
      const auto use = uses.find({row.stage, row.kind});
      if (use == uses.end()) continue;
      const std::set<double>& clocks = measured[{row.stage, row.kind}];
      KindError& kind = kinds[{row.kind, clocks}];
      kind.measured = clocks;
      add(row, profile, use->second, kind);
    }
    std::vector<KindError> list;
    list.reserve(kinds.size());
    for (auto& [key, kind] : kinds) list.push_back(std::move(kind));
    return list;
  }

 private:
  void add(const profile::FilledRow& row, const profile::StageProfile& profile, const CellUse& use,
           KindError& error) const {
    const int clock_mhz = row.value.clock_mhz;
    const auto ops = use.ops.find(clock_mhz);
    if (ops == use.ops.end()) return;
    const auto bound = use.bound_ops.find(clock_mhz);
    const Sensitivity sensitivity =
        sensitivity_of(row, profile, ops->second, bound == use.bound_ops.end() ? 0 : bound->second);
    profile::FilledRow known = row;
    if (row.origin == profile::RowOrigin::measured) {
      const auto found = errors_.find({row.stage, row.kind, clock_mhz});
      if (found == errors_.end()) return;
      known.time_error_s = found->second.time_error_s;
      known.energy_error_j = found->second.energy_error_j;
    }
    const double time_error = known.time_error_s / row.value.time_s;
    const double energy_error = known.energy_error_j / row.value.energy_j;
    const double power_error = std::sqrt(std::max(0.0, energy_error * energy_error - time_error * time_error));
    const double time_j = sensitivity.time_j * time_error;
    const double power_j = sensitivity.power_j * power_error;
    if (row.origin == profile::RowOrigin::measured) {
      error.measured_variance[clock_mhz] += time_j * time_j + power_j * power_j;
      return;
    }
    const double at = std::log(clock_mhz);
    const auto right = error.measured.upper_bound(at);
    const double deviation = std::sqrt(bridge_variance(*std::prev(right), at, *right)) / understated_;
    error.predicted.push_back({at, time_j / deviation, power_j / deviation});
  }

  [[nodiscard]] Sensitivity sensitivity_of(const profile::FilledRow& row, const profile::StageProfile& profile,
                                           double ops, double bound_ops) const {
    const auto rank = static_cast<std::size_t>(ranks_[static_cast<std::size_t>(row.stage)]);
    const double blocking_w = task_.blocking_power_w[rank];
    const auto options = pareto_options(profile.measurements(row.stage, row.kind), blocking_w);
    const double bought_w = bound_ops > 0 ? marginal_power_w(options, row.value.clock_mhz) : 0;
    const double time_j =
        ops * (row.value.energy_j - blocking_w * row.value.time_s) + bound_ops * bought_w * row.value.time_s;
    return {time_j, ops * row.value.energy_j};
  }

  schedule::PipelineDag dag_;
  std::vector<int> ranks_;
  const ProfilingTask& task_;
  double understated_ = 1;
  std::map<std::tuple<int, OpKind, int>, MeasuredError> errors_;
};

/// Highest first, each once.
std::vector<int> predicted_clocks(const profile::StageProfile& measured, const std::vector<int>& supported_mhz) {
  std::vector<int> clocks_mhz = predictable_clocks(measured, supported_mhz);
  std::ranges::sort(clocks_mhz, std::greater<>());
  clocks_mhz.erase(std::unique(clocks_mhz.begin(), clocks_mhz.end()), clocks_mhz.end());
  return clocks_mhz;
}

profile::StageProfile without_clock(const profile::StageProfile& profile, int clock_mhz) {
  profile::StageProfile rest(profile.stages());
  for (const auto& [stage, kind, rows] : profile.ops()) {
    for (const profile::Measurement& row : rows) {
      if (row.clock_mhz != clock_mhz) rest.add(stage, kind, row);
    }
  }
  return rest;
}

/// Clocks that can be left out and predicted from the others: everything was measured at them, at clocks on both sides,
/// and at enough others.
std::vector<int> clocks_to_predict(const profile::StageProfile& measured) {
  std::map<int, int> inner_cells;
  int cells = 0;
  bool are_enough = true;
  for (const profile::StageOp& op : measured.ops()) {
    const std::span<const profile::Measurement> rows = op.measurements;
    ++cells;
    are_enough = are_enough && static_cast<int>(rows.size()) > profile::kMinMeasuredClocks;
    for (std::size_t i = 1; i + 1 < rows.size(); ++i) ++inner_cells[rows[i].clock_mhz];
  }
  std::vector<int> clocks_mhz;
  for (const auto& [clock_mhz, count] : inner_cells) {
    if (are_enough && count == cells) clocks_mhz.push_back(clock_mhz);
  }
  return clocks_mhz;
}

void report(Progress* progress, std::string_view activity, double fraction) {
  if (progress != nullptr) progress->update(activity, fraction);
}

/// How many times larger than stated the errors of predictions are, 1 at least: found by leaving each clock out in turn
/// and predicting it.
double understatement(const profile::StageProfile& measured, Progress* progress) {
  double squares = 0;
  double count = 0;
  const std::vector<int> clocks_mhz = clocks_to_predict(measured);
  const std::size_t stride = (clocks_mhz.size() + kMostLeftOut - 1) / kMostLeftOut;
  for (std::size_t i = 0; i < clocks_mhz.size(); i += stride) {
    const int clock_mhz = clocks_mhz[i];
    report(progress, "looking at the errors of the profile",
           static_cast<double>(i) / static_cast<double>(clocks_mhz.size()));
    const profile::FewClockFit fit = fit_few_clocks(without_clock(measured, clock_mhz), std::span(&clock_mhz, 1));
    for (const profile::FilledRow& row : fit.rows) {
      if (row.value.clock_mhz != clock_mhz || !(row.energy_error_j > 0)) continue;
      const double off_j = row.value.energy_j - measured.at_clock(row.stage, row.kind, clock_mhz).energy_j;
      squares += off_j * off_j / (row.energy_error_j * row.energy_error_j);
      count += 1;
    }
  }
  return count > 0 ? std::max(1.0, std::sqrt(squares / count)) : 1;
}

/// Greedy: the clock whose measurement lowers the variance most, then the next one given that.
std::vector<int> choose_next(std::vector<KindError> kinds, const std::vector<int>& clocks_mhz, int count,
                             double wanted_variance, Progress* progress) {
  std::vector<int> chosen_mhz;
  double left = variance(kinds);
  while (static_cast<int>(chosen_mhz.size()) < count && left > wanted_variance) {
    int best_mhz = 0;
    double best = left * (1 - 1e-9);
    for (const int clock_mhz : clocks_mhz) {
      if (std::ranges::find(chosen_mhz, clock_mhz) != chosen_mhz.end()) continue;
      report(progress, "choosing clocks to measure", -1);
      std::vector<KindError> then = kinds;
      for (KindError& kind : then) kind.measure(clock_mhz);
      const double after = variance(then);
      if (after >= best) continue;
      best = after;
      best_mhz = clock_mhz;
    }
    if (best_mhz == 0) break;
    for (KindError& kind : kinds) kind.measure(best_mhz);
    chosen_mhz.push_back(best_mhz);
    left = best;
  }
  return chosen_mhz;
}

}  // namespace

ProfilingStep next_profiling_step(const ProfilingTask& task, const profile::StageProfile& measured,
                                  std::span<const MeasuredError> errors, const AdaptiveProfileOptions& options) {
  if (!(options.wanted_error > 0 && options.wanted_error < 1) || options.clocks_per_round < 1) {
    throw InputError(
        fmt::format("profiling to an error of {} with {} clocks a round: the error must be in (0, 1), the "
                    "clocks 1 or more",
                    options.wanted_error, options.clocks_per_round));
  }
  if (!(task.slowdown_pct >= 0) || !std::isfinite(task.slowdown_pct)) {
    throw InputError(fmt::format("profiling for a slowdown of {} %: it must be 0 or more", task.slowdown_pct));
  }
  if (task.blocking_power_w.size() != task.schedule.ranks.size()) {
    throw InputError(fmt::format("{} blocking powers for {} ranks; give one for each", task.blocking_power_w.size(),
                                 task.schedule.ranks.size()));
  }
  const std::vector<int> clocks_mhz = predicted_clocks(measured, task.supported_mhz);
  const profile::FewClockFit fit = fit_few_clocks(measured, clocks_mhz);
  ProfilingStep step;
  step.profile = fit.profile();
  planner::PipelinePlanner planner(task.schedule, step.profile, task.blocking_power_w, task.planner, {}, task.progress);
  const plan::Plan plan = planner.plan(planner.fastest_s() * (1 + task.slowdown_pct / 100));
  std::vector<KindError> kinds =
      ErrorModel(task, measured, errors, understatement(measured, task.progress)).kinds(fit, step.profile, plan);
  step.energy_j = plan.energy_j;
  step.energy_error_j = std::sqrt(variance(kinds));
  const double wanted_j = options.wanted_error * plan.energy_j;
  step.is_known = step.energy_error_j <= wanted_j;
  if (!step.is_known) {
    step.next_clocks_mhz =
        choose_next(std::move(kinds), clocks_mhz, options.clocks_per_round, wanted_j * wanted_j, task.progress);
  }
  return step;
}

}  // namespace lowgear::server
