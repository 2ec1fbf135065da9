#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/core/formats/json.h"
#include "server/perseus/protocol.h"

namespace lowgear::server::perseus {

/// A job with all its ranks, as a scheduler sees it. Its *positions* are what power states are given to: the ranks, or,
/// for schedulers that think in pipelines, the stages.
struct Layout {
  JobInfo job;
  std::vector<RankInfo> positions;  ///< of a stage: as one of its ranks registered it
  std::vector<int> position_of_rank;
  std::vector<int> power_states;  ///< those that every rank has; highest first
};

/// One position for every rank, in the order of ranks.
[[nodiscard]] Layout rank_layout(const JobInfo& job, std::span<const RankInfo> ranks);
/// One position for every stage, by `pp_rank`, whatever the order of ranks.
[[nodiscard]] Layout stage_layout(const JobInfo& job, std::span<const RankInfo> ranks);

/// Time and energy of one computation of a kind.
struct Unit {
  double per_iteration = 0;  ///< how many there are in an iteration
  double time_s = 0;         ///< mean
  std::optional<double> energy_j;

  friend bool operator==(const Unit&, const Unit&) = default;
};

/// The measurements of a position in one window, without the iterations at its beginning that are warm-up.
struct Window {
  double iteration_time_s = 0;  ///< mean; so are energy and power
  double iteration_energy_j = 0;
  double power_w = 0;
  std::optional<Unit> forward;
  std::optional<Unit> backward;

  friend bool operator==(const Window&, const Window&) = default;
};

/// Condenses the results of all ranks (`results` by rank) to the positions of the layout. Where several ranks share a
/// position, each time is the longest of theirs and each energy the sum, iteration by iteration and unit by unit,
/// before means are taken (Perseus' 3D schedulers). The first max(1, floor(iterations x warmup_step_ratio)) iterations
/// are left out. Throws InputError, naming the rank, when nothing is left, an iteration took no time, or ranks of a
/// position differ in how much they measured.
[[nodiscard]] std::vector<Window> condense(const Layout& layout, std::span<const Result> results,
                                           double warmup_step_ratio);

[[nodiscard]] Json to_json(std::span<const Window> windows);
/// The inverse, exact to the last bit. Throws InputError.
[[nodiscard]] std::vector<Window> read_perseus_windows(const JsonView& view);

}  // namespace lowgear::server::perseus
