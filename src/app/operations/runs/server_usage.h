#pragma once

#include <string>
#include <vector>

#include "report/usage/month.h"
#include "report/usage/usage_row.h"

namespace lowgear::operations {

/// How a server is reached.
struct ServerAccess {
  std::string address;     ///< `http://host:port`, `https://host:port` or `unix:/path`
  std::string token_file;  ///< a file that holds a token, and nothing else; empty: none is sent
};

/// What jobs have used in a month: usage.csv of the server, page by page. LOWGEAR_SERVER_CA_FILE and its likes name the
/// files of TLS (base/http/tls/tls_credentials.h). Throws InputError for an address that is none
/// and a file without a token, and Error when the server does not respond, refuses, or sends something else.
[[nodiscard]] std::vector<usage::UsageRow> ask_usage(const ServerAccess& server, const usage::Month& month);

}  // namespace lowgear::operations
