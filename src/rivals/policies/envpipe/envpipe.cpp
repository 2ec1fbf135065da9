#include "rivals/policies/envpipe/envpipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/units.h"
#include "planning/planner/frontier/work_report.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/replay.h"
#include "rivals/policies/envpipe/envpipe_config.h"
#include "rivals/policies/envpipe/envpipe_reconfiguration.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"
#include "rivals/policies/zeus/profiled_clocks.h"

namespace lowgear::policies {
namespace {

/// Energy of every rank over one iteration, its waiting included.
std::vector<double> rank_energies_j(const planner::PlanningProblem& problem, const simulator::Timeline& timeline) {
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
std::vector<int> optimal_clocks_mhz(const planner::PlanningProblem& problem, std::span<const int> candidates,
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

/// What profiling finds on the profile; times only where ranks run just the stage of their number.
EnvPipeFindings findings_of(const planner::PlanningProblem& problem, const EnvPipeOptions& options, bool own_order) {
  EnvPipeFindings found;
  const std::vector<int> candidates = envpipe_profiled_clocks_mhz(common_clocks_mhz(problem), options.profile_step_mhz);
  found.optimal_mhz = optimal_clocks_mhz(problem, candidates, options.type);
  for (std::size_t rank = 0; own_order && rank < found.optimal_mhz.size(); ++rank) {
    const int stage = static_cast<int>(rank);
    found.stages.push_back(
        {.forward_time_s = problem.profile->at_clock(stage, OpKind::forward, found.optimal_mhz[rank]).time_s,
         .backward_time_s = problem.profile->at_max_clock(stage, OpKind::backward).time_s,
         .extra_activations = {}});
  }
  return found;
}

/// How long every op takes to get its input in an iteration at these clocks: the wait and the transfer.
std::vector<double> simulated_receives_s(const planner::PlanningProblem& problem, const simulator::TimingGraph& graph,
                                         const EnvPipeReconfiguration& state, const EnvPipeOptions& options) {
  const auto costs = simulator::costs_at_clocks(*problem.dag, *problem.profile, state.clocks_mhz());
  const simulator::Timeline timeline = replay(*problem.dag, graph, costs, problem.blocking_power_w);
  std::vector<double> receive_s(problem.dag->ops.size(), 0);
  for (std::size_t op = 0; op < receive_s.size(); ++op) {
    if (state.senders()[op] < 0) continue;
    const int rank = problem.dag->ops[op].rank;
    const bool first = problem.dag->rank_begin[static_cast<std::size_t>(rank)] == static_cast<int>(op);
    const double free_s = first ? 0 : timeline.start_s[op - 1] + timeline.duration_s[op - 1];
    const int sender = state.senders()[op];
    const int link = std::min(problem.dag->ops[op].stage, problem.dag->ops[static_cast<std::size_t>(sender)].stage);
    const double transfer_s = options.transfer_by_link_s.empty()
                                  ? options.transfer_s
                                  : options.transfer_by_link_s.at(static_cast<std::size_t>(link));
    receive_s[op] = std::max(0.0, timeline.start_s[op] - free_s) + transfer_s;
  }
  return receive_s;
}

/// Result of a reconfiguration loop.
struct Reconfigured {
  int steps = 0;
  std::optional<double> threshold_s = std::nullopt;  ///< shorter receives do not count as waiting
};

/// Runs the loop on simulated iterations.
Reconfigured reconfigure(const planner::PlanningProblem& problem, const EnvPipeOptions& options,
                         std::vector<int>& clocks_mhz) {
  const simulator::TimingGraph graph(*problem.dag);
  EnvPipeReconfiguration state(*problem.dag, envpipe_clocks(*problem.profile), options, {.clocks_mhz = clocks_mhz});
  planner::WorkReport work(problem.progress);
  work.begin("planning as EnvPipe", -1);
  int steps = 0;
  for (; !state.is_finished(); ++steps) {
    work.visited(clocks_mhz.size());
    const std::vector<double> receive_s = simulated_receives_s(problem, graph, state, options);
    const EnvPipeReconfiguration::Step step = state.step(receive_s);
    clocks_mhz = state.clocks_mhz();
    if (problem.steps != nullptr) (*problem.steps)(envpipe_step_text(*problem.dag, clocks_mhz, receive_s, step.path));
  }
  return {steps, state.state().threshold_s};
}

/// Note for the user on a plan that is slower than full clocks; empty for any other plan.
std::string slowness_note(const planner::PlanningProblem& problem, std::span<const int> clocks_mhz,
                          const EnvPipeOptions& options, const Reconfigured& reconfigured) {
  const auto time_s = [&](const std::vector<int>& clocks) {
    return replay(*problem.dag, simulator::costs_at_clocks(*problem.dag, *problem.profile, clocks),
                  problem.blocking_power_w)
        .time_s;
  };
  constexpr double kWorthAWord = 5e-3;  // relative
  const double slowdown = time_s({clocks_mhz.begin(), clocks_mhz.end()}) / time_s(max_clocks_mhz(problem)) - 1;
  if (slowdown < kWorthAWord) return "";
  const std::string why = options.reconfiguration == EnvPipeOptions::Reconfiguration::off || !reconfigured.threshold_s
                              ? "no reconfiguration corrects it"
                              : fmt::format("a receive below its threshold of {:.3g} ms does not count as waiting",
                                            *reconfigured.threshold_s * 1e3);
  return fmt::format("; {:.1f} % slower than its highest clock: {}", slowdown * 100, why);
}

}  // namespace

void require_valid(const EnvPipeOptions& options) {
  constexpr int kMaxMhz = 1'000'000;
  const auto clock_allowed = [](int clock_mhz) { return clock_mhz >= 1 && clock_mhz <= kMaxMhz; };
  if (!clock_allowed(options.profile_step_mhz) || !clock_allowed(options.raise_step_mhz)) {
    throw InputError(fmt::format("envpipe: clock steps must be within 1 and {} MHz", kMaxMhz));
  }
  if (!options.unlisted_gpu.empty() && !(options.start_clock_mhz && options.lowest_clock_mhz)) {
    throw InputError(
        fmt::format("envpipe: EnvPipe lists no clocks of the GPU {}, only of {}: give the highest and the lowest clock "
                    "for it by --envpipe-start-clock and --envpipe-lowest-clock (in a file start_clock and "
                    "lowest_clock)",
                    quote(options.unlisted_gpu), fmt::join(kEnvPipeGpuWords, ", ")));
  }
  const int start = options.start_clock_mhz.value_or(kMaxMhz);
  const int lowest = options.lowest_clock_mhz.value_or(1);
  if (!clock_allowed(start) || !clock_allowed(lowest) || start < lowest) {
    throw InputError(
        fmt::format("envpipe: the start clock ({} MHz) and the lowest clock ({} MHz) must be within 1 and {} "
                    "MHz, and the start clock not below the lowest clock",
                    start, lowest, kMaxMhz));
  }
  const auto amount_allowed = [](double amount) { return std::isfinite(amount) && amount >= 0; };
  if (!amount_allowed(options.threshold_scale) || !amount_allowed(options.transfer_s) ||
      !std::ranges::all_of(options.transfer_by_link_s, amount_allowed)) {
    throw InputError("envpipe: the threshold's scale and the transfer time must be finite and not negative");
  }
  if (std::ranges::any_of(options.extra_activations, [](int count) { return count < 0; })) {
    throw InputError("envpipe: the number of extra activations must not be negative");
  }
}

EnvPipePolicy::EnvPipePolicy(const EnvPipeOptions& options) : options_(options) { require_valid(options); }

planner::PolicyPlan EnvPipePolicy::plan(const planner::PlanningProblem& problem,
                                        std::optional<double> deadline_s) const {
  const bool baseline = options_.type == EnvPipeOptions::Type::baseline;
  const bool own_order = options_.order == EnvPipeOptions::Order::own && !baseline;
  if (own_order) require_envpipe_order(*problem.dag);
  const std::size_t links = static_cast<std::size_t>(problem.dag->stages) - 1;
  if (!options_.transfer_by_link_s.empty() && options_.transfer_by_link_s.size() != links) {
    throw InputError(fmt::format("envpipe: the times of transfers between {} stages are stated for a pipeline of {}",
                                 options_.transfer_by_link_s.size() + 1, problem.dag->stages));
  }
  const profile::StageProfile used = envpipe_profile(*problem.profile, options_);
  planner::PlanningProblem ordered = problem;
  ordered.profile = &used;
  const EnvPipeFindings found = findings_of(ordered, options_, own_order);

  planner::PolicyPlan plan;
  schedule::PipelineDag own_dag;
  std::string memory_note;
  if (own_order) {
    const std::vector<int> extra_activations =
        options_.extra_activations.empty()
            ? std::vector<int>(problem.extra_activations.begin(), problem.extra_activations.end())
            : options_.extra_activations;
    const EnvPipeOrder order = envpipe_order(problem.dag->microbatches, found, extra_activations);
    if (!order.note.empty()) memory_note = "; " + order.note;
    plan.schedule = schedule::envpipe_schedule(problem.dag->microbatches, order.early_forwards);
    own_dag = build_dag(*plan.schedule);
    ordered.schedule = &*plan.schedule;
    ordered.dag = &own_dag;
  }
  plan.clocks_mhz = envpipe_start_clocks_mhz(*ordered.dag, options_.type, max_clocks_mhz(ordered), found.optimal_mhz);
  const std::size_t candidates =
      envpipe_profiled_clocks_mhz(common_clocks_mhz(ordered), options_.profile_step_mhz).size();
  const int profiling_steps = baseline ? 0 : kEnvPipeStepsPerClock * static_cast<int>(candidates);
  const Reconfigured reconfigured = baseline ? Reconfigured{} : reconfigure(ordered, options_, plan.clocks_mhz);
  plan.note = fmt::format("settles after {} training steps ({} profiling, {} reconfiguring){}{}{}",
                          profiling_steps + reconfigured.steps, profiling_steps, reconfigured.steps,
                          slowness_note(ordered, plan.clocks_mhz, options_, reconfigured), memory_note,
                          deadline_s ? "; ignores the deadline" : "");
  if (plan.schedule && plan.schedule->ranks == problem.schedule->ranks) plan.schedule.reset();  // it is the given one
  return plan;
}

profile::StageProfile envpipe_profile(const profile::StageProfile& whole, const EnvPipeOptions& options) {
  const int highest = options.start_clock_mhz.value_or(kMaxClockMhz);
  const int lowest = options.lowest_clock_mhz.value_or(0);
  profile::StageProfile used(whole.stages());
  for (const profile::StageOp& op : whole.ops()) {
    for (const profile::Measurement& row : whole.measurements(op.stage, op.kind)) {
      if (row.clock_mhz >= lowest && row.clock_mhz <= highest) used.add(op.stage, op.kind, row);
    }
    if (used.has(op.stage, op.kind)) continue;
    throw InputError(
        fmt::format("envpipe: stage {} has no {} at a clock from {} to {} MHz; lower the lowest clock or "
                    "raise the start clock",
                    op.stage, name(op.kind), lowest, highest));
  }
  return used;
}

EnvPipeFindings envpipe_findings(const planner::PlanningProblem& problem, const EnvPipeOptions& options) {
  require_valid(options);
  const profile::StageProfile used = envpipe_profile(*problem.profile, options);
  planner::PlanningProblem profiled = problem;
  profiled.profile = &used;
  const bool own_order = options.order == EnvPipeOptions::Order::own && options.type != EnvPipeOptions::Type::baseline;
  if (own_order) require_envpipe_order(*problem.dag);
  return findings_of(profiled, options, own_order);
}

EnvPipeFindings envpipe_order_findings(const profile::StageProfile& profile, std::span<const double> blocking_power_w,
                                       int microbatches, EnvPipeOptions options) {
  options.order = EnvPipeOptions::Order::own;
  options.type = EnvPipeOptions::Type::envelope;
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      if (profile.has(stage, kind)) continue;
      throw InputError(fmt::format("envpipe: the profile has no {} of stage {}", lowgear::name(kind), stage));
    }
  }
  // Any order of whole backwards does: the times are those of stages.
  const schedule::Schedule any = without_communication(schedule::one_f_one_b_schedule(profile.stages(), microbatches));
  const schedule::PipelineDag dag = build_dag(any);
  return envpipe_findings(
      {.schedule = &any, .dag = &dag, .profile = &profile, .blocking_power_w = blocking_power_w, .progress = nullptr},
      options);
}

std::vector<int> envpipe_valley_clocks_mhz(const planner::PlanningProblem& problem, const EnvPipeOptions& options) {
  EnvPipeOptions any_order = options;
  any_order.order = EnvPipeOptions::Order::given;
  return envpipe_findings(problem, any_order).optimal_mhz;
}

}  // namespace lowgear::policies
