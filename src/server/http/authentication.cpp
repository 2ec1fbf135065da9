#include "server/http/authentication.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/http/message/message.h"
#include "server/http/access_tokens.h"
#include "server/job/rank_registry.h"

namespace lowgear::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kRememberedFor = 30s;
constexpr std::size_t kMostRemembered = 4'096;

/// The token of `Authorization: Bearer TOKEN`; empty for another scheme, and where anything follows the token: that is
/// then no token of ours.
std::string_view bearer_of(std::string_view header) {
  const std::string_view scheme = take_word(header);
  const auto same_letter = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; };
  if (!std::ranges::equal(scheme, std::string_view("bearer"), same_letter)) return {};
  const std::string_view token = take_word(header);
  return has_word(header) ? std::string_view() : token;
}

const std::shared_ptr<const NodeNames>& all_nodes() {
  static const auto all = std::make_shared<const NodeNames>(NodeNames{.hosts = {}, .patterns = {"*"}});
  return all;
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

}  // namespace

bool is_from_this_machine(const http::Request& request) {
  return request.peer || (is_loopback(request.remote) && !is_passed_on(request));
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

bool Authenticator::has_token_for(Scope scope) const {
  return std::ranges::any_of(rules_.tokens, [scope](const AccessToken& token) { return token.scopes.contain(scope); });
}

Scopes Authenticator::look_up(const ipc::UnixPeer& peer) const {
  if (peer.uid == 0 || peer.uid == ::geteuid()) return Scopes::all();
  Scopes scopes;
  for (const PeerRule& rule : rules_.peers) {
    const bool fits = rule.everybody || (rule.user && *rule.user == peer.uid) ||
                      (rule.group && (*rule.group == peer.gid || in_group_(peer.uid, *rule.group)));
    if (fits) scopes.add(rule.scopes);
  }
  return scopes;
}

Scopes Authenticator::scopes_of(const ipc::UnixPeer& peer, Clock::time_point now) {
  const std::pair key(peer.uid, peer.gid);
  const auto known = remembered_.find(key);
  if (known != remembered_.end() && now < known->second.until) return known->second.scopes;
  const Scopes scopes = look_up(peer);
  if (remembered_.size() >= kMostRemembered) remembered_.clear();
  remembered_[key] = {scopes, now + kRememberedFor};
  return scopes;
}

std::optional<Caller> Authenticator::caller_without_token(const http::Request& request, Clock::time_point now) {
  if (request.peer) {
    const Scopes scopes = scopes_of(*request.peer, now);
    if (scopes.empty()) return std::nullopt;
    Caller caller{scopes, fmt::format("user {}", request.peer->uid)};
    if (scopes.contain(Scope::node)) caller.nodes = all_nodes();
    return caller;
  }
  if (rules_.loopback_read && is_loopback(request.remote) && is_addressed_to_loopback(request)) {
    return Caller{{Scope::read}, request.remote};
  }
  return std::nullopt;
}

std::optional<Caller> Authenticator::caller_by_token(const http::Request& request, Clock::time_point now) const {
  const std::string_view given = bearer_of(request.header("authorization"));
  if (const AccessToken* const token = find_token(given))
    return Caller{token->scopes, "token " + token->name, token->nodes};
  if (!is_from_this_machine(request)) return std::nullopt;
  std::optional<std::string> session = sign_ins_.session(given, now);
  return session ? std::optional<Caller>({{Scope::read}, std::move(*session)}) : std::nullopt;
}

std::optional<Caller> Authenticator::identify(const http::Request& request, Clock::time_point now) {
  std::optional<Caller> caller = caller_without_token(request, now);
  if (request.header("authorization").empty()) return caller;
  std::optional<Caller> with_token = caller_by_token(request, now);
  if (!with_token || !caller) return with_token;
  with_token->scopes.add(caller->scopes);
  if (caller->nodes) with_token->nodes = caller->nodes;  // all of them
  return with_token;
}

}  // namespace lowgear::server
