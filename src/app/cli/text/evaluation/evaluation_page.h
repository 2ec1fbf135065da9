#pragma once

#include <span>
#include <string>

#include "report/evaluation/evaluation.h"
#include "report/evaluation/figures.h"
#include "report/report/estimate_report.h"

namespace lowgear::cli {

/// What a page of Perseus' evaluation shows.
struct EvaluationResults {
  std::span<const evaluation::Cell> cells;
  std::span<const evaluation::ExtrinsicCurve> extrinsic;
  std::span<const evaluation::MeasuredPoint> measured;
};

/// Figures 7, 8 and 9 of Perseus' evaluation drawn from the folders, and all cells of the tables.
[[nodiscard]] report::EstimateReport evaluation_page(const EvaluationResults& results, std::string command);

}  // namespace lowgear::cli
