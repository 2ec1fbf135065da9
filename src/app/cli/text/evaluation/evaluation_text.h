#pragma once

#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "report/evaluation/artifact.h"
#include "report/evaluation/evaluation.h"

namespace lowgear::cli {

/// A table with a row per cell, and how many were reproduced, by published table.
[[nodiscard]] std::string evaluation_text(std::span<const evaluation::Cell> cells);
/// The same as values.
[[nodiscard]] Json evaluation_json(std::span<const evaluation::Cell> cells);

/// Figure 9: time and energy of every measured plan and of every power limit of Zeus', by workload.
[[nodiscard]] Json measured_points_json(const evaluation::Artifact& artifact);

}  // namespace lowgear::cli
