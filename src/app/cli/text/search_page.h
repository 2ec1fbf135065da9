#pragma once

#include <string>

#include "app/cli/arguments/price_arguments.h"
#include "estimating/estimator/search/search_run.h"
#include "report/report/estimate_report.h"

namespace lowgear::cli {

/// The page of `lowgear search --report`: time against energy of the layouts, the best, and where the winner's time,
/// energy and memory go.
[[nodiscard]] report::EstimateReport search_page(const estimator::SearchRequest& request, const PriceArguments& prices,
                                                 const estimator::SearchReportData& found, std::string command);

}  // namespace lowgear::cli
