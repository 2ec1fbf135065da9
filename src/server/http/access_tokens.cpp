#include "server/http/access_tokens.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/user_database.h"
#include "protocol/json_members.h"

namespace lowgear::server {

namespace {

constexpr std::array<std::string_view, 4> kScopeNames = {"read", "jobs", "operate", "node"};

}  // namespace

std::string_view to_string(Scope scope) { return kScopeNames.at(static_cast<std::size_t>(scope)); }

std::string to_string(Scopes scopes) {
  std::string text;
  for (const Scope scope : {Scope::read, Scope::jobs, Scope::operate, Scope::node}) {
    if (!scopes.contain(scope)) continue;
    if (!text.empty()) text += ',';
    text += to_string(scope);
  }
  return text;
}

std::optional<Scopes> parse_scopes(std::string_view text) {
  if (text == "train") return Scopes{Scope::read, Scope::jobs};
  if (text == "admin") return Scopes{Scope::read, Scope::jobs, Scope::operate};
  Scopes scopes;
  while (true) {
    const std::string_view name = text.substr(0, text.find(','));
    const auto found = std::ranges::find(kScopeNames, name);
    if (found == kScopeNames.end()) return std::nullopt;
    const auto scope = static_cast<Scope>(found - kScopeNames.begin());
    if (scopes.contain(scope)) return std::nullopt;
    scopes.add(scope);
    if (name.size() == text.size()) return scopes;
    text.remove_prefix(name.size() + 1);
  }
}

namespace {

constexpr std::size_t kMaxTokenFileBytes = std::size_t{1} << 20U;
constexpr std::string_view kNameKey = "name=";
constexpr std::size_t kMaxTokenNodes = 20'000;
constexpr std::size_t kMaxTokenPatterns = 100;
constexpr std::string_view kNodesKey = "nodes=";
constexpr const char* kHowToWrite = "write SCOPES TOKEN or SCOPES name=NAME TOKEN";
constexpr const char* kHowToWriteNode = "write node nodes=HOST,HOST name=NAME TOKEN";

bool is_token(std::string_view text) {
  return text.size() <= kMaxTokenBytes && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxTokenNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.@").find(c) != std::string_view::npos;
  });
}

Scopes read_scopes(std::string_view word, const SourceLocation& where) {
  if (const auto scopes = parse_scopes(word)) return *scopes;
  throw_input_error(where,
                    "a line begins with scopes, separated by commas: read, jobs, operate and node; train stands for "
                    "read,jobs, and admin for read,jobs,operate",
                    kHowToWrite);
}

/// The value of a word `KEY=VALUE` that may come before the token, taken off; empty where there is none.
std::optional<std::string_view> take_value(std::string_view& rest, std::string_view key) {
  std::string_view after = rest;
  const std::string_view word = take_word(after);
  // A token may begin like this, too; nothing follows it then.
  if (!word.starts_with(key) || !has_word(after)) return std::nullopt;
  rest = after;
  return word.substr(key.size());
}

void take_name(std::string_view& rest, const SourceLocation& where, AccessToken& token) {
  const std::optional<std::string_view> name = take_value(rest, kNameKey);
  if (!name) return;
  if (!is_name(*name)) {
    throw_input_error(where,
                      fmt::format("a name has up to {} of the characters a-z A-Z 0-9 - _ . @", kMaxTokenNameBytes));
  }
  token.name = *name;
}

bool is_node(std::string_view text) {
  return !text.empty() && text.size() <= protocol::kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_.*").find(c) != std::string_view::npos;
  });
}

void take_nodes(std::string_view& rest, const SourceLocation& where, AccessToken& token) {
  NodeNames named;
  std::optional<std::string_view> nodes = take_value(rest, kNodesKey);
  while (nodes) {
    const std::string_view node = nodes->substr(0, nodes->find(','));
    if (!is_node(node) || named.hosts.size() == kMaxTokenNodes || named.patterns.size() == kMaxTokenPatterns) {
      throw_input_error(where,
                        fmt::format("nodes are up to {} names of hosts, separated by commas, or up to {} in which * "
                                    "stands for any characters",
                                    kMaxTokenNodes, kMaxTokenPatterns),
                        kHowToWriteNode);
    }
    if (node.find('*') == std::string_view::npos) {
      named.hosts.emplace(node);
    } else {
      named.patterns.emplace_back(node);
    }
    if (node.size() == nodes->size()) break;
    nodes->remove_prefix(node.size() + 1);
  }
  const bool names_some = named != NodeNames{};
  if (names_some) token.nodes = std::make_shared<const NodeNames>(std::move(named));
  if (token.scopes.contain(Scope::node) == names_some) return;
  throw_input_error(where, "a token of the scope node names its nodes, and no other token does", kHowToWriteNode);
}

/// Everything after scopes and name.
std::string_view read_token(std::string_view rest, const SourceLocation& where) {
  const std::string_view token = take_word(rest);
  if (token.empty()) throw_input_error(where, "the token is missing", kHowToWrite);
  if (has_word(rest)) throw_input_error(where, "something follows the token", kHowToWrite);
  if (!is_token(token)) {
    throw_input_error(where, fmt::format("a token is at most {} printable ASCII characters", kMaxTokenBytes));
  }
  if (token.size() < kMinTokenBytes) {
    throw_input_error(where, fmt::format("the token has less than {} characters", kMinTokenBytes),
                      "make one with: openssl rand -hex 32");
  }
  return token;
}

/// Whether the pattern is the text, `*` standing for any characters. Takes back only the last `*`, which suffices.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0;
  std::size_t star = std::string_view::npos;
  std::size_t after_star = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      after_star = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace

bool NodeNames::contain(std::string_view host) const {
  return hosts.contains(host) ||
         std::ranges::any_of(patterns, [host](const std::string& pattern) { return matches(pattern, host); });
}

std::vector<AccessToken> parse_tokens(std::string_view text, const std::string& source) {
  std::vector<AccessToken> tokens;
  std::map<std::string_view, int> lines;
  SourceLocation where{source, 0, 0};
  while (!text.empty()) {
    ++where.line;
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view word = take_word(line);
    if (word.empty() || word.starts_with('#')) continue;
    const Scopes scopes = read_scopes(word, where);
    AccessToken read{.scopes = scopes, .name = fmt::format("line {}", where.line), .nodes = {}, .token = {}};
    take_name(line, where, read);
    take_nodes(line, where, read);
    take_name(line, where, read);  // in either order
    const std::string_view token = read_token(line, where);
    const auto [first, is_new] = lines.emplace(token, where.line);
    if (!is_new) throw_input_error(where, fmt::format("the same token as in line {}", first->second));
    if (tokens.size() == kMaxTokens) throw_input_error(where, fmt::format("more than {} tokens", kMaxTokens));
    read.token = token;
    tokens.push_back(std::move(read));
  }
  if (tokens.empty()) throw_input_error({source, 0, 0}, "there is no token in it", kHowToWrite);
  return tokens;
}

std::vector<AccessToken> load_tokens(const std::filesystem::path& path) {
  const std::filesystem::path absolute = require_trusted(path);
  if (const auto exposure = exposure_of(absolute))
    throw InputError(fmt::format("{}: {}", printable(path.string()), *exposure));
  return parse_tokens(read_file(absolute, kMaxTokenFileBytes), path.string());
}

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
    change.message = fmt::format("the changed token file is refused, the previous tokens stay valid: {}", error.what());
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
