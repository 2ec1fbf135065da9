#include "base/http/tls/socket_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>

namespace lowgear::http {
namespace {

constexpr std::size_t kMaxRecordBytes = std::size_t{16} * 1024;  // of TLS

bool try_again() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// OpenSSL's own BIO of a socket sends without MSG_NOSIGNAL: a peer that has gone would end the process.

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int send_bytes(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(socket_of(bio), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && try_again()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int receive_bytes(BIO* bio, char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(socket_of(bio), bytes, static_cast<std::size_t>(count), MSG_DONTWAIT);
  if (received < 0 && try_again()) BIO_set_retry_read(bio);
  return static_cast<int>(received);
}

long control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

/// Made once and never freed: connections may end while the process does.
BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "lowgear socket");
    if (made == nullptr) throw std::bad_alloc();
    BIO_meth_set_write(made, send_bytes);
    BIO_meth_set_read(made, receive_bytes);
    BIO_meth_set_ctrl(made, control);
    BIO_meth_set_create(made, create);
    return made;
  }();
  return method;
}

}  // namespace

void SocketStream::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

SocketStream::SocketStream(int socket) : socket_(socket) {}

SocketStream::SocketStream(ssl_st* ssl, int socket) : socket_(socket), ssl_(ssl) {
  BIO* const bio = ssl == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, reinterpret_cast<void*>(std::intptr_t{socket}));
  SSL_set_bio(ssl_.get(), bio, bio);
}

SocketStream::~SocketStream() = default;
SocketStream::SocketStream(SocketStream&&) noexcept = default;
SocketStream& SocketStream::operator=(SocketStream&&) noexcept = default;

StreamStep SocketStream::handshake() {
  if (!ssl_) return {StreamStatus::done, 0};
  ERR_clear_error();
  errno = 0;
  return step_of(SSL_do_handshake(ssl_.get()), 0);
}

StreamStep SocketStream::read(std::span<char> buffer) {
  if (!ssl_) {
    const ssize_t received = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (received > 0) return {StreamStatus::done, static_cast<std::size_t>(received)};
    if (received == 0) return {StreamStatus::ended, 0};
    return {try_again() ? StreamStatus::wants_read : StreamStatus::failed, 0};
  }
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &bytes);
  return step_of(result, bytes);
}

StreamStep SocketStream::write(std::span<const iovec> pieces) {
  if (!ssl_) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(pieces.data());
    message.msg_iovlen = pieces.size();
    const ssize_t sent = ::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return {StreamStatus::done, static_cast<std::size_t>(sent)};
    return {try_again() ? StreamStatus::wants_write : StreamStatus::failed, 0};
  }
  std::string record;
  for (const iovec& piece : pieces) {
    const std::size_t room = kMaxRecordBytes - record.size();
    record.append(static_cast<const char*>(piece.iov_base), std::min(piece.iov_len, room));
  }
  ERR_clear_error();
  errno = 0;
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), record.data(), record.size(), &written);
  return step_of(result, written);
}

void SocketStream::end() {
  if (!ssl_) return;
  ERR_clear_error();
  if (SSL_is_init_finished(ssl_.get()) != 0) (void)SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

bool SocketStream::has_more() const { return ssl_ && SSL_pending(ssl_.get()) > 0; }

StreamStep SocketStream::step_of(int result, std::size_t bytes) {
  if (result > 0) return {StreamStatus::done, bytes};
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {StreamStatus::wants_read, 0};
    case SSL_ERROR_WANT_WRITE:
      return {StreamStatus::wants_write, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {StreamStatus::ended, 0};
    case SSL_ERROR_SYSCALL:
      problem_ = system_error == 0 ? "" : std::generic_category().message(system_error);
      return {StreamStatus::failed, 0};
    default:
      break;
  }
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  is_plain_http_ = reason == SSL_R_HTTP_REQUEST;
  const char* const text = ERR_reason_error_string(error);
  problem_ = text != nullptr ? text : "a TLS error without a name";
  const long verified = SSL_get_verify_result(ssl_.get());
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK) {
    problem_ = X509_verify_cert_error_string(verified);
  }
  ERR_clear_error();
  return {StreamStatus::failed, 0};
}

}  // namespace lowgear::http
