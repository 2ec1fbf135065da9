#pragma once

#include <string>

#include "app/cli/arguments/price_arguments.h"
#include "base/core/formats/json.h"
#include "estimating/estimator/search/search_run.h"

namespace lowgear::cli {

/// The best layouts as a table, their number, and why the first is the best.
[[nodiscard]] std::string search_text(const estimator::SearchRequest& request, const PriceArguments& prices,
                                      const estimator::SearchReportData& found, const std::string& estimate_command);

[[nodiscard]] Json search_json(const estimator::SearchRequest& request, const PriceArguments& prices,
                               const estimator::SearchReportData& found);

}  // namespace lowgear::cli
