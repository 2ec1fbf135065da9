#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "base/core/op_kind.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::protocol {

/// Largest number of cells in one document, of a rank or of a whole profile.
inline constexpr std::size_t kMaxCells = 100'000;
/// Units that one cell may be the mean of.
inline constexpr int kMaxCellUnits = 1 << 30;

/// Time and energy of the units of one (stage, kind) at one clock, with standard errors.
struct ProfileCell {
  int stage = 0;  ///< virtual stage
  OpKind kind = OpKind::forward;
  int clock_mhz = 0;
  long long units = 0;
  double time_s = 0;
  double time_error_s = 0;
  double energy_j = 0;  ///< of one GPU
  double energy_error_j = 0;
  friend bool operator==(const ProfileCell&, const ProfileCell&) = default;
};

/// Blocking power of a GPU.
struct BlockingCell {
  int stage = 0;
  double power_w = 0;
  double error_w = 0;
  friend bool operator==(const BlockingCell&, const BlockingCell&) = default;
};

/// The body of POST .../profile (docs/server-api.md): measurements of one rank under one profile plan.
struct RankCells {
  int rank = 0;
  int plan_version = 0;
  std::vector<ProfileCell> cells;
  std::vector<BlockingCell> blocking;
  friend bool operator==(const RankCells&, const RankCells&) = default;
};

/// Throws InputError with the JSON path. `stages`: number of virtual stages of the job.
[[nodiscard]] RankCells read_rank_cells(const JsonView& body, int stages);
[[nodiscard]] Json to_json(const RankCells& cells);
[[nodiscard]] std::string write_rank_cells(const RankCells& cells);

/// The members `cells` and `blocking` of a document, which profiles that the server keeps have as well.
struct MeasuredCells {
  std::vector<ProfileCell> cells;
  std::vector<BlockingCell> blocking;
};
/// Throws InputError with the JSON path.
[[nodiscard]] MeasuredCells read_measured_cells(const JsonView& document, int stages);
/// The cells as they were measured. Throws InputError where one is of a stage beyond `stages`, or twice there.
[[nodiscard]] profile::StageProfile stage_profile_of(std::span<const ProfileCell> cells, int stages);
/// By stage; 0 where none was measured.
[[nodiscard]] std::vector<double> blocking_power_of(std::span<const BlockingCell> blocking, int stages);
/// Appends the two members.
void add_measured_cells(Json& document, std::span<const ProfileCell> cells, std::span<const BlockingCell> blocking);

}  // namespace lowgear::protocol
