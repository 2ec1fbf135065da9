#include "base/http/tls/watched_tls.h"

#include <filesystem>
#include <vector>

#include "base/core/error.h"

namespace lowgear::http {
namespace {

std::vector<std::filesystem::path> paths_of(const TlsServerFiles& files) {
  std::vector<std::filesystem::path> paths{files.certificate, files.key};
  if (!files.client_ca.empty()) paths.push_back(files.client_ca);
  return paths;
}

}  // namespace

WatchedTls::WatchedTls(const TlsServerFiles& files)
    : watch_(paths_of(files)), side_(std::make_shared<TlsServerSide>(files)) {}

std::optional<WatchedTls::Change> WatchedTls::check() {
  if (!watch_.changed()) return std::nullopt;
  try {
    side_->reload();
    return Change{true, "the certificate was read again; it expires on " + side_->expires()};
  } catch (const Error& error) {
    return Change{false,
                  std::string("the changed certificate is refused, the one of before stays in use: ") + error.what()};
  }
}

}  // namespace lowgear::http
