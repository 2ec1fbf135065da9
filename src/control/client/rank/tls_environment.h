#pragma once

#include "base/http/tls/tls_credentials.h"
#include "control/client/rank/rank_environment.h"

namespace lowgear::client {

/// Files for a server of `https`: LOWGEAR_SERVER_CA_FILE, LOWGEAR_SERVER_CERTIFICATE_FILE and LOWGEAR_SERVER_KEY_FILE.
/// Throws InputError when only one of the last two is set.
[[nodiscard]] http::TlsClientFiles tls_files_from_environment(const Environment& environment);

}  // namespace lowgear::client
