#include "planning/profile/recorded_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/core/error.h"

namespace lowgear::profile {
namespace {

/// By how much the times of units may err: marks on a stream are looked for every 50 us.
constexpr double kMarkErrorS = 1e-3;

/// Stage, kind and microbatch.
using UnitName = std::tuple<int, OpKind, int>;
/// Those of an iteration, sorted, each once.
using UnitNames = std::vector<UnitName>;

std::map<int, UnitNames> names_by_iteration(const Recording& recording) {
  std::map<int, UnitNames> iterations;
  for (const RecordedUnit& unit : recording.units) {
    iterations[unit.iteration].emplace_back(unit.stage, unit.kind, unit.microbatch);
  }
  for (auto& [number, names] : iterations) {
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  return iterations;
}

/// Stages with both directions; others only compute forwards, as those that are frozen.
std::set<int> trained_stages(const std::map<int, UnitNames>& iterations) {
  std::set<int> forwards;
  std::set<int> both;
  for (const auto& [number, names] : iterations) {
    for (const auto& [stage, kind, microbatch] : names) {
      if (kind == OpKind::forward) forwards.insert(stage);
    }
  }
  for (const auto& [number, names] : iterations) {
    for (const auto& [stage, kind, microbatch] : names) {
      if (kind != OpKind::forward && forwards.contains(stage)) both.insert(stage);
    }
  }
  return both;
}

/// Whether each forward of these stages has its backward, or both of its gradients where the iteration has both kinds.
bool is_balanced(const UnitNames& names, const std::set<int>& stages) {
  std::map<OpKind, std::set<std::pair<int, int>>> of_kind;
  for (const auto& [stage, kind, microbatch] : names) {
    if (stages.contains(stage)) of_kind[kind].emplace(stage, microbatch);
  }
  const auto& input = of_kind[OpKind::input_gradient];
  const auto& weight = of_kind[OpKind::weight_gradient];
  std::set<std::pair<int, int>> backwards = of_kind[OpKind::backward];
  backwards.insert(input.begin(), input.end());
  backwards.insert(weight.begin(), weight.end());
  // PyTorch computes no input gradient on the first stage.
  const bool has_halves = std::ranges::all_of(input, [&](const auto& unit) { return weight.contains(unit); });
  return has_halves && backwards == of_kind[OpKind::forward];
}

/// The units that most iterations with all backwards have; empty where none has.
std::optional<UnitNames> usual_units(const std::map<int, UnitNames>& iterations) {
  const std::set<int> stages = trained_stages(iterations);
  std::map<UnitNames, int> counts;
  for (const auto& [number, names] : iterations) {
    const auto known = counts.find(names);
    if (known != counts.end()) {
      ++known->second;
    } else if (is_balanced(names, stages)) {
      counts.emplace(names, 1);
    }
  }
  const auto most = std::ranges::max_element(
      counts, {}, [](const auto& count) { return std::pair(count.second, count.first.size()); });
  return most == counts.end() ? std::nullopt : std::optional(most->first);
}

std::set<int> microbatches_of(const UnitNames& names) {
  std::set<int> microbatches;
  for (const auto& [stage, kind, microbatch] : names) microbatches.insert(microbatch);
  return microbatches;
}

/// Iterations with other units than the usual ones, and those before a number that is missing.
struct Incomplete {
  std::set<int> iterations;
  int differing = 0;
  std::optional<int> first_differing;
  int missing = 0;
  std::optional<int> first_missing;
};

Incomplete incomplete_of(const std::map<int, UnitNames>& iterations, const UnitNames& usual) {
  Incomplete found;
  for (auto at = iterations.begin(); at != iterations.end(); ++at) {
    const auto& [number, names] = *at;
    if (names != usual) {
      ++found.differing;
      if (!found.first_differing) found.first_differing = number;
      found.iterations.insert(number);
    }
    const auto next = std::next(at);
    if (next == iterations.end() || next->first == number + 1) continue;
    found.missing += next->first - number - 1;
    if (!found.first_missing) found.first_missing = number + 1;
    found.iterations.insert(number);
  }
  return found;
}

bool is_backward(OpKind kind) {
  return kind == OpKind::backward || kind == OpKind::input_gradient || kind == OpKind::weight_gradient ||
         kind == OpKind::recomputing_backward;
}

/// Iterations in which a backward begins before its forward has ended, with the first such unit.
std::map<int, RecordedUnit> disordered_iterations(const Recording& recording) {
  std::map<std::tuple<int, int, int>, double> forward_ends_s;
  for (const RecordedUnit& unit : recording.units) {
    if (unit.kind == OpKind::forward) forward_ends_s[{unit.iteration, unit.stage, unit.microbatch}] = unit.end_s;
  }
  std::map<int, RecordedUnit> found;
  for (const RecordedUnit& unit : recording.units) {
    if (!is_backward(unit.kind)) continue;
    const auto forward = forward_ends_s.find({unit.iteration, unit.stage, unit.microbatch});
    if (forward == forward_ends_s.end() || unit.start_s >= forward->second - kMarkErrorS) continue;
    found.emplace(unit.iteration, unit);
  }
  return found;
}

/// Marks iterations whose units cannot have run in their order.
void leave_out_disordered(Recording& recording, std::size_t iterations, std::vector<std::string>& warnings) {
  const std::map<int, RecordedUnit> found = disordered_iterations(recording);
  if (found.empty()) return;
  const auto& [number, unit] = *found.begin();
  const std::string what = fmt::format("{} {} of stage {} begins before its forward has ended, in iteration {}",
                                       name(unit.kind), unit.microbatch, unit.stage, number);
  if (found.size() == iterations) {
    throw_input_error({recording.source + "/units.csv", 0, 0}, what + " and every other",
                      "check the column instruction: forwards and backwards look swapped");
  }
  warnings.push_back(fmt::format("{}/units.csv: {}; {} of {} iterations are so: left out", recording.source, what,
                                 found.size(), iterations));
  for (RecordedUnit& each : recording.units) each.settling = each.settling || found.contains(each.iteration);
}

}  // namespace

UnitCheck leave_out_incomplete(Recording& recording) {
  UnitCheck check;
  const std::map<int, UnitNames> iterations = names_by_iteration(recording);
  if (iterations.empty()) return check;
  leave_out_disordered(recording, iterations.size(), check.warnings);
  const std::string file = recording.source + "/units.csv: ";
  const std::optional<UnitNames> usual = usual_units(iterations);
  if (!usual) {
    check.warnings.push_back(file +
                             "no iteration has a backward for each forward; units are missing, whose energy "
                             "counts as waiting");
    return check;
  }
  const std::set<int> microbatches = microbatches_of(*usual);
  check.microbatches = static_cast<int>(microbatches.size());
  if (*microbatches.rbegin() - *microbatches.begin() + 1 != check.microbatches) {
    check.warnings.push_back(
        fmt::format("{}{} of the microbatches {} to {} have units; the energy of the others "
                    "counts as waiting",
                    file, check.microbatches, *microbatches.begin(), *microbatches.rbegin()));
  }
  const Incomplete found = incomplete_of(iterations, *usual);
  if (found.differing > 0) {
    check.warnings.push_back(fmt::format(
        "{}{} of {} iterations have other units than most ({} of them; the first is iteration {} with {}): units are "
        "missing, or numbers of microbatches differ; left out",
        file, found.differing, iterations.size(), usual->size(), *found.first_differing,
        iterations.at(*found.first_differing).size()));
  }
  if (found.missing > 0) {
    check.warnings.push_back(
        fmt::format("{}{} iterations have no units, the first is iteration {}; left out, with the "
                    "iterations before them",
                    file, found.missing, *found.first_missing));
  }
  for (RecordedUnit& unit : recording.units) {
    unit.settling = unit.settling || found.iterations.contains(unit.iteration);
  }
  return check;
}

}  // namespace lowgear::profile
