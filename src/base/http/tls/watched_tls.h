#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/core/files/file_watch.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::http {

/// A server's side of TLS whose files are read again when they have changed.
class WatchedTls {
 public:
  struct Change {
    bool accepted = false;
    std::string message;  ///< until when the certificate is valid, or why the files are refused
  };

  /// Reads the files. Throws as TlsServerSide.
  explicit WatchedTls(const TlsServerFiles& files);

  [[nodiscard]] std::shared_ptr<const TlsServerSide> side() const { return side_; }
  /// To be called about once a second. Empty while nothing has changed. What is refused changes nothing.
  [[nodiscard]] std::optional<Change> check();

 private:
  FileWatch watch_;  ///< from before the files are read: a later change is not missed
  std::shared_ptr<TlsServerSide> side_;
};

}  // namespace lowgear::http
