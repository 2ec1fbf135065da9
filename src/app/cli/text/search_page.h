#pragma once

#include <string>

#include "app/cli/arguments/price_arguments.h"
#include "estimating/estimator/search/search_run.h"
#include "report/report/estimate_report.h"

namespace lowgear {

/// The page of `lowgear search --report`: time against energy of the layouts, the best, and where the winner's time,
/// energy and memory go.
[[nodiscard]] EstimateReport search_page(const SearchRequest& request, const PriceArguments& prices,
                                         const SearchReportData& found, std::string command);

}  // namespace lowgear
