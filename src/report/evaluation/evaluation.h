#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/core/progress.h"
#include "report/evaluation/artifact.h"

namespace lowgear::evaluation {

/// One published figure beside what is computed for it, in per cent.
struct Cell {
  std::string table;  ///< `table 3`, `figure 7`
  std::string gpu;    ///< `A100`, `a100_sxm`
  std::string model;
  std::string column;  ///< `Perseus saving`, `EnvPipe, straggler 1.2`
  double published_pct = 0;
  int digits = 1;  ///< after the point, of the published figure
  /// By the authors' formulas, from results in the folders.
  std::optional<double> from_results_pct = {};
  /// By the authors' formulas, from plans that Lowgear's implementation of the method makes for the stage profile.
  std::optional<double> replanned_pct = {};
  /// Lowgear's own plan for the stage profile, replayed, as saved against the same baseline at its own time.
  std::optional<double> lowgear_pct = {};
  std::string missing = {};  ///< which input is not there, where one is not
};

enum class CellState : unsigned char {
  reproduced,  ///< within the rounding of the published figure
  deviates,    ///< computed, and another figure
  no_input,    ///< not computed
};
[[nodiscard]] CellState state(const Cell& cell);
/// `reproduced`, `deviates`, `no input`.
[[nodiscard]] std::string_view name(CellState state);

/// All cells of tables 3, 4 and 6 and of figure 7, in this order. Throws InputError where a stage profile cannot be
/// planned; `progress` may be null.
[[nodiscard]] std::vector<Cell> evaluate(const Artifact& artifact, Progress* progress = nullptr);

}  // namespace lowgear::evaluation
