#include "planning/steps/recorded_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear::steps {

namespace {

constexpr int kClockRounds = 6;

/// Amounts by step, replica and microbatch.
class AmountTable {
 public:
  explicit AmountTable(const Lengths& lengths) : lengths_(&lengths) {
    for (const Lengths::Step& step : lengths.steps) steps_[step.number] = &step;
  }
  [[nodiscard]] const Amounts& at(const profile::RecordedUnit& unit, int replica) const {
    const auto step = steps_.find(unit.iteration);
    const bool is_known = step != steps_.end() && step->second->fault.empty() &&
                          unit.microbatch < lengths_->microbatches && replica < lengths_->replicas;
    if (!is_known) {
      throw InputError(fmt::format(
          "microbatch {} of replica {} in step {} was recorded, and lengths.csv does not state its lengths{}; "
          "record again, or delete lengths.csv to profile without lengths",
          unit.microbatch, replica, unit.iteration,
          step != steps_.end() && !step->second->fault.empty() ? ": " + step->second->fault : ""));
    }
    return step->second->amounts[static_cast<std::size_t>(replica * lengths_->microbatches + unit.microbatch)];
  }

 private:
  const Lengths* lengths_;
  std::map<int, const Lengths::Step*> steps_;
};

/// Replica of each rank.
std::map<int, int> replicas_of(std::span<const profile::Recording> recordings, int replicas) {
  std::map<int, std::set<int>> ranks_of_stage;
  for (const profile::Recording& recording : recordings) {
    for (const profile::RecordedUnit& unit : recording.units) ranks_of_stage[unit.stage].insert(recording.rank);
  }
  std::map<int, int> result;
  for (const auto& [stage, ranks] : ranks_of_stage) {
    const auto count = static_cast<int>(ranks.size());
    if (count % replicas != 0) {
      throw InputError(
          fmt::format("{} ranks of stage {} were recorded, and lengths.csv has {} replicas: give the "
                      "recordings of all ranks",
                      count, stage, replicas));
    }
    int place = 0;
    for (const int rank : ranks) result[rank] = place++ / (count / replicas);
  }
  return result;
}

struct FitUnit {
  RecordedUnit unit;  ///< time as recorded
  int clock_mhz = 0;
};

using ClockCell = std::tuple<int, OpKind, int>;  ///< stage, kind, clock

ClockCell cell_of(const FitUnit& fit) { return {fit.unit.stage, fit.unit.kind, fit.clock_mhz}; }

/// How much slower each clock is than the highest one of its (stage, kind), against the model.
std::map<ClockCell, double> clock_factors(const std::vector<FitUnit>& units, const WorkModel& model) {
  std::map<ClockCell, std::pair<double, double>> sums;
  for (const FitUnit& fit : units) {
    const RecordedUnit& unit = fit.unit;
    auto& [ratios, count] = sums[cell_of(fit)];
    ratios += unit.time_s / model.time_s(unit.replica, unit.stage, unit.kind, unit.amounts);
    ++count;
  }
  std::map<ClockCell, double> factors;
  for (const auto& [cell, sum] : sums) {
    const auto& [stage, kind, clock_mhz] = cell;
    const auto highest = std::prev(sums.upper_bound({stage, kind, INT_MAX}));
    factors[cell] = sum.first / sum.second / (highest->second.first / highest->second.second);
  }
  return factors;
}

WorkModel fit_at_highest_clock(const std::vector<FitUnit>& units) {
  const auto [least, most] = std::ranges::minmax(units, {}, [](const FitUnit& fit) { return fit.unit.amounts.tokens; });
  const bool same_tokens = least.unit.amounts.tokens == most.unit.amounts.tokens;
  const auto constant = same_tokens ? WorkModel::Constant::zero : WorkModel::Constant::fitted;
  std::vector<RecordedUnit> at_highest;
  for (const FitUnit& fit : units) at_highest.push_back(fit.unit);
  WorkModel model = WorkModel::fit(at_highest, constant);
  for (int round = 0; round < kClockRounds; ++round) {
    const std::map<ClockCell, double> factors = clock_factors(units, model);
    for (std::size_t i = 0; i < units.size(); ++i) {
      at_highest[i].time_s = units[i].unit.time_s / factors.at(cell_of(units[i]));
    }
    model = WorkModel::fit(at_highest, constant);
  }
  return model;
}

/// Steps of the recordings whose units tell of clocks.
std::set<int> steps_of(std::span<const profile::Recording> recordings) {
  std::set<int> steps;
  for (const profile::Recording& recording : recordings) {
    for (const profile::RecordedUnit& unit : recording.units) {
      if (!unit.settling) steps.insert(unit.iteration);
    }
  }
  return steps;
}

int first_iteration(const profile::Recording& recording) {
  int first = INT_MAX;
  for (const profile::RecordedUnit& unit : recording.units) first = std::min(first, unit.iteration);
  return first;
}

}  // namespace

std::string leave_out_unstated(std::span<profile::Recording> recordings, const Lengths& lengths) {
  const std::set<int> recorded = steps_of(recordings);
  std::map<int, std::string> unstated;  // and why
  for (const int step : recorded) unstated[step] = "lengths.csv has no row of it";
  for (const Lengths::Step& step : lengths.steps) {
    if (step.fault.empty()) {
      unstated.erase(step.number);
    } else if (const auto found = unstated.find(step.number); found != unstated.end()) {
      found->second = step.fault;
    }
  }
  if (unstated.empty()) return "";
  const auto& [first, why] = *unstated.begin();
  if (unstated.size() == recorded.size()) {
    throw InputError(fmt::format(
        "lengths.csv does not state the lengths of any recorded step: step {}: {}; record again, or delete lengths.csv "
        "to profile without lengths",
        first, why));
  }
  for (profile::Recording& recording : recordings) {
    for (profile::RecordedUnit& unit : recording.units) {
      unit.settling = unit.settling || unstated.contains(unit.iteration);
    }
  }
  return fmt::format(
      "lengths.csv does not state the lengths of {} of {} recorded steps, which are left out: step {}: {}",
      unstated.size(), recorded.size(), first, why);
}

WorkModel fit_recorded_work(std::span<profile::Recording> recordings, const Lengths& lengths,
                            const profile::ProfilingOptions& options) {
  const AmountTable amounts(lengths);
  const std::map<int, int> replicas = replicas_of(recordings, lengths.replicas);
  std::vector<FitUnit> units;
  for (const profile::Recording& recording : recordings) {
    const int first = first_iteration(recording);
    for (const profile::RecordedUnit& unit : recording.units) {
      const int clock_mhz = unit.clock_mhz != 0 ? unit.clock_mhz : options.own_clock_mhz.value_or(0);
      if (unit.settling || clock_mhz == 0 || unit.iteration - first < options.skipped_iterations) continue;
      const int replica = replicas.at(recording.rank);
      units.push_back(
          {{replica, unit.stage, unit.kind, amounts.at(unit, replica), unit.end_s - unit.start_s}, clock_mhz});
    }
  }
  if (units.empty()) {
    throw InputError(
        "no recorded unit ran at a requested clock: there is nothing to fit lengths to; record with clocks, or name "
        "the "
        "clock that the GPU ran at by --own-clock");
  }
  const WorkModel model = fit_at_highest_clock(units);
  std::map<WorkModel::Cell, std::pair<double, double>> means;
  for (const FitUnit& fit : units) {
    auto& [time_s, count] = means[{fit.unit.stage, fit.unit.kind}];
    time_s += model.cells().at({fit.unit.stage, fit.unit.kind}).time_s(fit.unit.amounts);
    ++count;
  }
  for (profile::Recording& recording : recordings) {
    for (profile::RecordedUnit& unit : recording.units) {
      const auto cell = model.cells().find({unit.stage, unit.kind});
      if (unit.settling || cell == model.cells().end()) continue;
      const auto& [time_s, count] = means.at(cell->first);
      unit.work = cell->second.time_s(amounts.at(unit, replicas.at(recording.rank))) / (time_s / count);
    }
  }
  return model;
}

}  // namespace lowgear::steps
