#include "rivals/policies/envpipe/envpipe_reconfiguration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "planning/planner/planners/planning_model.h"
#include "rivals/policies/envpipe/envpipe_sweep.h"

namespace lowgear::policies {
namespace {

constexpr int kFinishedSteps = 11;  ///< steps without a change that end the loop
constexpr int kGreedyRaises = 3;    ///< so that a step does about as much as a balanced one
constexpr int kNone = -1;

}  // namespace

EnvPipeClocks envpipe_clocks(const profile::StageProfile& profile) {
  EnvPipeClocks clocks;
  for (const profile::StageOp& op : profile.ops()) {
    std::vector<int>& own = clocks[{op.stage, op.kind}];
    for (const profile::Measurement& row : profile.measurements(op.stage, op.kind)) own.push_back(row.clock_mhz);
  }
  return clocks;
}

int envpipe_clock_from(std::span<const int> clocks_mhz, int wanted_mhz) {
  int clock = clocks_mhz.front();
  for (const int there : clocks_mhz) {
    if (there >= wanted_mhz) clock = there;
  }
  return clock;
}

EnvPipeReconfiguration::EnvPipeReconfiguration(const schedule::PipelineDag& dag, EnvPipeClocks clocks,
                                               const EnvPipeOptions& options, EnvPipeState state)
    : dag_(&dag),
      clocks_(std::move(clocks)),
      options_(options),
      state_(std::move(state)),
      senders_(dag.ops.size(), kNone),
      envelope_(outer_envelope(dag)) {
  for (const schedule::DagEdge& edge : dag.edges) {
    if (op(edge.from).rank != op(edge.to).rank) senders_[planner::at(edge.to)] = edge.from;
  }
}

EnvPipeReconfiguration::Step EnvPipeReconfiguration::step(std::span<const double> receive_s) {
  if (std::string problem = missing_in(receive_s); !problem.empty()) return {{}, {}, std::move(problem)};
  if (!state_.threshold_s) set_threshold(receive_s);
  Step decided{.path = find_path(receive_s), .raised = {}};
  decided.raised = units_to_raise(decided.path);
  const bool greedy = options_.reconfiguration == EnvPipeOptions::Reconfiguration::greedy;
  for (const int unit : decided.raised) raise_clock(unit, (greedy ? kGreedyRaises : 1) * options_.raise_step_mhz);
  state_.unchanged_steps = decided.raised.empty() ? state_.unchanged_steps + 1 : 0;
  return decided;
}

std::string EnvPipeReconfiguration::missing_in(std::span<const double> receive_s) const {
  if (receive_s.size() != dag_->ops.size()) {
    return fmt::format("{} receives were measured of {} units", receive_s.size(), dag_->ops.size());
  }
  for (std::size_t unit = 0; unit < receive_s.size(); ++unit) {
    if (std::isfinite(receive_s[unit]) && receive_s[unit] >= 0) continue;
    const schedule::ComputeOp& missing = dag_->ops[unit];
    return fmt::format("no receive was measured of rank {}, {}{}", missing.rank,
                       missing.kind == OpKind::forward ? 'F' : 'B', missing.microbatch);
  }
  return "";
}

bool EnvPipeReconfiguration::is_finished() const {
  return options_.reconfiguration == EnvPipeOptions::Reconfiguration::off || state_.unchanged_steps >= kFinishedSteps;
}

const schedule::ComputeOp& EnvPipeReconfiguration::op(int index) const { return dag_->ops[planner::at(index)]; }

const std::vector<int>& EnvPipeReconfiguration::clocks_of(int unit) const {
  return clocks_.at({op(unit).stage, op(unit).kind});
}

bool EnvPipeReconfiguration::is_first_of_rank(int index) const {
  return dag_->rank_begin[planner::at(op(index).rank)] == index;
}

void EnvPipeReconfiguration::set_threshold(std::span<const double> receive_s) {
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const double time_s : receive_s.subspan(static_cast<std::size_t>(dag_->rank_begin.end()[-2]))) {
    if (time_s > 0) shortest_s = std::min(shortest_s, time_s);
  }
  if (std::isfinite(shortest_s)) state_.threshold_s = shortest_s * options_.threshold_scale;
}

std::vector<int> EnvPipeReconfiguration::find_path(std::span<const double> receive_s) const {
  const double threshold_s = state_.threshold_s.value_or(std::numeric_limits<double>::infinity());
  std::vector<int> path;
  int unit = dag_->rank_begin[1] - 1;
  while (unit != kNone) {
    path.push_back(unit);
    const int previous = is_first_of_rank(unit) ? kNone : unit - 1;
    const int sender = senders_[planner::at(unit)];
    const bool waited = receive_s[planner::at(unit)] >= threshold_s;
    unit = sender != kNone && (waited || previous == kNone) ? sender : previous;
  }
  return path;
}

bool EnvPipeReconfiguration::can_rise(int unit) const {
  return state_.clocks_mhz[planner::at(unit)] < clocks_of(unit).front();
}

/// To the lowest clock that is at least `by_mhz` higher, or else to the highest.
void EnvPipeReconfiguration::raise_clock(int unit, int by_mhz) {
  int& clock = state_.clocks_mhz[planner::at(unit)];
  clock = envpipe_clock_from(clocks_of(unit), clock + by_mhz);
}

std::vector<int> EnvPipeReconfiguration::units_to_raise(std::span<const int> path) const {
  using enum EnvPipeOptions::Reconfiguration;
  const bool within_envelope = std::ranges::all_of(path, [this](int unit) { return envelope_[planner::at(unit)]; });
  if (within_envelope || options_.reconfiguration == off) return {};
  std::vector<int> units;
  for (const int unit : path) {
    if (!can_rise(unit)) continue;
    if (options_.reconfiguration == greedy) return {unit};
    if (!units.empty() && state_.clocks_mhz[planner::at(unit)] < state_.clocks_mhz[planner::at(units.front())])
      units.clear();
    if (units.empty() || state_.clocks_mhz[planner::at(unit)] == state_.clocks_mhz[planner::at(units.front())])
      units.push_back(unit);
  }
  return units;
}

std::string envpipe_step_text(const schedule::PipelineDag& dag, std::span<const int> clocks_mhz,
                              std::span<const double> receive_s, std::span<const int> path) {
  std::vector<bool> critical(dag.ops.size(), false);
  for (const int unit : path) critical[planner::at(unit)] = true;
  std::string text;
  for (std::size_t unit = 0; unit < dag.ops.size(); ++unit) {
    const schedule::ComputeOp& op = dag.ops[unit];
    if (dag.rank_begin[planner::at(op.rank)] == static_cast<int>(unit)) text += fmt::format("Stage {} | ", op.rank);
    text += fmt::format("{}{}{} {} {:.1f}{}", critical[unit] ? '[' : ' ', op.kind == OpKind::forward ? 'F' : 'B',
                        op.microbatch, clocks_mhz[unit], receive_s[unit] * 1e3, critical[unit] ? ']' : ' ');
    if (dag.rank_begin[planner::at(op.rank + 1)] == static_cast<int>(unit) + 1) text += '\n';
  }
  return text;
}

Json to_json(const EnvPipeState& state) {
  Json json = {{"clocks_mhz", state.clocks_mhz}, {"unchanged_steps", state.unchanged_steps}};
  if (state.threshold_s) json["threshold_s"] = *state.threshold_s;
  return json;
}

EnvPipeState read_envpipe_state(const JsonView& view) {
  constexpr int kMaxMhz = 1'000'000;
  constexpr int kMaxSteps = 1'000'000'000;
  EnvPipeState state;
  const JsonView clocks = view.at("clocks_mhz");
  for (std::size_t i = 0; i < clocks.size(); ++i) state.clocks_mhz.push_back(clocks.at(i).integer_in(1, kMaxMhz));
  state.unchanged_steps = view.at("unchanged_steps").integer_in(0, kMaxSteps);
  if (view.has("threshold_s")) state.threshold_s = view.at("threshold_s").number();
  return state;
}

}  // namespace lowgear::policies
