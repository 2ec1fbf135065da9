#include "report/report/measured_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/core/energy/checked_counter.h"
#include "base/core/error.h"

namespace lowgear::report {
namespace {

using Units = std::vector<const profile::RecordedUnit*>;

std::string describe(int stage, OpKind kind, int microbatch) {
  return fmt::format("{} of stage {}, microbatch {}", name(kind), stage, microbatch);
}

/// One rank's recording by iteration.
struct RankIterations {
  const profile::Recording* recording = nullptr;
  int pipeline_rank = 0;
  std::map<int, Units> units;
};

int pipeline_rank_of(const profile::Recording& recording, const std::map<int, int>& rank_of_stage) {
  std::optional<int> rank;
  for (const profile::RecordedUnit& unit : recording.units) {
    const auto found = rank_of_stage.find(unit.stage);
    if (found == rank_of_stage.end() || (rank && *rank != found->second)) {
      throw InputError(
          fmt::format("{}: has units of stage {}, which no rank of the plan runs{}; give the plan of the "
                      "run that was recorded",
                      recording.source, unit.stage, rank ? " with its others" : ""));
    }
    rank = found->second;
  }
  return rank.value_or(0);
}

std::vector<RankIterations> by_iteration(std::span<const profile::Recording> recordings,
                                         const schedule::PipelineDag& dag) {
  std::map<int, int> rank_of_stage;
  for (const schedule::ComputeOp& op : dag.ops) rank_of_stage[op.stage] = op.rank;
  std::vector<RankIterations> ranks;
  for (const profile::Recording& recording : recordings) {
    if (recording.units.empty()) continue;
    RankIterations& rank = ranks.emplace_back();
    rank.recording = &recording;
    rank.pipeline_rank = pipeline_rank_of(recording, rank_of_stage);
    for (const profile::RecordedUnit& unit : recording.units) rank.units[unit.iteration].push_back(&unit);
  }
  return ranks;
}

std::size_t op_count(const schedule::PipelineDag& dag, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return static_cast<std::size_t>(dag.rank_begin[at + 1] - dag.rank_begin[at]);
}

void require_plan_order(const RankIterations& rank, int iteration, const schedule::PipelineDag& dag) {
  const Units& units = rank.units.at(iteration);
  auto op = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank.pipeline_rank)]);
  for (const profile::RecordedUnit* unit : units) {
    const schedule::ComputeOp& planned = dag.ops[op++];
    if (std::tie(unit->stage, unit->kind, unit->microbatch) ==
        std::tie(planned.stage, planned.kind, planned.microbatch))
      continue;
    throw InputError(
        fmt::format("{}: iteration {} runs the {} where the plan has the {}; give the plan of the run "
                    "that was recorded",
                    rank.recording->source, iteration, describe(unit->stage, unit->kind, unit->microbatch),
                    describe(planned.stage, planned.kind, planned.microbatch)));
  }
}

/// When the rank began the iteration, on the recording's clock.
double begin_of(const RankIterations& rank, int iteration) {
  const double first_unit_s = rank.units.at(iteration).front()->start_s;
  const auto& iterations = rank.recording->iterations;
  const auto found = std::ranges::lower_bound(iterations, iteration, {}, &profile::RecordedIteration::number);
  return found != iterations.end() && found->number == iteration ? std::min(found->start_s, first_unit_s)
                                                                 : first_unit_s;
}

std::vector<MeasuredPower> power_between(const profile::Recording& recording, double begin_s, double end_s) {
  std::vector<MeasuredPower> power;
  const profile::EnergySample* before = nullptr;
  for (const profile::EnergySample& sample : recording.samples) {
    if (!sample.energy_j) continue;
    if (before != nullptr && *sample.energy_j == *before->energy_j) continue;
    if (before != nullptr && sample.time_s > begin_s && before->time_s < end_s) {
      const double step_j = *sample.energy_j - *before->energy_j;
      const double over_s = sample.time_s - before->time_s;
      const EnergyVerdict verdict =
          check_energy({.energy_j = step_j, .time_s = over_s, .period_s = CounterTraits{}.period_s});
      // The power reading stands for a step that cannot be.
      const std::optional<double> power_w = verdict.usable() ? std::optional(step_j / over_s) : sample.power_w;
      if (power_w) power.push_back({std::max(before->time_s, begin_s) - begin_s, *power_w});
      if (sample.time_s >= end_s) break;
    }
    before = &sample;
  }
  return power;
}

std::vector<MeasuredClock> clocks_between(const profile::Recording& recording, double begin_s, double end_s) {
  std::vector<MeasuredClock> clocks;
  for (const profile::EnergySample& sample : recording.samples) {
    if (sample.sm_mhz && sample.time_s >= begin_s && sample.time_s <= end_s) {
      clocks.push_back({sample.time_s - begin_s, *sample.sm_mhz});
    }
  }
  return clocks;
}

/// Times of ranks of one machine share their origin.
struct Machine {
  std::string boot_id;
  double begin_s = std::numeric_limits<double>::infinity();  ///< of the iteration, on the machine's clock
};

/// Machines of the ranks; those whose clock is not known have one each.
std::vector<std::size_t> machines_of(std::span<const RankIterations* const> ranks, int iteration,
                                     std::vector<Machine>& machines) {
  std::map<std::string, std::size_t> by_boot;
  std::vector<std::size_t> machine_of;
  for (const RankIterations* rank : ranks) {
    const auto& clock = rank->recording->clock;
    std::size_t machine = machines.size();
    if (clock && !clock->boot_id.empty()) machine = by_boot.emplace(clock->boot_id, machine).first->second;
    if (machine == machines.size()) machines.emplace_back();
    Machine& own = machines[machine];
    own.begin_s = std::min(own.begin_s, (clock ? clock->start_s : 0) + begin_of(*rank, iteration));
    machine_of.push_back(machine);
  }
  return machine_of;
}

MeasuredRank measured_rank(const RankIterations& rank, int iteration, double machine_begin_s) {
  const profile::Recording& recording = *rank.recording;
  // Taken off once, as times since a machine was started have few digits left after the point.
  const double begin_s = machine_begin_s - (recording.clock ? recording.clock->start_s : 0);
  MeasuredRank measured{recording.rank, rank.pipeline_rank, {}, {}, {}};
  for (const profile::RecordedUnit* unit : rank.units.at(iteration)) {
    measured.ops.push_back({unit->stage, unit->kind, unit->microbatch, unit->clock_mhz,
                            std::max(0.0, unit->start_s - begin_s), std::max(0.0, unit->end_s - begin_s)});
  }
  const double end_s = rank.units.at(iteration).back()->end_s;
  measured.power = power_between(recording, begin_s, end_s);
  measured.clocks = clocks_between(recording, begin_s, end_s);
  return measured;
}

MeasuredTimeline timeline_of(std::span<const RankIterations* const> ranks, int iteration) {
  std::vector<Machine> machines;
  const std::vector<std::size_t> machine_of = machines_of(ranks, iteration, machines);
  MeasuredTimeline timeline;
  timeline.iteration = iteration;
  timeline.simulated = ranks.front()->recording->simulated;
  timeline.axis = machines.size() == 1 ? TimeAxis::one_clock : TimeAxis::iteration_begin;
  double first_s = std::numeric_limits<double>::infinity();
  double last_s = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    timeline.ranks.push_back(measured_rank(*ranks[i], iteration, machines[machine_of[i]].begin_s));
    first_s = std::min(first_s, timeline.ranks.back().ops.front().start_s);
    last_s = std::max(last_s, timeline.ranks.back().ops.back().end_s);
  }
  timeline.time_s = last_s - first_s;
  std::ranges::sort(timeline.ranks, {},
                    [](const MeasuredRank& rank) { return std::pair(rank.pipeline_rank, rank.rank); });
  return timeline;
}

/// Iterations that all ranks of a part have run completely.
std::vector<int> complete_iterations(std::span<const RankIterations* const> ranks, const schedule::PipelineDag& dag) {
  std::vector<int> complete;
  for (const auto& [iteration, units] : ranks.front()->units) {
    const bool all = std::ranges::all_of(ranks, [&, number = iteration](const RankIterations* rank) {
      const auto found = rank->units.find(number);
      return found != rank->units.end() && found->second.size() == op_count(dag, rank->pipeline_rank);
    });
    if (all) complete.push_back(iteration);
  }
  return complete;
}

}  // namespace

std::vector<MeasuredTimeline> measured_timelines(std::span<const profile::Recording> recordings,
                                                 const schedule::PipelineDag& dag) {
  const std::vector<RankIterations> ranks = by_iteration(recordings, dag);
  std::map<int, std::vector<const RankIterations*>> parts;
  for (const RankIterations& rank : ranks) parts[rank.recording->part].push_back(&rank);
  std::map<int, MeasuredTimeline> timelines;
  for (const auto& [part, of_part] : parts) {
    for (const int iteration : complete_iterations(of_part, dag)) {
      for (const RankIterations* rank : of_part) require_plan_order(*rank, iteration, dag);
      timelines[iteration] = timeline_of(of_part, iteration);
    }
  }
  if (timelines.empty()) {
    throw InputError(
        "the recording has no iteration that every rank has run completely, with as many units as the plan has ops; "
        "give the plan of the run that was recorded");
  }
  std::vector<MeasuredTimeline> result;
  result.reserve(timelines.size());
  for (auto& [iteration, timeline] : timelines) result.push_back(std::move(timeline));
  return result;
}

IterationComparison compare_with(std::span<const MeasuredTimeline> timelines, const schedule::PipelineDag& dag,
                                 std::span<const double> expected_s, std::span<const int> clocks_mhz) {
  const auto counted = std::ranges::find_if(
      timelines, [](const MeasuredTimeline& timeline) { return timeline.iteration >= kWarmUpIterations; });
  const auto first = counted == timelines.end() ? timelines.begin() : counted;
  IterationComparison comparison;
  std::map<std::pair<int, OpKind>, UnitComparison> cells;
  std::map<std::pair<int, OpKind>, double> squares;
  for (const MeasuredTimeline& timeline : std::span(first, timelines.end())) {
    ++comparison.iterations;
    comparison.measured_s += timeline.time_s;
    for (const MeasuredRank& rank : timeline.ranks) {
      auto op = static_cast<std::size_t>(dag.rank_begin[static_cast<std::size_t>(rank.pipeline_rank)]);
      for (const MeasuredOp& measured : rank.ops) {
        UnitComparison& cell = cells[{measured.stage, measured.kind}];
        const double time_s = measured.end_s - measured.start_s;
        const double difference_s = time_s - expected_s[op];
        ++cell.units;
        if (measured.clock_mhz != clocks_mhz[op]) ++cell.at_other_clocks;
        cell.expected_s += expected_s[op++];
        cell.measured_s += time_s;
        squares[{measured.stage, measured.kind}] += difference_s * difference_s;
      }
    }
  }
  comparison.measured_s /= comparison.iterations;
  for (auto& [key, cell] : cells) {
    std::tie(cell.stage, cell.kind) = key;
    const auto units = static_cast<double>(cell.units);
    cell.expected_s /= units;
    cell.measured_s /= units;
    const double mean_s = cell.measured_s - cell.expected_s;
    cell.deviation_s = std::sqrt(std::max(0.0, squares[key] / units - mean_s * mean_s));
    comparison.units.push_back(cell);
  }
  return comparison;
}

}  // namespace lowgear::report
