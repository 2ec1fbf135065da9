#include "server/http/watched_tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "base/core/error.h"

namespace lowgear::server {
namespace {

/// Names of the tokens of `some` that are not in `others`, each once.
std::string names_of_others(const std::vector<AccessToken>& some, const std::vector<AccessToken>& others) {
  std::set<std::string_view> names;
  for (const AccessToken& token : some) {
    if (std::ranges::find(others, token.token, &AccessToken::token) == others.end()) names.insert(token.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

bool withdraws_any(const std::vector<AccessToken>& before, const std::vector<AccessToken>& after) {
  return std::ranges::any_of(before, [&](const AccessToken& token) {
    const auto kept = std::ranges::find(after, token.token, &AccessToken::token);
    if (kept == after.end()) return true;
    Scopes both = kept->scopes;
    both.add(token.scopes);
    const bool same_nodes = token.nodes == nullptr || (kept->nodes != nullptr && *token.nodes == *kept->nodes);
    return both != kept->scopes || !same_nodes;
  });
}

}  // namespace

WatchedTokens::WatchedTokens(std::filesystem::path path)
    : path_(std::move(path)), watch_({path_}), tokens_(load_tokens(path_)) {}

std::optional<WatchedTokens::Change> WatchedTokens::check() {
  if (!watch_.changed()) return std::nullopt;
  Change change;
  try {
    change.tokens = load_tokens(path_);
  } catch (const Error& error) {
    stale_ = true;
    change.message =
        fmt::format("the changed token file is refused, the tokens of before stay valid: {}", error.what());
    return change;
  }
  stale_ = false;
  change.withdraws = withdraws_any(tokens_, change.tokens);
  change.message = fmt::format("{} tokens are valid; new: {}; no longer valid: {}", change.tokens.size(),
                               names_of_others(change.tokens, tokens_), names_of_others(tokens_, change.tokens));
  tokens_ = change.tokens;
  return change;
}

}  // namespace lowgear::server
