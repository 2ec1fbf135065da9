#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/op_kind.h"

namespace lowgear {

/// What the units of one (stage, kind) took at one clock, with standard errors.
struct ProfileCell {
  int stage = 0;  ///< virtual stage
  OpKind kind = OpKind::forward;
  int clock_mhz = 0;
  long long units = 0;
  double time_s = 0;
  double time_error_s = 0;
  double energy_j = 0;  ///< of one GPU
  double energy_error_j = 0;
};

/// What a GPU draws while it waits.
struct BlockingCell {
  int stage = 0;
  double power_w = 0;
  double error_w = 0;
};

/// The body of POST .../profile: what one rank measured under one profile plan.
struct RankCells {
  int rank = 0;
  int plan_version = 0;
  std::vector<ProfileCell> cells;
  std::vector<BlockingCell> blocking;
};

/// Throws InputError with the JSON path. `stages` is how many virtual stages the job has.
[[nodiscard]] RankCells read_rank_cells(const JsonView& body, int stages);
[[nodiscard]] Json to_json(const RankCells& cells);

/// What is known of a model on a GPU: shared by all jobs of the same profile key.
struct MeasuredProfile {
  std::vector<ProfileCell> cells;      ///< by stage, kind, highest clock first
  std::vector<BlockingCell> blocking;  ///< by stage, every stage once
  bool simulated = false;
};

/// All ranks together: a stage's units take as long as on its slowest rank, for which a pipeline waits, and use the
/// mean of the ranks' energy. One entry for each rank, as of TrialSweep; of a cell that it names twice the last counts.
/// Throws InputError when a stage has no blocking power.
[[nodiscard]] MeasuredProfile merge_cells(std::span<const RankCells> ranks, int stages);

[[nodiscard]] std::string write_measured_profile(const MeasuredProfile& profile);
/// Throws InputError.
[[nodiscard]] MeasuredProfile read_measured_profile(std::string_view text);

}  // namespace lowgear
