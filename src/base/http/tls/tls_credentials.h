#pragma once

struct ssl_ctx_st;  // SSL_CTX of OpenSSL

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/core/environment.h"
#include "base/core/files/file_watch.h"
#include "base/http/tls/socket_stream.h"

namespace lowgear::http {

/// Files in PEM.
struct TlsServerFiles {
  std::filesystem::path certificate;  ///< the server's, followed by those of the authorities between it and the root
  std::filesystem::path key;          ///< without a passphrase; only its owner may read it
  std::filesystem::path client_ca;    ///< clients have to show a certificate of one of these; empty: they need none
};

/// Speaks TLS 1.2 or 1.3 with clients, with a certificate that can be replaced.
class TlsServerSide {
 public:
  /// Reads the files. Throws InputError, with the file, when one is unreadable or of another kind, when key and
  /// certificate do not belong together, the certificate has expired, or others could read or change the key.
  explicit TlsServerSide(TlsServerFiles files);

  /// Reads the files again, for connections from now on. Throws as the constructor, and keeps the credentials then.
  void reload();
  [[nodiscard]] const TlsServerFiles& files() const { return files_; }
  /// When the certificate expires: `2027-01-31 12:00:00 UTC`.
  [[nodiscard]] const std::string& expires() const { return expires_; }
  /// The same in seconds since 1970.
  [[nodiscard]] double expires_s() const { return expires_s_; }

  /// Speaks TLS over an accepted socket.
  [[nodiscard]] SocketStream stream(int socket) const;

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  TlsServerFiles files_;
  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::string expires_;
  double expires_s_ = 0;
};

/// Files in PEM; each may be empty.
struct TlsClientFiles {
  std::filesystem::path ca;           ///< authorities of servers; empty: the system's
  std::filesystem::path certificate;  ///< of the client, for servers that ask for one
  std::filesystem::path key;          ///< of that certificate
};

/// Speaks TLS 1.2 or 1.3 with servers, whose certificates it verifies.
class TlsClientSide {
 public:
  /// Reads the files. Throws InputError, with the file, when one is unreadable or of another kind.
  explicit TlsClientSide(const TlsClientFiles& files);

  /// Speaks TLS over a socket that is connected to `host`, a name or an address that the certificate must name.
  [[nodiscard]] SocketStream stream(int socket, const std::string& host) const;

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const;
  };
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

/// A server's side of TLS whose files are read again when they have changed.
class WatchedTls {
 public:
  struct Change {
    bool accepted = false;
    std::string message;  ///< the certificate's expiry, or why the files are refused
  };

  /// Reads the files. Throws as TlsServerSide.
  explicit WatchedTls(const TlsServerFiles& files);

  [[nodiscard]] std::shared_ptr<const TlsServerSide> side() const { return side_; }
  /// Call this about once a second. Empty while nothing has changed. Refused files change nothing.
  [[nodiscard]] std::optional<Change> check();

 private:
  FileWatch watch_;  ///< constructed before the files are read, so that it misses no change
  std::shared_ptr<TlsServerSide> side_;
};

/// Files for Lowgear's server when it speaks `https`: LOWGEAR_SERVER_CA_FILE, LOWGEAR_SERVER_CERTIFICATE_FILE and
/// LOWGEAR_SERVER_KEY_FILE. `ca`, from a configuration, overrides the first unless it is empty. Throws InputError when
/// only one of the last two is set.
[[nodiscard]] TlsClientFiles tls_files_from_environment(const Environment& environment,
                                                        const std::filesystem::path& ca = {});

}  // namespace lowgear::http
