#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/environment.h"
#include "base/core/error.h"
#include "base/core/files/file_descriptor.h"
#include "base/http/message/message.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::http {

/// The request got no response. The message names the server.
class ClientError : public Error {
 public:
  enum class Kind : unsigned char {
    unreachable,   ///< no connection, or the name is not known: the request was not sent
    untrusted,     ///< TLS failed, for example by another host's certificate: the request was not sent
    disconnected,  ///< the connection ended before the response; it is not known whether the server saw the request
    timed_out,     ///< whether the request was seen is not known
    malformed,     ///< the response is not HTTP/1.1, is too large, or is chunked, which this client does not support
    cancelled,     ///< by `cancel`
  };
  ClientError(Kind kind, const std::string& message) : Error(message), kind_(kind) {}
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};  ///< the handshake of TLS included
  Limits limits{.header_bytes = std::size_t{16} << 10U, .body_bytes = std::size_t{64} << 20U};  ///< of an answer
  TlsClientFiles tls = {};  ///< for an endpoint of `https`
};

/// Sends a request to an HTTP/1.1 server and waits for the response; keeps the connection for the next request. One
/// thread at a time may send; any thread may cancel.
class Client {
 public:
  using HeaderList = std::vector<std::pair<std::string, std::string>>;

  /// Connects with the first request. Throws Error when the system has no more file descriptors, and InputError when a
  /// file of `tls` is needed and cannot be read.
  explicit Client(Endpoint endpoint, ClientOptions options = {});

  /// Returns a response of any status. Throws InputError for an invalid method, target or header, and ClientError
  /// when there is no response within `timeout`, counted from the call. Replaces a kept connection that the server has
  /// closed meanwhile; a request other than GET or HEAD is sent again only if none of it was sent before. Looking up a
  /// host's name is not bounded by `timeout`, nor ended by `cancel`.
  [[nodiscard]] ReplyText request(std::string_view method, std::string_view target, std::string_view body = {},
                                  const HeaderList& headers = {},
                                  std::chrono::milliseconds timeout = std::chrono::seconds(30));

  /// Ends the present request of another thread at once, and every later one. The client is unusable afterwards. Safe
  /// from any thread and from a signal handler.
  void cancel() noexcept;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

 private:
  class Exchange;

  Endpoint endpoint_;
  ClientOptions options_;
  FileDescriptor cancelled_;                       ///< an eventfd, readable once cancelled
  std::shared_ptr<const TlsClientSide> tls_side_;  ///< null: without TLS
  FileDescriptor connection_;
  std::optional<SocketStream> stream_;  ///< over the connection
};

/// File with the token for Lowgear's server: `named`, by an option or a configuration, unless it is empty, else
/// LOWGEAR_SERVER_TOKEN_FILE; empty: no token is sent.
[[nodiscard]] std::filesystem::path token_file_from_environment(const Environment& environment,
                                                                const std::filesystem::path& named = {});

/// The header that shows the token of a file, which holds one word, with blanks after it at most; none where `file` is
/// empty. Throws InputError, naming the file, for any other content and when the file is unreadable.
[[nodiscard]] Client::HeaderList token_headers(const std::filesystem::path& file);

/// What a program that sends the token of a file warns of once: `FILE: others may read it (mode 0644); chmod 600 FILE`;
/// empty: nothing. Ranks of a job do not warn: the command that starts them does.
[[nodiscard]] std::optional<std::string> token_exposure(const std::filesystem::path& file);

}  // namespace lowgear::http
