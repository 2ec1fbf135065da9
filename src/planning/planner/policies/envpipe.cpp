#include "planning/planner/policies/envpipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/envelope.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"

namespace lowgear::planner {
namespace {

constexpr int kProfilingStepsPerClock = 6;
constexpr int kFinishedSteps = 11;  ///< steps without a change that end the loop
constexpr int kGreedyRaises = 3;    ///< so that a step does about as much as a balanced one
constexpr int kNone = -1;

/// From the highest clock down, each at least `step_mhz` below the one before.
std::vector<int> profiled_clocks_mhz(const PlanningProblem& problem, int step_mhz) {
  std::vector<int> clocks;
  for (const int clock : common_clocks_mhz(problem)) {
    if (clocks.empty() || clock <= clocks.back() - step_mhz) clocks.push_back(clock);
  }
  return clocks;
}

/// Energy of every rank over one iteration, its waiting included.
std::vector<double> rank_energies_j(const PlanningProblem& problem, const simulator::Timeline& timeline) {
  std::vector<double> energy_j;
  for (std::size_t rank = 0; rank < timeline.blocked_s.size(); ++rank) {
    energy_j.push_back(timeline.blocked_s[rank] * problem.blocking_power_w[rank]);
  }
  for (std::size_t op = 0; op < timeline.energy_j.size(); ++op) {
    energy_j[static_cast<std::size_t>(problem.dag->ops[op].rank)] += timeline.energy_j[op];
  }
  return energy_j;
}

/// The clock at which each rank uses least energy when all run at the same one.
std::vector<int> optimal_clocks_mhz(const PlanningProblem& problem, std::span<const int> candidates,
                                    EnvPipeOptions::Type type) {
  const schedule::PipelineDag& dag = *problem.dag;
  std::vector<int> optimal(static_cast<std::size_t>(dag.ranks), candidates.front());
  std::vector<double> least_j(optimal.size(), std::numeric_limits<double>::infinity());
  for (const int candidate : candidates) {
    std::vector<int> clocks;
    for (const schedule::ComputeOp& op : dag.ops) {
      const bool at_max = type == EnvPipeOptions::Type::envelope && op.rank == dag.ranks - 1;
      clocks.push_back(at_max ? candidates.front() : candidate);
    }
    const std::vector<double> energy_j = rank_energies_j(problem, replay_clocks(problem, clocks));
    for (std::size_t rank = 0; rank < optimal.size(); ++rank) {
      const bool fixed = type == EnvPipeOptions::Type::envelope && rank + 1 == optimal.size();
      if (fixed || energy_j[rank] >= least_j[rank]) continue;
      least_j[rank] = energy_j[rank];
      optimal[rank] = candidate;
    }
  }
  return optimal;
}

void require_one_whole_stage_per_rank(const schedule::PipelineDag& dag) {
  const bool as_needed = std::ranges::all_of(dag.ops, [](const schedule::ComputeOp& op) {
    return op.stage == op.rank && (op.kind == OpKind::forward || op.kind == OpKind::backward);
  });
  if (as_needed) return;
  throw InputError(
      "envpipe: its own order has one stage per rank and whole backwards; plan for such a schedule (1f1b, gpipe), or "
      "keep the given order");
}

schedule::Schedule own_schedule(const PlanningProblem& problem, std::span<const int> optimal_mhz,
                                std::optional<int> extra_activations) {
  std::vector<schedule::EnvPipeStage> stages;
  for (int stage = 0; stage < problem.dag->stages; ++stage) {
    const int clock = optimal_mhz[static_cast<std::size_t>(stage)];
    stages.push_back({.forward_time_s = problem.profile->at_clock(stage, OpKind::forward, clock).time_s,
                      .backward_time_s = problem.profile->at_max_clock(stage, OpKind::backward).time_s,
                      .extra_activations = extra_activations});
  }
  const int microbatches = problem.dag->microbatches;
  return schedule::envpipe_schedule(microbatches, envpipe_extra_forwards(microbatches, stages));
}

/// The loop around the iterations: simulates one, finds its path of waiting, raises clocks on it.
class Reconfiguration {
 public:
  Reconfiguration(const PlanningProblem& problem, const EnvPipeOptions& options, std::vector<int> clocks_mhz)
      : problem_(&problem),
        options_(options),
        graph_(*problem.dag),
        clocks_mhz_(std::move(clocks_mhz)),
        sender_(clocks_mhz_.size(), kNone) {
    for (const schedule::DagEdge& edge : problem.dag->edges) {
      if (op(edge.from).rank != op(edge.to).rank) sender_[static_cast<std::size_t>(edge.to)] = edge.from;
    }
  }

  /// Training steps until it has settled.
  int run() {
    WorkReport work(problem_->progress);
    work.begin("planning as EnvPipe", -1);
    int steps = 0;
    for (int finished = 0; finished < kFinishedSteps; ++steps) {
      work.visited(clocks_mhz_.size());
      const std::vector<int> path = find_path();
      finished = raise(path) ? 0 : finished + 1;
    }
    return steps;
  }

  [[nodiscard]] const std::vector<int>& clocks_mhz() const { return clocks_mhz_; }

 private:
  [[nodiscard]] const schedule::ComputeOp& op(int index) const {
    return problem_->dag->ops[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] bool first_of_rank(int index) const {
    return problem_->dag->rank_begin[static_cast<std::size_t>(op(index).rank)] == index;
  }

  /// How long every op takes to get its input: the wait and the transfer; 0 where nothing is received.
  [[nodiscard]] std::vector<double> receive_times_s() const {
    const auto costs = simulator::costs_at_clocks(*problem_->dag, *problem_->profile, clocks_mhz_);
    const simulator::Timeline timeline = replay(*problem_->dag, graph_, costs, problem_->blocking_power_w);
    std::vector<double> receive_s(sender_.size(), 0);
    for (std::size_t index = 0; index < receive_s.size(); ++index) {
      if (sender_[index] == kNone) continue;
      double free_s = 0;
      if (!first_of_rank(static_cast<int>(index)))
        free_s = timeline.start_s[index - 1] + timeline.duration_s[index - 1];
      receive_s[index] = std::max(0.0, timeline.start_s[index] - free_s) + options_.transfer_s;
    }
    return receive_s;
  }

  /// The threshold comes from the first step and stays.
  void set_threshold(std::span<const double> receive_s) {
    double shortest_s = std::numeric_limits<double>::infinity();
    const auto last_rank = receive_s.subspan(static_cast<std::size_t>(problem_->dag->rank_begin.end()[-2]));
    for (const double time_s : last_rank) {
      if (time_s > 0) shortest_s = std::min(shortest_s, time_s);
    }
    threshold_s_ = shortest_s * options_.threshold_scale;
  }

  /// Last unit first.
  [[nodiscard]] std::vector<int> find_path() {
    const std::vector<double> receive_s = receive_times_s();
    if (!threshold_s_) set_threshold(receive_s);
    std::vector<int> path;
    int unit = problem_->dag->rank_begin[1] - 1;
    while (unit != kNone) {
      path.push_back(unit);
      const int previous = first_of_rank(unit) ? kNone : unit - 1;
      const int sender = sender_[static_cast<std::size_t>(unit)];
      const bool waited = receive_s[static_cast<std::size_t>(unit)] >= *threshold_s_;
      unit = sender != kNone && (waited || previous == kNone) ? sender : previous;
    }
    return path;
  }

  [[nodiscard]] bool can_rise(int unit) const {
    return clocks_mhz_[static_cast<std::size_t>(unit)] <
           problem_->profile->at_max_clock(op(unit).stage, op(unit).kind).clock_mhz;
  }

  /// To the lowest profiled clock that is at least `by_mhz` higher, or else to the highest.
  void raise_clock(int unit, int by_mhz) {
    int& clock = clocks_mhz_[static_cast<std::size_t>(unit)];
    const int wanted = clock + by_mhz;
    const auto measurements = problem_->profile->measurements(op(unit).stage, op(unit).kind);
    clock = measurements.front().clock_mhz;
    for (const profile::Measurement& measurement : measurements) {
      if (measurement.clock_mhz >= wanted) clock = measurement.clock_mhz;
    }
  }

  bool raise(std::span<const int> path) {
    switch (options_.reconfiguration) {
      case EnvPipeOptions::Reconfiguration::greedy:
        return raise_last(path);
      case EnvPipeOptions::Reconfiguration::balanced:
        return raise_lowest(path);
      case EnvPipeOptions::Reconfiguration::off:
        break;
    }
    return false;
  }

  bool raise_last(std::span<const int> path) {
    const auto unit = std::ranges::find_if(path, [this](int candidate) { return can_rise(candidate); });
    if (unit == path.end()) return false;
    raise_clock(*unit, kGreedyRaises * options_.raise_step_mhz);
    return true;
  }

  bool raise_lowest(std::span<const int> path) {
    std::vector<int> lowest;
    for (const int unit : path) {
      if (!can_rise(unit)) continue;
      const auto clock = [this](int index) { return clocks_mhz_[static_cast<std::size_t>(index)]; };
      if (!lowest.empty() && clock(unit) < clock(lowest.front())) lowest.clear();
      if (lowest.empty() || clock(unit) == clock(lowest.front())) lowest.push_back(unit);
    }
    for (const int unit : lowest) raise_clock(unit, options_.raise_step_mhz);
    return !lowest.empty();
  }

  const PlanningProblem* problem_;
  EnvPipeOptions options_;
  simulator::TimingGraph graph_;
  std::vector<int> clocks_mhz_;  ///< by op
  std::vector<int> sender_;      ///< by op: the op on another rank whose result it receives
  std::optional<double> threshold_s_;
};

std::vector<int> initial_clocks_mhz(const PlanningProblem& problem, std::span<const int> optimal_mhz,
                                    EnvPipeOptions::Type type) {
  std::vector<int> clocks = max_clocks_mhz(problem);
  const std::vector<bool> envelope = outer_envelope(*problem.dag);
  for (std::size_t op = 0; op < clocks.size(); ++op) {
    if (type == EnvPipeOptions::Type::envelope && envelope[op]) continue;
    clocks[op] = optimal_mhz[static_cast<std::size_t>(problem.dag->ops[op].rank)];
  }
  return clocks;
}

}  // namespace

EnvPipePolicy::EnvPipePolicy(const EnvPipeOptions& options) : options_(options) {
  constexpr int kMaxStepMhz = 1'000'000;
  const auto step_allowed = [](int step_mhz) { return step_mhz >= 1 && step_mhz <= kMaxStepMhz; };
  if (!step_allowed(options.profile_step_mhz) || !step_allowed(options.raise_step_mhz)) {
    throw InputError("envpipe: clock steps must be within 1 and 1000000 MHz");
  }
  const auto amount_allowed = [](double amount) { return std::isfinite(amount) && amount >= 0; };
  if (!amount_allowed(options.threshold_scale) || !amount_allowed(options.transfer_s)) {
    throw InputError("envpipe: the threshold's scale and the transfer time must be finite and not negative");
  }
  if (options.extra_activations.value_or(0) < 0) {
    throw InputError("envpipe: the number of extra activations must not be negative");
  }
}

PolicyPlan EnvPipePolicy::plan(const PlanningProblem& problem, std::optional<double> deadline_s) const {
  const bool own_order = options_.order == EnvPipeOptions::Order::own;
  if (own_order) require_one_whole_stage_per_rank(*problem.dag);
  const std::vector<int> candidates = profiled_clocks_mhz(problem, options_.profile_step_mhz);
  const std::vector<int> optimal_mhz = optimal_clocks_mhz(problem, candidates, options_.type);

  PolicyPlan plan;
  PlanningProblem ordered = problem;
  schedule::PipelineDag own_dag;
  if (own_order) {
    plan.schedule = own_schedule(problem, optimal_mhz, options_.extra_activations);
    own_dag = build_dag(*plan.schedule);
    ordered.schedule = &*plan.schedule;
    ordered.dag = &own_dag;
  }
  plan.clocks_mhz = initial_clocks_mhz(ordered, optimal_mhz, options_.type);
  const int profiling_steps = kProfilingStepsPerClock * static_cast<int>(candidates.size());
  int reconfiguration_steps = 0;
  if (options_.reconfiguration != EnvPipeOptions::Reconfiguration::off) {
    Reconfiguration reconfiguration(ordered, options_, std::move(plan.clocks_mhz));
    reconfiguration_steps = reconfiguration.run();
    plan.clocks_mhz = reconfiguration.clocks_mhz();
  }
  plan.note = fmt::format("settles after {} training steps ({} profiling, {} reconfiguring){}",
                          profiling_steps + reconfiguration_steps, profiling_steps, reconfiguration_steps,
                          deadline_s ? "; knows no deadline" : "");
  return plan;
}

}  // namespace lowgear::planner
