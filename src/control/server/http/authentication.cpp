#include "control/server/http/authentication.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/files/trusted_path.h"
#include "base/http/message/host.h"
#include "control/server/store/secret.h"

namespace lowgear::server {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> kRoleNames = {"read", "train", "admin"};
constexpr std::size_t kMaxTokenFileBytes = std::size_t{1} << 20U;
constexpr auto kRememberedFor = 30s;
constexpr std::size_t kMostRemembered = 4'096;
constexpr std::string_view kBlanks = " \t\r";

/// The first word, taken off the text.
std::string_view take_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

bool is_token(std::string_view text) {
  return text.size() <= kMaxTokenBytes && std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Role read_role(std::string_view word, const SourceLocation& where) {
  if (const auto role = parse_role(word)) return *role;
  throw_input_error(where, "a line begins with a role: read, train or admin", "write ROLE TOKEN");
}

/// Everything after a role.
std::string_view read_token(std::string_view rest, const SourceLocation& where) {
  const std::string_view token = take_word(rest);
  if (token.empty()) throw_input_error(where, "the token is missing", "write ROLE TOKEN");
  if (!take_word(rest).empty()) throw_input_error(where, "something follows the token", "write ROLE TOKEN");
  if (!is_token(token)) {
    throw_input_error(where, fmt::format("a token is at most {} printable ASCII characters", kMaxTokenBytes));
  }
  if (token.size() < kMinTokenBytes) {
    throw_input_error(where, fmt::format("the token has less than {} characters", kMinTokenBytes),
                      "make one with: openssl rand -hex 32");
  }
  return token;
}

/// The token of `Authorization: Bearer TOKEN`; empty for another scheme, which is then no token of ours.
std::string_view bearer_of(std::string_view header) {
  const std::string_view scheme = take_word(header);
  const auto same_letter = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (!std::ranges::equal(scheme, std::string_view("bearer"), same_letter)) return {};
  return take_word(header);
}

bool is_loopback(std::string_view remote) {
  return remote.starts_with("127.") || remote == "::1" || remote.starts_with("::ffff:127.");
}

/// Whether a proxy passes the request on, as far as proxies say so: many add a header of these, and many speak HTTP/1.0
/// to servers, which no client of today does.
bool is_passed_on(const http::Request& request) {
  constexpr std::array<std::string_view, 5> kHeaders = {"forwarded", "via", "x-real-ip", "x-client-ip",
                                                        "true-client-ip"};
  if (request.version < 11) return true;
  if (std::ranges::any_of(kHeaders, [&](std::string_view name) { return request.headers.contains(name); })) return true;
  const auto forwarded = request.headers.lower_bound("x-forwarded");
  return forwarded != request.headers.end() && forwarded->first.starts_with("x-forwarded");
}

/// Whether a request was meant for this machine. A page of the web whose name was made to point here (DNS rebinding)
/// and what a proxy passes on were not.
bool is_addressed_to_loopback(const http::Request& request) {
  return !is_passed_on(request) && http::names_loopback(request.header("host"));
}

/// Whether others than the server and root may read a file of secrets. The group may read one that belongs to root,
/// where the server is another user: so does Kubernetes mount secrets.
bool others_may_read(const struct stat& status) {
  const bool by_its_group = status.st_uid == 0 && ::geteuid() != 0;
  return (status.st_mode & (by_its_group ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO)) != 0;
}

}  // namespace

std::string_view to_string(Role role) { return kRoleNames.at(static_cast<std::size_t>(role)); }

std::optional<Role> parse_role(std::string_view name) {
  const auto found = std::ranges::find(kRoleNames, name);
  if (found == kRoleNames.end()) return std::nullopt;
  return static_cast<Role>(found - kRoleNames.begin());
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
    const Role role = read_role(word, where);
    const std::string_view token = read_token(line, where);
    const auto [first, is_new] = lines.emplace(token, where.line);
    if (!is_new) throw_input_error(where, fmt::format("the same token as in line {}", first->second));
    if (tokens.size() == kMaxTokens) throw_input_error(where, fmt::format("more than {} tokens", kMaxTokens));
    tokens.push_back({role, std::string(token), where.line});
  }
  if (tokens.empty()) throw_input_error({source, 0, 0}, "there is no token in it", "write lines ROLE TOKEN");
  return tokens;
}

std::vector<AccessToken> load_tokens(const std::filesystem::path& path) {
  const std::filesystem::path absolute = require_trusted(path);
  struct stat status {};
  const std::string name = printable(path.string());
  if (::stat(absolute.c_str(), &status) != 0 || others_may_read(status)) {
    throw InputError(
        fmt::format("{}: others may read it (mode {:04o}); chmod 600 {}", name, status.st_mode & 07777U, name));
  }
  return parse_tokens(read_file(absolute, kMaxTokenFileBytes), path.string());
}

Authenticator::Authenticator(AuthenticationRules rules, GroupLookup in_group)
    : rules_(std::move(rules)), in_group_(std::move(in_group)) {}

const AccessToken* Authenticator::find_token(std::string_view given) const {
  const AccessToken* found = nullptr;
  for (const AccessToken& token : rules_.tokens) {  // all of them, so that time does not tell which
    if (same_secret(given, token.token)) found = &token;
  }
  return found;
}

std::optional<Role> Authenticator::look_up(const ipc::UnixPeer& peer) const {
  if (peer.uid == 0 || peer.uid == ::geteuid()) return Role::admin;
  std::optional<Role> highest;
  for (const PeerRule& rule : rules_.peers) {
    if (highest && rule.role <= *highest) continue;
    const bool fits = rule.everybody || (rule.user && *rule.user == peer.uid) ||
                      (rule.group && (*rule.group == peer.gid || in_group_(peer.uid, *rule.group)));
    if (fits) highest = rule.role;
  }
  return highest;
}

std::optional<Role> Authenticator::role_of(const ipc::UnixPeer& peer, Clock::time_point now) {
  const std::pair key(peer.uid, peer.gid);
  const auto known = remembered_.find(key);
  if (known != remembered_.end() && now < known->second.until) return known->second.role;
  const std::optional<Role> role = look_up(peer);
  if (remembered_.size() >= kMostRemembered) remembered_.clear();
  remembered_[key] = {role, now + kRememberedFor};
  return role;
}

std::optional<Caller> Authenticator::caller_without_token(const http::Request& request, Clock::time_point now) {
  if (request.peer) {
    const std::optional<Role> role = role_of(*request.peer, now);
    return role ? std::optional(Caller{*role, fmt::format("user {}", request.peer->uid)}) : std::nullopt;
  }
  if (rules_.loopback_read && is_loopback(request.remote) && is_addressed_to_loopback(request)) {
    return Caller{Role::read, request.remote};
  }
  return std::nullopt;
}

std::optional<Caller> Authenticator::identify(const http::Request& request, Clock::time_point now) {
  std::optional<Caller> caller = caller_without_token(request, now);
  const std::string_view header = request.header("authorization");
  if (header.empty()) return caller;
  const AccessToken* const token = find_token(bearer_of(header));
  if (token == nullptr) return std::nullopt;
  if (caller && caller->role >= token->role) return caller;
  return Caller{token->role, fmt::format("token of line {}", token->line)};
}

}  // namespace lowgear::server
