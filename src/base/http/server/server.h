#pragma once

namespace boost::asio {
class io_context;
}

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/files/file_descriptor.h"
#include "base/http/message/message.h"
#include "base/http/server/reply.h"

namespace lowgear::http {

class TlsServerSide;

/// A token bucket for each client.
struct RateLimit {
  double requests_per_s = 0;  ///< 0: no limit
  double burst = 1;           ///< requests that may come at once
};

/// A client, where limits are per client, is a user on a Unix socket, and an address over TCP: all of the loopback
/// network together, and a /64 of IPv6.
struct ServerOptions {
  Limits limits;
  /// One more closes the connection that has been idle longest, or is refused with 503. The caller must allow the
  /// process to open that many files.
  std::size_t max_connections = 16'384;
  /// Limit per client, so that none takes all connections; 0: three quarters of `max_connections`.
  std::size_t max_connections_per_client = 0;
  std::size_t max_streams = 1024;
  /// A stream with more unread bytes than this is closed.
  std::size_t max_stream_backlog_bytes = std::size_t{256} * 1024;
  std::chrono::milliseconds request_timeout{10'000};  ///< for a whole request to come in, and for an answer to be read
  std::chrono::milliseconds idle_timeout{60'000};     ///< between the requests of a connection
  /// Sent to clients of streams as `retry:`, the time after which they come back; 0: not sent.
  std::chrono::milliseconds stream_retry{2'000};
  std::chrono::milliseconds stream_heartbeat{15'000};  ///< a comment after this silence finds clients that are dead
  RateLimit rate_limit;                                ///< beyond it the answer is 429 with `Retry-After`
  std::function<void(std::string_view)> warn;          ///< receives messages for the operator; may be empty
};

/// Serves HTTP/1.1 (keep-alive, pipelining, HEAD, `Expect: 100-continue`; no chunked request bodies) on Unix and TCP
/// sockets. Runs entirely on the thread of the given io_context, which also calls the handler. Nothing blocks on a
/// client, and a late response (a long poll) may take as long as the client stays connected.
class Server {
 public:
  /// `handler` must outlive the server.
  Server(boost::asio::io_context& io, Handler& handler, ServerOptions options = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Stops. Functions that are still queued in the io_context then do nothing.
  ~Server();  // NOLINT(bugprone-exception-escape): see its definition

  /// Listens on a Unix socket with this mode and group. Replaces a socket without a listening process. Throws
  /// InputError when another process listens there, when the path is another file or too long, or when the system
  /// refuses.
  void listen_unix(const std::filesystem::path& path, mode_t mode, std::optional<gid_t> group = std::nullopt);
  /// Listens on an address of IPv4 or IPv6 (`127.0.0.1`, `::`). Port 0 takes any free port. Returns the port. Throws
  /// InputError when the port is taken or the address belongs to another machine.
  std::uint16_t listen_tcp(const std::string& address, std::uint16_t port);
  /// Listens for TLS. A handshake may take `request_timeout`.
  std::uint16_t listen_tls(const std::string& address, std::uint16_t port, std::shared_ptr<const TlsServerSide> tls);

  /// Closes every connection and removes the Unix sockets; callbacks of replies and streams are called. May be called
  /// again.
  void stop();
  /// Accepts no more connections and requests, closes idle ones, ends streams, and lets present requests and responses
  /// finish; after `patience` the remaining ones are closed. Calls `done` once, later, when all are closed.
  void drain(std::chrono::milliseconds patience, std::function<void()> done);

  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t streams() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// The other end of a connection.
struct Remote {
  std::optional<ipc::UnixPeer> peer;  ///< of a Unix socket
  std::string address;                ///< as Request::remote
  /// Who counts as one client where limits are per client: `user 1000`, `192.0.2.7`, `127.0.0.0/8`, a /64 of IPv6.
  std::string client;
};

/// Empty when the other end has closed already.
[[nodiscard]] std::optional<Remote> remote_of(int socket);

struct TcpListener {
  FileDescriptor socket;  ///< does not block
  std::uint16_t port = 0;
};

/// Listens on an address of IPv4 or IPv6; port 0 takes any free port. Throws InputError when the system refuses.
[[nodiscard]] TcpListener listen_tcp(const std::string& address, std::uint16_t port);

}  // namespace lowgear::http
