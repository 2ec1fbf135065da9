#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>

namespace lowgear::http {

/// The SHA-256 digest of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  /// Of all that was added, as 64 hexadecimal digits; nothing can be added any more.
  [[nodiscard]] std::string hex();

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const;
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace lowgear::http
