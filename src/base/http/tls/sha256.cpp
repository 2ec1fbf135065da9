#include "base/http/tls/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <span>

#include "base/core/error.h"

namespace lowgear::http {
namespace {

void require_success(int result) {
  if (result != 1) throw Error("OpenSSL computes no SHA-256 digest");
}

}  // namespace

void Sha256::Free::operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  require_success(context_ ? EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) : 0);
}

void Sha256::add(std::string_view bytes) {
  require_success(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  require_success(EVP_DigestFinal_ex(context_.get(), digest.data(), &size));
  return fmt::format("{:02x}", fmt::join(std::span(digest).first(size), ""));
}

}  // namespace lowgear::http
