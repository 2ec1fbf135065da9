#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear::server {

/// A right that a token or a user may have. docs/server-api.md says which route needs which.
enum class Scope : unsigned char {
  read,     ///< every GET but plans
  jobs,     ///< register jobs and ranks, report for them
  operate,  ///< change or end jobs, set budgets and signals
  node,     ///< ask for the share of power of certain nodes, as their agents do
};

[[nodiscard]] std::string_view to_string(Scope scope);

/// A set of scopes.
class Scopes {
 public:
  Scopes() = default;
  Scopes(std::initializer_list<Scope> scopes) {
    for (const Scope scope : scopes) add(scope);
  }

  void add(Scope scope) { bits_ |= bit(scope); }
  void add(Scopes others) { bits_ |= others.bits_; }
  [[nodiscard]] bool contain(Scope scope) const { return (bits_ & bit(scope)) != 0; }
  [[nodiscard]] bool empty() const { return bits_ == 0; }
  [[nodiscard]] static Scopes all() { return {Scope::read, Scope::jobs, Scope::operate, Scope::node}; }
  friend bool operator==(Scopes, Scopes) = default;

 private:
  [[nodiscard]] static unsigned bit(Scope scope) { return 1U << static_cast<unsigned>(scope); }
  unsigned bits_ = 0;
};

/// As `parse_scopes` reads them, in the order of the enumeration.
[[nodiscard]] std::string to_string(Scopes scopes);

/// `read`, `jobs`, `operate` and `node`, separated by commas; or a role, which is a name of several: `train` of
/// `read,jobs`, `admin` of `read,jobs,operate`. Empty for anything else, also for a scope that comes twice.
[[nodiscard]] std::optional<Scopes> parse_scopes(std::string_view text);

}  // namespace lowgear::server
