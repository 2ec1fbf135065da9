#pragma once

#include <string>

#include "app/cli/runs/search_run.h"
#include "base/core/formats/json.h"

namespace lowgear {

/// The best layouts as a table, how many there were, and why the first is first.
[[nodiscard]] std::string search_text(const SearchRequest& request, const PriceArguments& prices,
                                      const SearchReportData& found);

[[nodiscard]] Json search_json(const SearchRequest& request, const PriceArguments& prices,
                               const SearchReportData& found);

}  // namespace lowgear
