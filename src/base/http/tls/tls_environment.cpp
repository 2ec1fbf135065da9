#include "base/http/tls/tls_environment.h"

#include "base/core/error.h"

namespace lowgear::http {

TlsClientFiles tls_files_from_environment(const Environment& environment, const std::filesystem::path& ca) {
  TlsClientFiles files{
      .ca = ca.empty() ? std::filesystem::path(environment("LOWGEAR_SERVER_CA_FILE").value_or("")) : ca,
      .certificate = environment("LOWGEAR_SERVER_CERTIFICATE_FILE").value_or(""),
      .key = environment("LOWGEAR_SERVER_KEY_FILE").value_or("")};
  if (files.certificate.empty() != files.key.empty()) {
    throw InputError("LOWGEAR_SERVER_CERTIFICATE_FILE and LOWGEAR_SERVER_KEY_FILE: set both, or none of them");
  }
  return files;
}

}  // namespace lowgear::http
