#pragma once

#include <string>

#include "base/core/formats/json.h"
#include "report/report/estimate_report.h"
#include "report/usage/energy_account.h"

namespace lowgear::operations {

/// A month's account, and what its energy costs and emits as far as factors are given.
struct PricedAccount {
  usage::MonthAccount account;
  usage::EnergyFactors factors;
};

/// Tables for people: totals, users, jobs.
[[nodiscard]] std::string account_text(const PricedAccount& priced);
/// `lowgear.month/1` (docs/formats.md).
[[nodiscard]] Json account_json(const PricedAccount& priced);
[[nodiscard]] report::EstimateReport account_page(const PricedAccount& priced, std::string command);

}  // namespace lowgear::operations
