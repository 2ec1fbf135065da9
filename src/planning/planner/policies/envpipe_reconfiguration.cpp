#include "planning/planner/policies/envpipe_reconfiguration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "planning/planner/planners/at.h"
#include "planning/planner/policies/envelope.h"

namespace lowgear::planner {
namespace {

constexpr int kFinishedSteps = 11;  ///< steps without a change that end the loop
constexpr int kGreedyRaises = 3;    ///< so that a step does about as much as a balanced one
constexpr int kNone = -1;

}  // namespace

EnvPipeReconfiguration::EnvPipeReconfiguration(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                                               const EnvPipeOptions& options, std::vector<int> clocks_mhz)
    : dag_(&dag),
      profile_(&profile),
      options_(options),
      clocks_mhz_(std::move(clocks_mhz)),
      senders_(clocks_mhz_.size(), kNone),
      envelope_(outer_envelope(dag)) {
  for (const schedule::DagEdge& edge : dag.edges) {
    if (op(edge.from).rank != op(edge.to).rank) senders_[at(edge.to)] = edge.from;
  }
}

EnvPipeReconfiguration::Step EnvPipeReconfiguration::step(std::span<const double> receive_s) {
  if (!threshold_s_) set_threshold(receive_s);
  Step decided{.path = find_path(receive_s), .raised = {}};
  decided.raised = units_to_raise(decided.path);
  const bool greedy = options_.reconfiguration == EnvPipeOptions::Reconfiguration::greedy;
  for (const int unit : decided.raised) raise_clock(unit, (greedy ? kGreedyRaises : 1) * options_.raise_step_mhz);
  unchanged_steps_ = decided.raised.empty() ? unchanged_steps_ + 1 : 0;
  return decided;
}

bool EnvPipeReconfiguration::is_finished() const {
  return options_.reconfiguration == EnvPipeOptions::Reconfiguration::off || unchanged_steps_ >= kFinishedSteps;
}

const schedule::ComputeOp& EnvPipeReconfiguration::op(int index) const { return dag_->ops[at(index)]; }

bool EnvPipeReconfiguration::is_first_of_rank(int index) const { return dag_->rank_begin[at(op(index).rank)] == index; }

void EnvPipeReconfiguration::set_threshold(std::span<const double> receive_s) {
  double shortest_s = std::numeric_limits<double>::infinity();
  for (const double time_s : receive_s.subspan(static_cast<std::size_t>(dag_->rank_begin.end()[-2]))) {
    if (time_s > 0) shortest_s = std::min(shortest_s, time_s);
  }
  threshold_s_ = shortest_s * options_.threshold_scale;
}

std::vector<int> EnvPipeReconfiguration::find_path(std::span<const double> receive_s) const {
  std::vector<int> path;
  int unit = dag_->rank_begin[1] - 1;
  while (unit != kNone) {
    path.push_back(unit);
    const int previous = is_first_of_rank(unit) ? kNone : unit - 1;
    const int sender = senders_[at(unit)];
    const bool waited = receive_s[at(unit)] >= *threshold_s_;
    unit = sender != kNone && (waited || previous == kNone) ? sender : previous;
  }
  return path;
}

bool EnvPipeReconfiguration::can_rise(int unit) const {
  return clocks_mhz_[at(unit)] < profile_->at_max_clock(op(unit).stage, op(unit).kind).clock_mhz;
}

/// To the lowest profiled clock that is at least `by_mhz` higher, or else to the highest.
void EnvPipeReconfiguration::raise_clock(int unit, int by_mhz) {
  int& clock = clocks_mhz_[at(unit)];
  const int wanted = clock + by_mhz;
  const auto measurements = profile_->measurements(op(unit).stage, op(unit).kind);
  clock = measurements.front().clock_mhz;
  for (const profile::Measurement& measurement : measurements) {
    if (measurement.clock_mhz >= wanted) clock = measurement.clock_mhz;
  }
}

std::vector<int> EnvPipeReconfiguration::units_to_raise(std::span<const int> path) const {
  using enum EnvPipeOptions::Reconfiguration;
  const bool within_envelope = std::ranges::all_of(path, [this](int unit) { return envelope_[at(unit)]; });
  if (within_envelope || options_.reconfiguration == off) return {};
  std::vector<int> units;
  for (const int unit : path) {
    if (!can_rise(unit)) continue;
    if (options_.reconfiguration == greedy) return {unit};
    if (!units.empty() && clocks_mhz_[at(unit)] < clocks_mhz_[at(units.front())]) units.clear();
    if (units.empty() || clocks_mhz_[at(unit)] == clocks_mhz_[at(units.front())]) units.push_back(unit);
  }
  return units;
}

std::string envpipe_step_text(const schedule::PipelineDag& dag, std::span<const int> clocks_mhz,
                              std::span<const double> receive_s, std::span<const int> path) {
  std::vector<bool> critical(dag.ops.size(), false);
  for (const int unit : path) critical[at(unit)] = true;
  std::string text;
  for (std::size_t unit = 0; unit < dag.ops.size(); ++unit) {
    const schedule::ComputeOp& op = dag.ops[unit];
    if (dag.rank_begin[at(op.rank)] == static_cast<int>(unit)) text += fmt::format("Stage {} |", op.rank);
    text += fmt::format(" {}{}{} {} {:.1f}{}", critical[unit] ? '[' : ' ', op.kind == OpKind::forward ? 'F' : 'B',
                        op.microbatch, clocks_mhz[unit], receive_s[unit] * 1e3, critical[unit] ? ']' : ' ');
    if (dag.rank_begin[at(op.rank + 1)] == static_cast<int>(unit) + 1) text += '\n';
  }
  return text;
}

}  // namespace lowgear::planner
