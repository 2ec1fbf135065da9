#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "estimating/estimator/search/power_search.h"
#include "report/report/html_page.h"

namespace lowgear::cli {

/// A search under a facility's power, and what it found.
struct PowerSearchResult {
  const estimator::SearchRequest& request;
  const estimator::FacilityPower& facility;
  const estimator::PowerSearchData& found;
};

/// The answer, the rows that it compares, and the gap to the bound.
[[nodiscard]] std::string power_search_text(const PowerSearchResult& result);

/// An object of the format `lowgear.power_search/1` (docs/formats.md).
[[nodiscard]] Json power_search_json(const PowerSearchResult& result);

/// The page of `--html`: tokens a second by number of GPUs.
[[nodiscard]] report::Page power_search_page(const PowerSearchResult& result, std::string command);

}  // namespace lowgear::cli
