#pragma once

#include <string>

#include "app/cli/arguments/estimate_input.h"
#include "estimating/estimator/search/search_run.h"
#include "report/report/html_page.h"

namespace lowgear::cli {

/// `30, ranked by their plans, the others by a quick estimate, ...`: the layouts that are planned.
[[nodiscard]] std::string planned_count_text(const estimator::SearchRequest& request,
                                             const estimator::SearchReportData& found);

/// The page of `lowgear search --html`: time against energy of the layouts, the best ones, and the time, energy and
/// memory of the first by part.
[[nodiscard]] report::Page search_page(const estimator::SearchRequest& request, const PriceArguments& prices,
                                       const estimator::SearchReportData& found, std::string command);

}  // namespace lowgear::cli
