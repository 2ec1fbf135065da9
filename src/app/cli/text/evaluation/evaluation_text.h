#pragma once

#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "report/evaluation/evaluation.h"

namespace lowgear::cli {

/// A table with a row per cell, and how many were reproduced, by published table.
[[nodiscard]] std::string evaluation_text(std::span<const evaluation::Cell> cells);
/// The same as values.
[[nodiscard]] Json evaluation_json(std::span<const evaluation::Cell> cells);

}  // namespace lowgear::cli
