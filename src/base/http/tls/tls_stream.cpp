#include "base/http/tls/tls_stream.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>
#include <utility>

namespace lowgear::http {
namespace {

// OpenSSL's own BIO of a socket sends without MSG_NOSIGNAL: a peer that has gone would end the process.

int socket_of(BIO* bio) { return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio))); }

int send_bytes(BIO* bio, const char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(socket_of(bio), bytes, static_cast<std::size_t>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int receive_bytes(BIO* bio, char* bytes, int count) {
  BIO_clear_retry_flags(bio);
  const ssize_t received = ::recv(socket_of(bio), bytes, static_cast<std::size_t>(count), MSG_DONTWAIT);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) BIO_set_retry_read(bio);
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

void TlsStream::Free::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsStream::TlsStream(ssl_st* ssl, int socket) : ssl_(ssl) {
  BIO* const bio = ssl == nullptr ? nullptr : BIO_new(socket_method());
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, reinterpret_cast<void*>(std::intptr_t{socket}));
  SSL_set_bio(ssl_.get(), bio, bio);
}

TlsStream::~TlsStream() = default;
TlsStream::TlsStream(TlsStream&&) noexcept = default;
TlsStream& TlsStream::operator=(TlsStream&&) noexcept = default;

TlsStep TlsStream::handshake() {
  ERR_clear_error();
  errno = 0;
  return step_of(SSL_do_handshake(ssl_.get()), 0);
}

TlsStep TlsStream::read(std::span<char> buffer) {
  ERR_clear_error();
  errno = 0;
  std::size_t bytes = 0;
  const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &bytes);
  return step_of(result, bytes);
}

TlsStep TlsStream::write(std::string_view bytes) {
  ERR_clear_error();
  errno = 0;
  std::size_t written = 0;
  const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written);
  return step_of(result, written);
}

void TlsStream::end() {
  ERR_clear_error();
  if (SSL_is_init_finished(ssl_.get()) != 0) (void)SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

bool TlsStream::has_more() const { return SSL_pending(ssl_.get()) > 0; }

TlsStep TlsStream::step_of(int result, std::size_t bytes) {
  if (result > 0) return {TlsStatus::done, bytes};
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return {TlsStatus::wants_read, 0};
    case SSL_ERROR_WANT_WRITE:
      return {TlsStatus::wants_write, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {TlsStatus::ended, 0};
    case SSL_ERROR_SYSCALL:
      problem_ = system_error == 0 ? "" : std::generic_category().message(system_error);
      return {TlsStatus::failed, 0};
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
  return {TlsStatus::failed, 0};
}

}  // namespace lowgear::http
