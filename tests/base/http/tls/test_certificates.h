#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace lowgear::http {

/// When a certificate is valid, in seconds from now.
struct Validity {
  long from_s = -3'600;
  long until_s = 3'600;
};

/// An authority of a test, and what it signs: files NAME.pem and NAME.key in a folder.
class TestAuthority {
 public:
  explicit TestAuthority(std::filesystem::path folder, std::string name = "ca")
      : folder_(std::move(folder)), name_(std::move(name)), key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    fill(certificate_.get(), name_, "critical,CA:TRUE", "", {});
    sign(certificate_.get(), key_.get());
    write(name_, certificate_.get(), key_.get());
  }

  /// `names`: as OpenSSL's subjectAltName, such as `IP:127.0.0.1,DNS:node-1`.
  void issue(const std::string& name, const std::string& names, Validity validity = {}) const {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate(X509_new());
    fill(certificate.get(), name, "CA:FALSE", names, validity);
    sign(certificate.get(), key.get());
    write(name, certificate.get(), key.get());
  }

  [[nodiscard]] std::filesystem::path file() const { return folder_ / (name_ + ".pem"); }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
    void operator()(std::FILE* file) const { (void)std::fclose(file); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;

  static void add_name(X509_NAME* name, const std::string& text) {
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(text.c_str()), -1, -1,
                               0);
  }

  static void extend(X509* certificate, int kind, const std::string& value) {
    if (value.empty()) return;
    const std::unique_ptr<X509_EXTENSION, Free> extension(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()));
    if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1)
      throw std::runtime_error("extension " + value);
  }

  void fill(X509* certificate, const std::string& name, const std::string& constraints, const std::string& names,
            Validity validity) const {
    static long serial = 0;
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), validity.from_s);
    X509_gmtime_adj(X509_getm_notAfter(certificate), validity.until_s);
    add_name(X509_get_subject_name(certificate), name);
    add_name(X509_get_issuer_name(certificate), name_);
    extend(certificate, NID_basic_constraints, constraints);
    extend(certificate, NID_subject_alt_name, names);
  }

  void sign(X509* certificate, EVP_PKEY* key) const {
    X509_set_pubkey(certificate, key);
    if (X509_sign(certificate, key_.get(), EVP_sha256()) == 0) throw std::runtime_error("a certificate is not signed");
  }

  void write(const std::string& name, X509* certificate, EVP_PKEY* key) const {
    const auto open = [&](const char* end) {
      const std::string path = folder_ / (name + end);
      std::unique_ptr<std::FILE, Free> file(std::fopen(path.c_str(), "w"));
      if (!file || ::chmod(path.c_str(), 0600) != 0) throw std::runtime_error(path);
      return file;
    };
    PEM_write_X509(open(".pem").get(), certificate);
    PEM_write_PrivateKey(open(".key").get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  }

  std::filesystem::path folder_;
  std::string name_;
  Key key_;
  Certificate certificate_;
};

}  // namespace lowgear::http
