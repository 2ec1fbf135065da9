#include "planning/profile/recording_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/core/error.h"

namespace lowgear::profile {

namespace {

/// Longest list of ranks in a message.
constexpr std::size_t kMostRanges = 8;
/// Fewer neighbours are listed one by one.
constexpr std::size_t kShortestRange = 3;

/// The world size of the job; those of ranks whose launcher states none are the smallest that fit.
int world_size_of(std::span<const Recording> recordings) {
  const auto largest = std::ranges::max_element(recordings, {}, &Recording::world_size);
  for (const Recording& recording : recordings) {
    const bool is_unknown = recording.world_size == recording.rank + 1 && largest->world_size == largest->rank + 1;
    if (recording.world_size == largest->world_size || is_unknown) continue;
    throw InputError(fmt::format("{}: its job has {} ranks, and that of {} has {}: give the recordings of one job",
                                 recording.source, recording.world_size, largest->source, largest->world_size));
  }
  return largest->world_size;
}

/// A rank once in each part, of one job and of one kind of GPU.
void refuse_mixed_jobs(std::span<const Recording> recordings) {
  std::set<std::pair<int, int>> seen;
  std::map<int, const Recording*> first_of_part;
  for (const Recording& recording : recordings) {
    if (!seen.emplace(recording.rank, recording.part).second) {
      throw InputError(fmt::format("{}: rank {} was recorded in another folder too; give one recording of each rank",
                                   recording.source, recording.rank));
    }
    if (recording.simulated != recordings.front().simulated) {
      throw InputError(
          fmt::format("{}: some recordings are simulated and some are not; do not mix them", recording.source));
    }
    const Recording& first = *first_of_part.try_emplace(recording.part, &recording).first->second;
    if (first.job == recording.job || first.job.empty() || recording.job.empty()) continue;
    throw InputError(fmt::format("{}: is of job {}, and {} of job {}: give the recordings of one job", recording.source,
                                 quote(recording.job), first.source, quote(first.job)));
  }
}

void refuse_shared_gpus(std::span<const Recording> recordings) {
  std::map<std::pair<int, std::string>, const Recording*> rank_of;
  for (const Recording& recording : recordings) {
    if (recording.gpu_uuid.empty()) continue;
    if (recording.gpu_uuid.starts_with("MIG-")) {
      throw InputError(fmt::format(
          "{}: rank {} ran on {}, an instance of a GPU; only the whole GPU has an energy counter: record on whole GPUs",
          recording.source, recording.rank, printable(recording.gpu_uuid)));
    }
    const auto [other, is_new] = rank_of.try_emplace({recording.part, recording.gpu_uuid}, &recording);
    if (is_new) continue;
    throw InputError(fmt::format(
        "{}: ranks {} and {} ran on one GPU ({}), whose energy counter counts both: record one rank on each GPU",
        recording.source, other->second->rank, recording.rank, printable(recording.gpu_uuid)));
  }
}

/// The stages of each rank, as far as they were recorded: its place in the pipeline.
std::map<int, std::set<int>> stages_by_rank(std::span<const Recording> recordings) {
  std::map<int, std::set<int>> stages;
  for (const Recording& recording : recordings) {
    std::set<int>& of_rank = stages[recording.rank];
    for (const RecordedUnit& unit : recording.units) of_rank.insert(unit.stage);
  }
  return stages;
}

/// Whether the missing ranks may have other places in the pipeline than those that were recorded, where each place has
/// as many ranks.
bool may_lack_a_stage(const std::map<int, std::set<int>>& by_rank, int world_size) {
  std::map<std::set<int>, int> ranks_of_place;
  for (const auto& [rank, stages] : by_rank) ++ranks_of_place[stages];
  const auto places = static_cast<int>(ranks_of_place.size());
  int most = 0;
  for (const auto& [place, ranks] : ranks_of_place) most = std::max(most, ranks);
  for (int all = places + 1; all <= world_size; ++all) {
    if (world_size % all == 0 && most <= world_size / all) return true;
  }
  return false;
}

/// Stages of the schedule that no rank has recorded.
std::vector<int> missing_stages(const std::map<int, std::set<int>>& by_rank, int stages) {
  std::set<int> found;
  for (const auto& [rank, of_rank] : by_rank) found.insert(of_rank.begin(), of_rank.end());
  if (!found.empty() && *found.rbegin() >= stages) {
    throw InputError(fmt::format("a rank recorded stage {}, and the schedule has {} stages: give that of this job",
                                 *found.rbegin(), stages));
  }
  std::vector<int> missing;
  for (int stage = 0; stage < stages; ++stage) {
    if (!found.contains(stage)) missing.push_back(stage);
  }
  return missing;
}

/// The kinds of most iterations' units, in their order.
std::string order_of(std::span<const RecordedUnit> units) {
  std::map<int, std::string> orders;
  for (const RecordedUnit& unit : units) orders[unit.iteration] += static_cast<char>('a' + static_cast<int>(unit.kind));
  std::map<std::string, int> counts;
  for (const auto& [iteration, order] : orders) ++counts[order];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  return most == counts.end() ? "" : most->first;
}

/// Replicas run the units of their stage in one order; in a pipeline each stage has its own.
std::optional<std::string> warn_of_orders(std::span<const Recording> recordings) {
  std::map<int, std::pair<int, std::string>> of_stage;
  for (const Recording& recording : recordings) {
    std::set<int> stages;
    for (const RecordedUnit& unit : recording.units) stages.insert(unit.stage);
    if (stages.size() != 1) continue;
    const std::string order = order_of(recording.units);
    const auto& [rank, first] = of_stage.try_emplace(*stages.begin(), recording.rank, order).first->second;
    if (order == first || order.size() != first.size()) continue;
    return fmt::format(
        "ranks {} and {} run the units of stage {} in different orders, as ranks of different stages do: check the "
        "column stage of their units.csv",
        rank, recording.rank, *stages.begin());
  }
  return std::nullopt;
}

std::optional<std::string> warn_of_models(std::span<const Recording> recordings) {
  for (const Recording& recording : recordings) {
    if (recording.gpu_name == recordings.front().gpu_name) continue;
    return fmt::format("rank {} ran on {}, and rank {} on {}: a profile describes one model of GPU",
                       recordings.front().rank, recordings.front().gpu_name, recording.rank, recording.gpu_name);
  }
  return std::nullopt;
}

/// `0 to 3, 5`
std::string ranges_text(std::span<const int> numbers) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (end - i < kShortestRange) end = i + 1;
    if (ranges.size() == kMostRanges) {
      ranges.emplace_back("...");
      break;
    }
    if (end - i == 1) {
      ranges.push_back(fmt::to_string(numbers[i]));
    } else {
      ranges.push_back(fmt::format("{} to {}", numbers[i], numbers[end - 1]));
    }
    i = end;
  }
  return fmt::format("{}", fmt::join(ranges, ", "));
}

}  // namespace

std::string ranks_text(std::span<const int> ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", ranges_text(ranks));
}

std::vector<int> missing_ranks(std::span<const Recording> recordings) {
  if (recordings.empty()) return {};
  refuse_mixed_jobs(recordings);
  std::set<int> present;
  for (const Recording& recording : recordings) present.insert(recording.rank);
  std::vector<int> missing;
  for (int rank = 0; rank < world_size_of(recordings); ++rank) {
    if (!present.contains(rank)) missing.push_back(rank);
  }
  return missing;
}

std::string missing_text(std::span<const Recording> recordings) {
  const std::vector<int> missing = missing_ranks(recordings);
  if (missing.empty()) return "";
  return fmt::format("{} of {} {} no recording", ranks_text(missing), world_size_of(recordings),
                     missing.size() == 1 ? "has" : "have");
}

std::vector<std::string> check_ranks(std::span<const Recording> recordings, std::optional<int> stages) {
  const std::vector<int> missing = missing_ranks(recordings);
  refuse_shared_gpus(recordings);
  const std::map<int, std::set<int>> by_rank = stages_by_rank(recordings);
  std::vector<std::string> warnings;
  if (auto models = warn_of_models(recordings)) warnings.push_back(*std::move(models));
  if (auto orders = warn_of_orders(recordings)) warnings.push_back(*std::move(orders));
  const std::vector<int> lacking = stages ? missing_stages(by_rank, *stages) : std::vector<int>();
  if (!lacking.empty()) {
    throw InputError(fmt::format("no rank recorded {} {} of the {} of the schedule{}: give the recordings of all ranks",
                                 lacking.size() == 1 ? "stage" : "stages", ranges_text(lacking), *stages,
                                 missing.empty() ? "" : "; " + missing_text(recordings)));
  }
  if (missing.empty()) return warnings;
  const std::string what = missing_text(recordings);
  if (!stages && may_lack_a_stage(by_rank, world_size_of(recordings))) {
    throw InputError(
        fmt::format("{}, and they may have run stages that no other rank has: copy their folders (rank-{:05}), or give "
                    "the job's schedule.csv next to them, which has its stages",
                    what, missing.front()));
  }
  warnings.push_back(what + ": stages are profiled by the other ranks that run them");
  return warnings;
}

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
    throw_input_error({recording.source + "/units.csv", 0, 0}, what + ", as in all iterations",
                      "check the column instruction: forwards and backwards look swapped");
  }
  warnings.push_back(fmt::format("{}/units.csv: {}; {} of {} iterations have this fault and are left out",
                                 recording.source, what, found.size(), iterations));
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
