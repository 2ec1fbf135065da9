#pragma once

#include <filesystem>

#include "base/core/environment.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::http {

/// Files for Lowgear's server when it speaks `https`: LOWGEAR_SERVER_CA_FILE, LOWGEAR_SERVER_CERTIFICATE_FILE and
/// LOWGEAR_SERVER_KEY_FILE. `ca`, of a configuration, counts before the first, unless it is empty. Throws InputError
/// when only one of the last two is set.
[[nodiscard]] TlsClientFiles tls_files_from_environment(const Environment& environment,
                                                        const std::filesystem::path& ca = {});

}  // namespace lowgear::http
