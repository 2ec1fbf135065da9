#pragma once

#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "report/report/html_page.h"
#include "rivals/evaluation/artifact.h"
#include "rivals/evaluation/evaluation.h"

namespace lowgear::cli {

/// A table with a row per cell, and the number of reproduced cells of each published table.
[[nodiscard]] std::string evaluation_text(std::span<const evaluation::Cell> cells);
/// The cells as an object.
[[nodiscard]] Json evaluation_json(std::span<const evaluation::Cell> cells);

/// Figure 8, by pipeline and microbatches.
[[nodiscard]] Json extrinsic_curves_json(std::span<const evaluation::ExtrinsicCurve> curves);
/// Figure 9: time and energy of every measured plan and of every power limit of Zeus'.
[[nodiscard]] Json measured_points_json(std::span<const evaluation::MeasuredPoint> points);

/// The windows of each job, with their savings against its windows 0 and 1.
[[nodiscard]] std::string dumps_text(std::span<const evaluation::Dump> dumps);
[[nodiscard]] Json dumps_json(std::span<const evaluation::Dump> dumps);

/// Contents of a page of Perseus' evaluation.
struct EvaluationResults {
  std::span<const evaluation::Cell> cells;
  std::span<const evaluation::ExtrinsicCurve> extrinsic;
  std::span<const evaluation::MeasuredPoint> measured;
};

/// Figures 7, 8 and 9 of Perseus' evaluation drawn from the folders, and all cells of the tables.
[[nodiscard]] report::Page evaluation_page(const EvaluationResults& results, std::string command);

}  // namespace lowgear::cli
