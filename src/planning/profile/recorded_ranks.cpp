#include "planning/profile/recorded_ranks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
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

}  // namespace lowgear::profile
