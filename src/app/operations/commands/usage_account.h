#pragma once

#include <string>
#include <vector>

#include "base/core/formats/json.h"
#include "report/report/html_page.h"
#include "report/usage/energy_account.h"
#include "report/usage/usage_row.h"

namespace lowgear::operations {

/// Address and token of a server.
struct ServerAccess {
  std::string address;     ///< `http://host:port`, `https://host:port` or `unix:/path`
  std::string token_file;  ///< holds a token and nothing else; empty: no token is sent
};

/// The usage of jobs in a month: usage.csv of the server, page by page. LOWGEAR_SERVER_CA_FILE and its likes name the
/// files of TLS (base/http/tls/tls_credentials.h). Throws InputError for an invalid address
/// and a file without a token, and Error when the server does not respond, refuses, or sends something else.
[[nodiscard]] std::vector<usage::UsageRow> ask_usage(const ServerAccess& server, const usage::Month& month);

/// A month's account, with the cost and the emissions of its energy where factors are given.
struct PricedAccount {
  usage::MonthAccount account;
  usage::EnergyFactors factors;
};

/// Tables for people: totals, users, jobs.
[[nodiscard]] std::string account_text(const PricedAccount& priced);
/// `lowgear.month/1` (docs/formats.md).
[[nodiscard]] Json account_json(const PricedAccount& priced);
[[nodiscard]] report::Page account_page(const PricedAccount& priced, std::string command);

}  // namespace lowgear::operations
