/// Reads any text as a token file. What is accepted identifies its senders, and no error shows a token.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "server/http/authentication.h"

namespace {

void check(std::vector<lowgear::server::AccessToken> tokens) {
  require(!tokens.empty());
  const lowgear::server::AccessToken last = tokens.back();
  require(last.token.size() >= lowgear::server::kMinTokenBytes && last.token.size() <= lowgear::server::kMaxTokenBytes);
  lowgear::server::AuthenticationRules rules;
  const std::vector<lowgear::server::AccessToken> all = tokens;
  rules.tokens = std::move(tokens);
  lowgear::server::Authenticator authenticator(std::move(rules), {});
  lowgear::http::Request request;
  request.headers["authorization"] = "Bearer " + last.token;
  const auto caller = authenticator.identify(request, {});
  require(caller && caller->scopes == last.scopes && caller->name == "token " + last.name);
  request.headers["authorization"] += "x";
  const bool is_another = std::ranges::find(all, last.token + "x", &lowgear::server::AccessToken::token) != all.end();
  require(authenticator.identify(request, {}).has_value() == is_another);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  try {
    check(lowgear::server::parse_tokens(text, "tokens"));
  } catch (const lowgear::InputError& error) {
    const std::string_view message = error.what();
    for (std::size_t i = 0; i + lowgear::server::kMinTokenBytes <= size; ++i) {
      const std::string_view piece = text.substr(i, lowgear::server::kMinTokenBytes);
      // Words of the messages themselves are no secrets.
      require(piece.find(' ') != std::string_view::npos || message.find(piece) == std::string_view::npos);
    }
  }
  return 0;
}
