#include "server/http/scopes.h"

#include <algorithm>
#include <array>

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

}  // namespace lowgear::server
