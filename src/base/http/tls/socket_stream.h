#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct ssl_st;  // SSL of OpenSSL

namespace lowgear::http {

enum class StreamStatus : unsigned char {
  done,         ///< bytes were moved, or the handshake is complete
  wants_read,   ///< again when the socket can be read
  wants_write,  ///< again when the socket can be written
  ended,        ///< the other side has ended its half in good order
  failed,       ///< nothing more can be sent or received; `problem` says why
};

/// The result of one call: it never waits.
struct StreamStep {
  StreamStatus status = StreamStatus::failed;
  std::size_t bytes = 0;
};

/// The bytes of a socket, plain or over TLS. The socket stays the caller's and outlives the stream. Raises no SIGPIPE.
/// One thread at a time.
///
/// Asio's TLS stream reserves 69 kB for each connection as long as it lives; this one returns OpenSSL's buffers while
/// a connection waits, and needs no event loop in a client.
class SocketStream {
 public:
  /// Plain.
  explicit SocketStream(int socket);
  /// Over TLS. Takes over an SSL that has its side set.
  SocketStream(ssl_st* ssl, int socket);
  ~SocketStream();
  SocketStream(SocketStream&&) noexcept;
  SocketStream& operator=(SocketStream&&) noexcept;
  SocketStream(const SocketStream&) = delete;
  SocketStream& operator=(const SocketStream&) = delete;

  /// Done at once on a plain socket.
  [[nodiscard]] StreamStep handshake();
  [[nodiscard]] StreamStep read(std::span<char> buffer);
  /// Writes as many of the pieces' bytes as the socket takes. Over TLS, the call after `wants_...` has to begin with
  /// the same bytes, and may have more.
  [[nodiscard]] StreamStep write(std::span<const iovec> pieces);
  /// Ends this side's half of TLS, as far as the socket takes that at once.
  void end();

  /// Whether TLS holds decrypted bytes that were not read yet. The socket does not become readable for them.
  [[nodiscard]] bool has_more() const;
  /// Why the last step of TLS failed: OpenSSL's reason, in words. Empty: the connection ended.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// The other side spoke HTTP instead of TLS.
  [[nodiscard]] bool is_plain_http() const { return is_plain_http_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  [[nodiscard]] StreamStep step_of(int result, std::size_t bytes);

  int socket_;
  std::unique_ptr<ssl_st, Free> ssl_;  ///< null: plain
  std::string problem_;
  bool is_plain_http_ = false;
};

}  // namespace lowgear::http
