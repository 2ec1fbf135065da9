#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ipc/unix_socket.h"

namespace lowgear::http {

/// Size limits of a request. The server refuses a larger one before it stores it.
struct Limits {
  std::size_t header_bytes = std::size_t{8} * 1024;  ///< request line and headers together
  std::size_t body_bytes = std::size_t{64} * 1024;
};

/// Values by header name, in lower case. Several headers of one name are one list (RFC 9110, 5.2).
using Headers = std::map<std::string, std::string, std::less<>>;

struct Request {
  std::string method;  ///< `GET`, `POST`, ...
  std::string path;    ///< as sent, still percent-encoded, without the query
  std::string query;   ///< as sent, without the question mark
  int version = 11;    ///< of HTTP: 10 or 11
  Headers headers;
  std::string body;
  std::optional<ipc::UnixPeer> peer;  ///< the calling user; empty over TCP, where the caller cannot be identified
  std::string remote;                 ///< `127.0.0.1` or `unix`: for limits per client and for the log

  /// Empty when the client did not send it. `name` in lower case.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  /// Shared, so that one text can be sent to thousands of clients without a copy. Null: empty.
  std::shared_ptr<const std::string> body;
  std::vector<std::pair<std::string, std::string>> headers;

  [[nodiscard]] static Response with_body(int status, std::string content_type, std::string body);
  /// The body, empty when there is none.
  [[nodiscard]] std::string_view text() const { return body ? std::string_view(*body) : std::string_view(); }
};

/// A response as a client receives it.
struct ReplyText {
  int status = 0;
  Headers headers;
  std::string body;
};

/// The date of a header, in each of the three forms of RFC 9110 (5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`,
/// `Sunday, 06-Nov-94 08:49:37 GMT`, `Sun Nov  6 08:49:37 1994`. Ignores whether the day of the week fits. Empty when
/// the text is no date.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_date(const std::string& text);

/// The time that a response asks its client to wait (`Retry-After`: seconds, or a date), at most `longest`. A date
/// counts from the response's own `Date` where it has one, as clocks of two machines differ, else from `now`. 0: the
/// header is missing or unreadable, or the date is past.
[[nodiscard]] std::chrono::milliseconds retry_after(
    const Headers& headers, std::chrono::milliseconds longest,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

/// Where an HTTP server listens.
struct Endpoint {
  std::string host;        ///< name or address; empty for a Unix socket
  std::uint16_t port = 0;  ///< of TCP
  std::string unix_path;   ///< empty for TCP
  bool tls = false;        ///< `https`

  /// `http://host:port`, `https://[::1]:port` or `unix:/path`; without a port, 80 or 443. Throws InputError for
  /// anything else, also for a URL with a user or password.
  [[nodiscard]] static Endpoint parse(std::string_view text);
  /// As `parse` takes it.
  [[nodiscard]] std::string text() const;
};

/// Whether the value of a `Host` header names this machine's loopback interface: `localhost`, `127.0.0.1` or `[::1]`,
/// with or without a port. A web page whose name resolves to this machine (DNS rebinding) sends its own name.
[[nodiscard]] bool names_loopback(std::string_view host);

}  // namespace lowgear::http
