#include "planning/profile/recorded_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "base/core/energy/energy_check.h"
#include "base/core/error.h"
#include "base/core/numbers/median.h"
#include "planning/profile/group_check.h"
#include "planning/profile/options.h"
#include "planning/profile/rank_profile.h"
#include "planning/profile/recorded_energy.h"
#include "planning/profile/recorded_samples.h"
#include "planning/profile/recording_check.h"
#include "planning/profile/regression/monotone_times.h"
#include "planning/profile/row_check.h"

namespace lowgear::profile {
namespace {

constexpr double kUnstableVariation = 0.1;
/// What GPUs of one model differ by in power at most, at the same clock and in the same op, or in ops of other stages.
constexpr double kPowerOfMates = 1.25;
constexpr double kPowerOfOthers = 1.6;
constexpr double kLargeEnergyError = 0.05;
constexpr long long kFewUnits = 10;
constexpr double kLargestBlockingError = 0.2;

/// Adds what one rank has recorded to what others have; means are sums until `finish`.
void add_rank(RecordedCell& cell, const RankCell& of_rank, double energy_error_share) {
  const double time_s = of_rank.times_s.mean();
  const double time_error_s = of_rank.times_s.error();
  const double energy_error_j = std::hypot(of_rank.power.error_w * time_s, of_rank.power.power_w * time_error_s);
  ++cell.ranks;
  cell.units += of_rank.times_s.count();
  if (time_s > cell.time_s) {
    cell.time_s = time_s;
    cell.time_error_s = time_error_s;
  }
  cell.power_w += of_rank.power.power_w;
  cell.energy_j += of_rank.power.power_w * time_s;
  cell.energy_error_j = std::hypot(cell.energy_error_j, energy_error_j);
  cell.shared_error_j += energy_error_share * of_rank.power.power_w * time_s;
  if (time_s > 0) cell.time_variation = std::max(cell.time_variation, of_rank.times_s.deviation() / time_s);
  cell.is_identified = cell.is_identified && of_rank.power.is_identified;
}

struct StageBlocking {
  int ranks = 0;
  RecordedBlocking sum;
  std::map<int, RunningMean> by_clock_w;
  bool knows_clocks = true;
};

/// Whether the powers of waiting by clock can be: a clock at which a GPU has hardly waited has any.
bool knows_clocks(const RankProfile& rank) {
  constexpr double kMostError = 0.05;
  double most_computing_w = 0;
  for (const auto& [key, cell] : rank.cells) most_computing_w = std::max(most_computing_w, cell.power.power_w);
  return std::ranges::all_of(rank.blocking_by_clock, [&](const auto& at_clock) {
    const CellPower& power = at_clock.second;
    return power.power_w >= kLeastBlockingW && power.power_w <= most_computing_w &&
           power.error_w <= kMostError * power.power_w;
  });
}

class ProfileBuilder {
 public:
  void add(const RankProfile& rank) {
    for (const auto& [key, of_rank] : rank.cells) {
      RecordedCell& cell = cells_[key];
      cell.key = key;
      add_rank(cell, of_rank, rank.energy_error_share);
      throttle_[key].reported += of_rank.throttle.reported;
      throttle_[key].throttled += of_rank.throttle.throttled;
      clock_[key].reported += of_rank.clock.reported;
      clock_[key].sum_mhz += of_rank.clock.sum_mhz;
    }
    if (!rank.blocking) return;
    const bool rank_knows_clocks = knows_clocks(rank);
    for (const int stage : rank.stages) {
      StageBlocking& blocking = blocking_[stage];
      ++blocking.ranks;
      blocking.sum.stage = stage;
      blocking.sum.power_w += rank.blocking->power_w;
      blocking.sum.error_w = std::hypot(blocking.sum.error_w, rank.blocking->error_w);
      blocking.sum.is_identified = blocking.sum.is_identified && rank.blocking->is_identified;
      blocking.knows_clocks = blocking.knows_clocks && rank_knows_clocks;
      for (const auto& [clock_mhz, power] : rank.blocking_by_clock) blocking.by_clock_w[clock_mhz].add(power.power_w);
    }
  }

  [[nodiscard]] RecordedProfile finish() {
    RecordedProfile profile;
    for (auto& [key, cell] : cells_) {
      cell.power_w /= cell.ranks;
      cell.energy_j /= cell.ranks;
      cell.energy_error_j /= cell.ranks;
      // All readings of a GPU may be off by as much, so that more of them do not help.
      cell.shared_error_j /= cell.ranks;
      cell.energy_error_j = std::hypot(cell.energy_error_j, cell.shared_error_j);
      const ThrottleCount& count = throttle_[key];
      if (count.reported > 0) {
        cell.throttled_share = static_cast<double>(count.throttled) / static_cast<double>(count.reported);
      }
      if (const ClockCount& clock = clock_[key]; clock.reported > 0) {
        cell.sampled_mhz = clock.sum_mhz / static_cast<double>(clock.reported);
      }
      profile.cells.push_back(cell);
    }
    for (auto& [stage, blocking] : blocking_) {
      blocking.sum.power_w /= blocking.ranks;
      blocking.sum.error_w /= blocking.ranks;
      blocking.sum.most_computing_w = most_computing_w(stage);
      if (!blocking.knows_clocks || blocking.by_clock_w.size() < 2) blocking.by_clock_w.clear();
      for (const auto& [clock_mhz, power_w] : blocking.by_clock_w) {
        blocking.sum.power_w_by_clock[clock_mhz] = power_w.mean();
      }
      profile.blocking.push_back(blocking.sum);
    }
    return profile;
  }

 private:
  [[nodiscard]] std::optional<double> most_computing_w(int stage) const {
    std::optional<double> most_w;
    for (const auto& [key, cell] : cells_) {
      if (key.stage == stage && cell.is_identified) most_w = std::max(most_w.value_or(0), cell.power_w);
    }
    return most_w;
  }

  std::map<CellKey, RecordedCell> cells_;
  std::map<CellKey, ThrottleCount> throttle_;
  std::map<CellKey, ClockCount> clock_;
  std::map<int, StageBlocking> blocking_;
};

std::string describe(const CellKey& key) {
  return fmt::format("stage {} {} at {} MHz", key.stage, name(key.kind), key.clock_mhz);
}

void warn_of(const RecordedCell& cell, std::vector<std::string>& warnings) {
  const std::string what = describe(cell.key);
  if (!cell.is_identified) {
    warnings.push_back(what +
                       ": its energy cannot be distinguished from that of others that always run with it; left out");
    return;
  }
  if (!(cell.energy_j > 0)) {
    warnings.push_back(what + ": the other cells account for all the energy; left out");
    return;
  }
  if (cell.is_throttled()) {
    warnings.push_back(fmt::format("{}: throttled in {:.0f} % of the samples: the GPU did not run at this clock", what,
                                   100 * *cell.throttled_share));
  }
  if (cell.time_variation > kUnstableVariation) {
    warnings.push_back(fmt::format("{}: times vary by {:.0f} %", what, 100 * cell.time_variation));
  }
  if (cell.energy_error_j > std::hypot(kLargeEnergyError * cell.energy_j, cell.shared_error_j)) {
    warnings.push_back(fmt::format("{}: energy is only known to {:.0f} %; record more iterations", what,
                                   100 * cell.energy_error_j / cell.energy_j));
  }
}

/// One line for all: where iterations are few, every cell has few units.
void warn_of_few_units(std::span<const RecordedCell> cells, std::vector<std::string>& warnings) {
  int few = 0;
  const RecordedCell* fewest = nullptr;
  for (const RecordedCell& cell : cells) {
    if (cell.units >= kFewUnits || !cell.is_identified || !(cell.energy_j > 0)) continue;
    ++few;
    if (fewest == nullptr || cell.units < fewest->units) fewest = &cell;
  }
  if (few == 0) return;
  const std::string least =
      fmt::format("{}: only {} {}", describe(fewest->key), fewest->units, fewest->units == 1 ? "unit" : "units");
  warnings.push_back(few == 1
                         ? least
                         : fmt::format("{} of {} cells have fewer than {} units, the least {}; record more iterations",
                                       few, cells.size(), kFewUnits, least));
}

void warn_of(const RecordedBlocking& blocking, std::vector<std::string>& warnings) {
  const std::string doubt = blocking.doubt();
  if (blocking.is_identified && !doubt.empty()) warnings.push_back(fmt::format("stage {}: {}", blocking.stage, doubt));
}

void warn_of_empty(std::span<const RecordedCell> cells, std::vector<std::string>& warnings) {
  std::set<std::pair<int, OpKind>> empty;
  for (const RecordedCell& cell : cells) {
    const bool is_empty = is_half_of_a_backward(cell.key.kind) && cell.time_s < kShortestUnitS;
    if (is_empty) empty.emplace(cell.key.stage, cell.key.kind);
  }
  for (const auto& [stage, kind] : empty) {
    warnings.push_back(fmt::format("stage {} {}: takes almost no time, which counts as waiting", stage, name(kind)));
  }
}

/// By rank, each rank's parts in their order, with energies that can be.
std::map<int, std::vector<Recording>> by_rank(std::span<const Recording> recordings) {
  std::map<int, std::vector<Recording>> ranks;
  for (const Recording& recording : recordings) {
    std::vector<Recording>& of_rank = ranks[recording.rank];
    of_rank.push_back(recording);
    settle_energy(of_rank.back());
  }
  for (auto& [rank, of_rank] : ranks) std::ranges::sort(of_rank, {}, &Recording::part);
  return ranks;
}

/// Makes the times of one (stage, kind) fall with the clock where only noise says otherwise. Its power stays.
void repair_times(std::span<RecordedCell> cells, std::vector<std::string>& warnings) {
  std::vector<ClockTime> times;
  for (const RecordedCell& cell : cells) times.push_back({cell.key.clock_mhz, cell.time_s, cell.time_error_s});
  times = monotone_times(std::move(times));
  std::vector<std::string> clocks;  // that share a time
  double shared_s = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    RecordedCell& cell = cells[i];
    if (times[i].time_s == cell.time_s) continue;
    if (times[i].time_s == shared_s) {
      clocks.back() += fmt::format(", {}", cell.key.clock_mhz);
    } else {
      clocks.push_back(fmt::to_string(cell.key.clock_mhz));
    }
    shared_s = times[i].time_s;
    const double change = times[i].time_s / cell.time_s;
    cell.energy_j *= change;
    cell.energy_error_j *= change;
    cell.time_s = times[i].time_s;
    cell.time_error_s = times[i].error_s;
  }
  if (clocks.empty()) return;
  warnings.push_back(fmt::format(
      "stage {} {}: a higher clock measured slower than a lower one, by no more than the error; their mean replaces "
      "the times of {} MHz",
      cells.front().key.stage, name(cells.front().key.kind), fmt::join(clocks, " MHz; of ")));
}

void repair_times(std::vector<RecordedCell>& cells, std::vector<std::string>& warnings) {
  const auto is_other_op = [](const RecordedCell& a, const RecordedCell& b) {
    return a.key.stage != b.key.stage || a.key.kind != b.key.kind;
  };
  for (auto begin = cells.begin(); begin != cells.end();) {
    const auto last = std::adjacent_find(begin, cells.end(), is_other_op);
    const auto end = last == cells.end() ? last : std::next(last);
    repair_times(std::span(begin, end), warnings);
    begin = end;
  }
}

/// The lowest power limit of the GPUs.
std::optional<NamedPowerLimit> limit_of(std::span<const Recording> recordings) {
  std::optional<NamedPowerLimit> lowest;
  for (const Recording& recording : recordings) {
    if (!recording.power_limit_w || (lowest && lowest->limit_w <= *recording.power_limit_w)) continue;
    lowest = NamedPowerLimit{recording.gpu_name, *recording.power_limit_w};
  }
  return lowest;
}

/// Leaves out cells that no GPU can have run, and warns of unlikely ones.
void judge_cells(RecordedProfile& profile, const std::optional<NamedPowerLimit>& limit,
                 std::vector<std::string>& warnings) {
  double waiting_w = 0;
  for (const RecordedBlocking& blocking : profile.blocking) {
    if (!blocking.doubt().empty()) continue;
    waiting_w = waiting_w == 0 ? blocking.power_w : std::min(waiting_w, blocking.power_w);
  }
  for (const RowFinding& found : check_rows(profile.profile(), waiting_w, limit)) {
    const CellKey key{found.stage, found.kind, found.row.clock_mhz};
    warnings.push_back(
        fmt::format("{} {}; {}", describe(key), found.what, found.is_impossible ? "left out" : "record it again"));
    if (found.is_impossible) std::ranges::find(profile.cells, key, &RecordedCell::key)->is_possible = false;
  }
  for (GroupFinding& found : check_groups(profile.profile())) warnings.push_back(std::move(found.what));
}

/// Leaves out the cells of units for which no clock was asked.
void drop_unlabelled(RankProfile& rank, const std::string& source, std::vector<std::string>& warnings) {
  long long units = 0;
  std::erase_if(rank.cells, [&units](const auto& cell) {
    const bool unlabelled = cell.first.clock_mhz == 0;
    if (unlabelled) units += cell.second.times_s.count();
    return unlabelled;
  });
  if (units == 0) return;
  if (rank.cells.empty()) {
    throw InputError(fmt::format(
        "{}: no clock was requested for any unit; record with a plan that sets clocks, or name the clock that "
        "the GPU ran at by --own-clock",
        source));
  }
  warnings.push_back(fmt::format("{}: no clock was requested for {} units; left out", source, units));
}

void warn_of_microbatches(const std::map<int, std::vector<int>>& ranks_by_microbatches, std::optional<int> of_schedule,
                          std::vector<std::string>& warnings) {
  if (of_schedule && ranks_by_microbatches.size() == 1 && ranks_by_microbatches.begin()->first != *of_schedule) {
    warnings.push_back(
        fmt::format("units of {} microbatches in an iteration, and the schedule has {}; the energy of missing units "
                    "counts as waiting",
                    ranks_by_microbatches.begin()->first, *of_schedule));
  }
  if (ranks_by_microbatches.size() < 2) return;
  const auto& [fewest, of_fewest] = *ranks_by_microbatches.begin();
  const auto& [most, of_most] = *ranks_by_microbatches.rbegin();
  warnings.push_back(
      fmt::format("{}: units of {} microbatches in an iteration, and {}: of {}; the energy of missing units counts as "
                  "waiting",
                  ranks_text(of_fewest), fewest, ranks_text(of_most), most));
}

void warn_of_uncompared(const std::map<int, std::vector<Recording>>& ranks, std::vector<std::string>& warnings) {
  std::vector<Recording> uncompared;
  for (const auto& [number, parts] : ranks) {
    for (const Recording& part : parts) {
      if (part.uncompared.empty()) continue;
      uncompared.emplace_back().rank = number;
      uncompared.back().uncompared = part.uncompared;
    }
  }
  for (std::string& line : uncompared_energies(uncompared)) warnings.push_back(std::move(line));
}

/// Energies of a rank's cells, and what they would be at the powers that other ranks draw in them.
struct ComparedPower {
  double own_j = 0;
  double others_j = 0;

  [[nodiscard]] double ratio() const { return others_j > 0 ? own_j / others_j : 1; }
};

/// By what is compared: powers of each rank.
using PowersOfRanks = std::map<CellKey, std::map<int, double>>;

ComparedPower compare_power(int number, const RankProfile& rank, const PowersOfRanks& powers, bool across_stages) {
  ComparedPower compared;
  for (const auto& [key, cell] : rank.cells) {
    if (!cell.power.is_identified) continue;
    const auto others = powers.find({across_stages ? 0 : key.stage, key.kind, key.clock_mhz});
    if (others == powers.end()) continue;
    std::vector<double> others_w;
    for (const auto& [other, power_w] : others->second) {
      if (other != number) others_w.push_back(power_w);
    }
    if (others_w.empty()) continue;
    compared.own_j += cell.times_s.mean() * cell.power.power_w;
    compared.others_j += cell.times_s.mean() * upper_median(std::span(others_w));
  }
  return compared;
}

/// Warns of ranks that draw less or more than others with the same GPU do in the same ops, or in ops of the same kind:
/// where counters were not compared with power readings, nothing else shows that one is off.
void warn_of_powers(const std::map<int, RankProfile>& ranks, std::vector<std::string>& warnings) {
  PowersOfRanks of_stage;
  PowersOfRanks of_kind;
  const std::string& gpu_name = ranks.begin()->second.gpu_name;
  for (const auto& [number, rank] : ranks) {
    if (rank.gpu_name != gpu_name) return;  // which is said
    for (const auto& [key, cell] : rank.cells) {
      if (!cell.power.is_identified) continue;
      of_stage[key][number] = cell.power.power_w;
      of_kind[{0, key.kind, key.clock_mhz}][number] = cell.power.power_w;
    }
  }
  for (const auto& [number, rank] : ranks) {
    const ComparedPower in_stage = compare_power(number, rank, of_stage, false);
    const bool has_mates = in_stage.others_j > 0;
    const ComparedPower compared = has_mates ? in_stage : compare_power(number, rank, of_kind, true);
    const double allowed = has_mates ? kPowerOfMates : kPowerOfOthers;
    const double ratio = compared.ratio();
    if (ratio <= allowed && ratio >= 1 / allowed) continue;
    warnings.push_back(fmt::format(
        "rank {} draws {:+.0f} % in ops that other ranks {}, at the same clocks; one of their energy counters is off",
        number, 100 * (ratio - 1), has_mates ? "run, too" : "run in other stages"));
  }
}

RecordedProfile profile_ranks(std::span<const Recording> recordings, const ProfilingOptions& options,
                              std::vector<std::string> warnings) {
  ProfileBuilder builder;
  std::map<int, RankProfile> ranks;
  std::map<int, std::vector<int>> ranks_by_microbatches;
  const std::map<int, std::vector<Recording>> settled = by_rank(recordings);
  for (const auto& [number, parts] : settled) {
    for (const Recording& part : parts) {
      warnings.insert(warnings.end(), part.warnings.begin(), part.warnings.end());
      std::ranges::move(sample_doubts(part), std::back_inserter(warnings));
      if (!part.invalid.empty()) {
        warnings.push_back(fmt::format("{}: the recording is marked invalid: {}; a plan from it says nothing",
                                       part.source, part.invalid));
      }
      if (part.lost_units == 0) continue;
      warnings.push_back(
          fmt::format("{}: {} units were lost, whose energy counts as waiting", part.source, part.lost_units));
    }
    std::vector<Recording> kept = without_warm_up(parts, options.skipped_iterations);
    std::set<int> microbatches;
    for (Recording& part : kept) {
      const UnitCheck check = leave_out_incomplete(part);
      warnings.insert(warnings.end(), check.warnings.begin(), check.warnings.end());
      microbatches.insert(check.microbatches);
    }
    microbatches.erase(0);  // not known
    for (const int count : microbatches) ranks_by_microbatches[count].push_back(number);
    RankProfile rank = profile_rank(std::move(kept), options, warnings);
    drop_unlabelled(rank, parts.front().source, warnings);
    builder.add(rank);
    rank.gpu_name = parts.front().gpu_name;
    ranks.emplace(number, std::move(rank));
  }
  warn_of_microbatches(ranks_by_microbatches, options.microbatches, warnings);
  warn_of_uncompared(settled, warnings);
  warn_of_powers(ranks, warnings);
  RecordedProfile profile = builder.finish();
  profile.simulated = recordings.front().simulated;
  for (const RecordedCell& cell : profile.cells) warn_of(cell, warnings);
  warn_of_few_units(profile.cells, warnings);
  warn_of_empty(profile.cells, warnings);
  repair_times(profile.cells, warnings);
  judge_cells(profile, limit_of(recordings), warnings);
  for (const RecordedBlocking& blocking : profile.blocking) warn_of(blocking, warnings);
  profile.warnings = std::move(warnings);
  return profile;
}

}  // namespace

std::string RecordedBlocking::doubt() const {
  if (!is_identified) return "the blocking power cannot be distinguished from the power of computing";
  const std::string power = fmt::format("waiting draws {:.0f} +-{:.0f} W by this recording", power_w, error_w);
  if (error_w > kLargestBlockingError * power_w) return power + ", which is too uncertain to plan with";
  if (most_computing_w && power_w > *most_computing_w) {
    return fmt::format("{}, but computing draws {:.0f} W at most", power, *most_computing_w);
  }
  return "";
}

StageProfile RecordedProfile::profile() const {
  int stages = 0;
  for (const RecordedCell& cell : cells) stages = std::max(stages, cell.key.stage + 1);
  StageProfile profile(stages);
  for (const RecordedCell& cell : cells) {
    if (cell.has_row()) profile.add(cell.key.stage, cell.key.kind, cell.measurement());
  }
  return profile;
}

RecordedProfile profile_recordings(std::span<const Recording> recordings, const ProfilingOptions& options) {
  if (recordings.empty()) throw InputError("there is no recording to make a profile from");
  return profile_ranks(recordings, options, check_ranks(recordings, options.stages));
}

RecordedProfile profile_one_rank(std::span<const Recording> parts, const ProfilingOptions& options) {
  if (parts.empty()) throw InputError("there is no recording to make a profile from");
  return profile_ranks(parts, options, {});
}

std::vector<double> usable_blocking_power_w(std::span<const RecordedBlocking> blocking, int stages) {
  if (std::cmp_not_equal(blocking.size(), stages)) return {};
  std::vector<double> by_stage_w;
  for (const RecordedBlocking& row : blocking) {
    if (!row.doubt().empty()) return {};
    by_stage_w.push_back(row.power_w);
  }
  return by_stage_w;
}

std::string write_blocking_power(std::span<const RecordedBlocking> blocking) {
  std::string text = "stage,blocking_power\n";
  for (const RecordedBlocking& row : blocking) {
    if (const std::string doubt = row.doubt(); !doubt.empty()) {
      throw InputError(
          fmt::format("stage {}: {}; record more iterations, or measure the blocking power separately and omit "
                      "--blocking-power-out",
                      row.stage, doubt));
    }
    fmt::format_to(std::back_inserter(text), "{},{}\n", row.stage, row.power_w);
  }
  return text;
}

}  // namespace lowgear::profile
