#include "base/http/tls/tls_credentials.h"

#include <arpa/inet.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <new>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/user_database.h"

namespace lowgear::http {

namespace {

/// Where systems keep the authorities that they trust, as files. A library that is compiled for all of them does not
/// know which one it runs on.
constexpr std::array<const char*, 4> kSystemAuthorities = {"/etc/ssl/certs/ca-certificates.crt",
                                                           "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
                                                           "/etc/ssl/cert.pem"};

/// What OpenSSL says of the last failure.
std::string last_problem() {
  const unsigned long error = ERR_peek_last_error();
  const char* const text = error == 0 ? nullptr : ERR_reason_error_string(error);
  ERR_clear_error();
  return text != nullptr ? text : "not usable";
}

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& what) {
  throw InputError(fmt::format("{}: {}", printable(file.string()), what));
}

void require_readable(const std::filesystem::path& file) {
  if (::access(file.c_str(), R_OK) != 0) refuse(file, "is missing or unreadable; check the path and its permissions");
}

/// A passphrase would be asked for at the terminal.
int no_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return 0; }

SSL_CTX* new_context(const SSL_METHOD* method) {
  // No configuration of the system may change what is spoken, and nothing is to run when the process ends: this may be
  // a library in a program with an OpenSSL of its own.
  (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  SSL_CTX* const context = SSL_CTX_new(method);
  if (context == nullptr) throw std::bad_alloc();
  (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  (void)SSL_CTX_set_mode(
      context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  return context;
}

void use_certificate(SSL_CTX* context, const std::filesystem::path& certificate, const std::filesystem::path& key) {
  require_readable(certificate);
  require_readable(key);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    refuse(certificate, "is not a certificate in PEM: " + last_problem());
  }
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    refuse(key, fmt::format("is not a key in PEM without a passphrase, or not the key of {}: {}",
                            printable(certificate.string()), last_problem()));
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    refuse(key, "is not the key of " + printable(certificate.string()));
  }
}

void use_authorities(SSL_CTX* context, const std::filesystem::path& file) {
  require_readable(file);
  ERR_clear_error();
  if (SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) != 1) {
    refuse(file, "contains no certificates in PEM: " + last_problem());
  }
}

void use_authorities_of_the_system(SSL_CTX* context) {
  (void)SSL_CTX_set_default_verify_paths(context);
  for (const char* file : kSystemAuthorities) {
    if (::access(file, R_OK) == 0 && SSL_CTX_load_verify_locations(context, file, nullptr) == 1) break;
  }
  ERR_clear_error();
}

void require_secret(const std::filesystem::path& key) {
  if (const auto exposure = exposure_of(require_trusted(key))) refuse(key, *exposure);
}

std::string text_of(const std::tm& time) { return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", time); }

/// When it expires, in UTC. Throws InputError when it has.
std::tm expiry_of(SSL_CTX* context, const std::filesystem::path& file) {
  const X509* const certificate = SSL_CTX_get0_certificate(context);
  std::tm end{};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) {
    refuse(file, "does not say when it expires");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) refuse(file, "has expired on " + text_of(end));
  return end;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

void TlsServerSide::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }
void TlsClientSide::Free::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

TlsServerSide::TlsServerSide(TlsServerFiles files) : files_(std::move(files)) { reload(); }

void TlsServerSide::reload() {
  std::unique_ptr<ssl_ctx_st, Free> context(new_context(TLS_server_method()));
  require_secret(files_.key);
  use_certificate(context.get(), files_.certificate, files_.key);
  std::tm expires = expiry_of(context.get(), files_.certificate);
  if (!files_.client_ca.empty()) {
    use_authorities(context.get(), files_.client_ca);
    // Names of the authorities, by which clients choose a certificate.
    SSL_CTX_set_client_CA_list(context.get(), SSL_load_client_CA_file(files_.client_ca.c_str()));
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    static constexpr std::array<unsigned char, 7> kSessions = {'l', 'o', 'w', 'g', 'e', 'a', 'r'};
    (void)SSL_CTX_set_session_id_context(context.get(), kSessions.data(), kSessions.size());
  }
  context_ = std::move(context);
  expires_ = text_of(expires);
  expires_s_ = static_cast<double>(::timegm(&expires));
}

SocketStream TlsServerSide::stream(int socket) const {
  SSL* const ssl = SSL_new(context_.get());
  if (ssl != nullptr) SSL_set_accept_state(ssl);
  return {ssl, socket};
}

TlsClientSide::TlsClientSide(const TlsClientFiles& files) : context_(new_context(TLS_client_method())) {
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  if (files.ca.empty()) {
    use_authorities_of_the_system(context_.get());
  } else {
    use_authorities(context_.get(), files.ca);
  }
  if (!files.certificate.empty()) use_certificate(context_.get(), files.certificate, files.key);
}

SocketStream TlsClientSide::stream(int socket, const std::string& host) const {
  SSL* const ssl = SSL_new(context_.get());
  SocketStream stream(ssl, socket);
  SSL_set_connect_state(ssl);
  X509_VERIFY_PARAM* const expected = SSL_get0_param(ssl);
  const std::string name = host.substr(0, host.find('%'));  // without the interface of a link-local address
  if (is_address(name)) {
    (void)X509_VERIFY_PARAM_set1_ip_asc(expected, name.c_str());
  } else {
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    (void)X509_VERIFY_PARAM_set1_host(expected, name.c_str(), name.size());
    (void)SSL_set_tlsext_host_name(ssl, name.c_str());
  }
  return stream;
}

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
                  std::string("the changed certificate is refused; the previous one stays in use: ") + error.what()};
  }
}

TlsClientFiles tls_files_from_environment(const Environment& environment, const std::filesystem::path& ca) {
  TlsClientFiles files{
      .ca = ca.empty() ? std::filesystem::path(environment("LOWGEAR_SERVER_CA_FILE").value_or("")) : ca,
      .certificate = environment("LOWGEAR_SERVER_CERTIFICATE_FILE").value_or(""),
      .key = environment("LOWGEAR_SERVER_KEY_FILE").value_or("")};
  if (files.certificate.empty() != files.key.empty()) {
    throw InputError("LOWGEAR_SERVER_CERTIFICATE_FILE and LOWGEAR_SERVER_KEY_FILE: set both, or none of them");
  }
  return files;
}

}  // namespace lowgear::http
