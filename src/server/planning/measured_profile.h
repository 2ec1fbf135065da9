#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/rank_cells.h"

namespace lowgear::server {

/// What is known of a model on a GPU: shared by all jobs of the same profile key.
struct MeasuredProfile {
  std::vector<protocol::ProfileCell> cells;      ///< by stage, kind, highest clock first
  std::vector<protocol::BlockingCell> blocking;  ///< by stage, every stage once
  bool simulated = false;
};

/// All ranks together: a stage's units take as long as on its slowest rank, for which a pipeline waits, and use the
/// mean of the ranks' energy. One entry for each rank, as of TrialSweep; of a cell that it names twice the last counts.
/// Throws InputError when a stage has no blocking power, or there are more cells than can be stored.
[[nodiscard]] MeasuredProfile merge_cells(std::span<const protocol::RankCells> ranks, int stages);

[[nodiscard]] std::string write_measured_profile(const MeasuredProfile& profile);
/// Throws InputError.
[[nodiscard]] MeasuredProfile read_measured_profile(std::string_view text);

}  // namespace lowgear::server
