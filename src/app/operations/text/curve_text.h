#pragma once

#include <span>
#include <string>

#include "base/core/formats/json.h"
#include "estimating/curve/curve_fit.h"
#include "report/report/html_page.h"

namespace lowgear::operations {

/// The samples of a curve and their fit.
struct FittedCurve {
  curve::CurveOrigin origin;
  std::span<const curve::CurveSample> samples;
  const curve::CurveFit& fit;
};

/// For people: static power, energies, the table of V^2, and the samples that were left out.
[[nodiscard]] std::string curve_text(const FittedCurve& fitted);
/// The GPU file with numbers of samples, residual and the samples that were left out.
[[nodiscard]] Json curve_json(const FittedCurve& fitted);
/// Power against multiprocessors and V^2 against the clock, measured and fitted.
[[nodiscard]] report::Page curve_page(const FittedCurve& fitted, std::string command);

}  // namespace lowgear::operations
