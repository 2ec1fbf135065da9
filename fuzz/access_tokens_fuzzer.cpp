/// Reads any text as a token file. What is accepted identifies its senders, and no error shows a token.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "control/server/http/authentication.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check(std::vector<lowgear::AccessToken> tokens) {
  require(!tokens.empty());
  const lowgear::AccessToken last = tokens.back();
  require(last.token.size() >= lowgear::kMinTokenBytes && last.token.size() <= lowgear::kMaxTokenBytes);
  lowgear::AuthenticationRules rules;
  rules.tokens = std::move(tokens);
  lowgear::Authenticator authenticator(std::move(rules), {});
  lowgear::HttpRequest request;
  request.headers["authorization"] = "Bearer " + last.token;
  const auto caller = authenticator.identify(request, {});
  require(caller && caller->role == last.role);
  request.headers["authorization"] += "x";
  const auto other = authenticator.identify(request, {});
  require(!other || other->name != caller->name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    check(lowgear::parse_tokens(text, "tokens"));
  } catch (const lowgear::InputError& error) {
    const std::string_view message = error.what();
    for (std::size_t i = 0; i + lowgear::kMinTokenBytes <= size; ++i) {
      const std::string_view piece = text.substr(i, lowgear::kMinTokenBytes);
      // Words of the messages themselves are no secrets.
      require(piece.find(' ') != std::string_view::npos || message.find(piece) == std::string_view::npos);
    }
  }
  return 0;
}
