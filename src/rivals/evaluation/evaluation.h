#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "rivals/evaluation/artifact.h"

namespace lowgear::evaluation {

/// A published figure next to the computed ones, in per cent.
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

// Figures 8 and 9 of Perseus' evaluation, as numbers. The published figures are drawings without values, so that these
// cannot be compared.

/// Figure 8: the saving of waiting for a straggler, beyond the fastest plan.
struct ExtrinsicCurve {
  struct Point {
    double factor = 1;  ///< time of the straggler as a multiple of the others'
    double saving_pct = 0;
  };
  EmulatedRun run;
  bool from_results = false;  ///< of the frontier in the folders; otherwise of one that is planned as Perseus plans
  std::vector<Point> points;  ///< factors 1 to 1.5
};

/// By the authors' formula, for each published pipeline with its frontier or its stage profile in the folders;
/// `progress` may be null. Throws InputError where a stage profile cannot be planned.
[[nodiscard]] std::vector<ExtrinsicCurve> extrinsic_curves(const Artifact& artifact, Progress* progress = nullptr);

/// Figure 9: a measured iteration.
struct MeasuredPoint {
  Workload workload;
  std::string_view method;  ///< `Perseus`, `EnvPipe`, `Zeus, one limit`, `Zeus, limits by stage`
  int number = 0;           ///< of its plan, or of its row of Zeus' table
  PipelineFigures figures;
};

/// Every measured plan and every power limit of Zeus'.
[[nodiscard]] std::vector<MeasuredPoint> measured_points(const Artifact& artifact);

}  // namespace lowgear::evaluation
