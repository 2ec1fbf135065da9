#pragma once

#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "report/evaluation/evaluation.h"
#include "report/evaluation/figures.h"

namespace lowgear::cli {

/// A table with a row per cell, and how many were reproduced, by published table.
[[nodiscard]] std::string evaluation_text(std::span<const evaluation::Cell> cells);
/// The same as values.
[[nodiscard]] Json evaluation_json(std::span<const evaluation::Cell> cells);

/// Figure 8, by pipeline and microbatches.
[[nodiscard]] Json extrinsic_curves_json(std::span<const evaluation::ExtrinsicCurve> curves);
/// Figure 9: time and energy of every measured plan and of every power limit of Zeus'.
[[nodiscard]] Json measured_points_json(std::span<const evaluation::MeasuredPoint> points);

}  // namespace lowgear::cli
