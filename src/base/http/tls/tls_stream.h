#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct ssl_st;  // SSL of OpenSSL

namespace lowgear::http {

/// What a step of TLS came to.
enum class TlsStatus : unsigned char {
  done,         ///< bytes were moved, or the handshake is complete
  wants_read,   ///< again when the socket can be read
  wants_write,  ///< again when the socket can be written
  ended,        ///< the other side has ended its half in good order
  failed,       ///< nothing more can be sent or received; `problem` says why
};

struct TlsStep {
  TlsStatus status = TlsStatus::failed;
  std::size_t bytes = 0;
};

/// One side of TLS over a socket that does not block. The socket stays the caller's and outlives this. Raises no
/// SIGPIPE. One thread at a time.
class TlsStream {
 public:
  /// Takes over an SSL that has its side set.
  TlsStream(ssl_st* ssl, int socket);
  ~TlsStream();
  TlsStream(TlsStream&&) noexcept;
  TlsStream& operator=(TlsStream&&) noexcept;
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  [[nodiscard]] TlsStep handshake();
  [[nodiscard]] TlsStep read(std::span<char> buffer);
  /// After `wants_...`, the next call has to begin with the same bytes, and may have more.
  [[nodiscard]] TlsStep write(std::string_view bytes);
  /// Says that nothing more is sent, as far as the socket takes that at once.
  void end();

  /// Bytes that were received and not read: the socket does not show these.
  [[nodiscard]] bool has_more() const;
  /// Why the last step failed: OpenSSL's reason, in words. Empty: the connection ended.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// The other side spoke HTTP instead of TLS.
  [[nodiscard]] bool is_plain_http() const { return is_plain_http_; }

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  [[nodiscard]] TlsStep step_of(int result, std::size_t bytes);

  std::unique_ptr<ssl_st, Free> ssl_;
  std::string problem_;
  bool is_plain_http_ = false;
};

}  // namespace lowgear::http
