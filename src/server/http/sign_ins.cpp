#include "server/http/sign_ins.h"

#include <fmt/format.h>

#include <utility>

#include "server/job/rank_registry.h"

namespace lowgear::server {
namespace {

/// Keeps those that are still valid, and room for one more.
template <typename Secret>
void make_room(std::vector<Secret>& secrets, std::size_t most, SignIns::Clock::time_point now) {
  std::erase_if(secrets, [now](const Secret& secret) { return secret.until <= now; });
  if (secrets.size() >= most) secrets.erase(secrets.begin());
}

/// The valid one; all of them are compared, so that time does not tell which.
template <typename Secret>
const Secret* find(const std::vector<Secret>& secrets, std::string_view given, SignIns::Clock::time_point now) {
  const Secret* found = nullptr;
  for (const Secret& secret : secrets) {
    if (same_secret(given, secret.text) && now < secret.until) found = &secret;
  }
  return found;
}

}  // namespace

std::string SignIns::new_code(Clock::time_point now) {
  make_room(codes_, kMaxCodes, now);
  codes_.push_back({.text = new_secret(), .until = now + kCodeLife});
  return codes_.back().text;
}

std::string SignIns::address_with(std::string_view code) const { return fmt::format("{}/#token={}", dashboard_, code); }

std::optional<std::string> SignIns::exchange(std::string_view code, Clock::time_point now) {
  const Secret* const found = find(codes_, code, now);
  if (found == nullptr) return std::nullopt;
  codes_.erase(codes_.begin() + (found - codes_.data()));
  make_room(sessions_, kMaxSessions, now);
  sessions_.push_back({.text = new_secret(), .until = now + kSessionLife, .number = ++begun_});
  return sessions_.back().text;
}

std::optional<std::string> SignIns::session(std::string_view token, Clock::time_point now) const {
  const Secret* const found = find(sessions_, token, now);
  return found != nullptr ? std::optional(fmt::format("session {}", found->number)) : std::nullopt;
}

}  // namespace lowgear::server
