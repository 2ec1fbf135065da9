#pragma once

#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "report/evaluation/artifact.h"

/// Figures 8 and 9 of Perseus' evaluation, as numbers. Their published values are drawn, not printed: there is none to
/// compare with.
namespace lowgear::evaluation {

/// Figure 8: what waiting for a straggler saves beyond the fastest plan.
struct ExtrinsicCurve {
  struct Point {
    double factor = 1;  ///< the straggler takes so many times as long
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
