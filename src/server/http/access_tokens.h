#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/files/file_watch.h"

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

inline constexpr std::string_view kBlanks = " \t\r";

/// Removes the first word of a line and returns it; empty when there is none.
inline std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

/// Whether a word is left.
inline bool has_word(std::string_view text) { return text.find_first_not_of(kBlanks) != std::string_view::npos; }

/// Nodes by the names of their hosts.
struct NodeNames {
  std::set<std::string, std::less<>> hosts;
  std::vector<std::string> patterns;  ///< in which `*` stands for any characters
  [[nodiscard]] bool contain(std::string_view host) const;
  friend bool operator==(const NodeNames&, const NodeNames&) = default;
};

/// A line `SCOPES TOKEN` of a token file, with `name=NAME` and `nodes=NODE,NODE` before the token where it has them.
struct AccessToken {
  Scopes scopes;
  std::string name;  ///< for the audit log; may be that of several tokens. `line 3` where the file gives none
  /// Nodes that it may speak for; null unless it has the scope `node`.
  std::shared_ptr<const NodeNames> nodes = {};
  std::string token;
};

inline constexpr std::size_t kMinTokenBytes = 16;
inline constexpr std::size_t kMaxTokenBytes = 512;
inline constexpr std::size_t kMaxTokenNameBytes = 64;
inline constexpr std::size_t kMaxTokens = 1'000;

/// Reads tokens, one a line; empty lines and lines that begin with `#` are comments. Throws InputError with file and
/// line, which never shows what may be a token, also when there is none at all.
[[nodiscard]] std::vector<AccessToken> parse_tokens(std::string_view text, const std::string& source);
/// Reads a token file. Throws InputError also when others than its owner may read it, or others could have
/// changed it (base/core/files/user_database.h).
[[nodiscard]] std::vector<AccessToken> load_tokens(const std::filesystem::path& path);

/// A token file that is read again when it has changed.
class WatchedTokens {
 public:
  struct Change {
    /// The new file's tokens; empty when the file is refused: the present tokens stay valid.
    std::vector<AccessToken> tokens;
    std::string message;     ///< which changed, by name, or why the file is refused
    bool withdraws = false;  ///< a token that was valid is not any more, or has fewer scopes

    [[nodiscard]] bool refused() const { return tokens.empty(); }
  };

  /// Reads the file. Throws as `load_tokens`.
  explicit WatchedTokens(std::filesystem::path path);

  /// The tokens of the last file without a mistake.
  [[nodiscard]] const std::vector<AccessToken>& tokens() const { return tokens_; }
  /// Whether the present file was refused.
  [[nodiscard]] bool stale() const { return stale_; }
  /// To be called about once a second. Empty while the file has not changed.
  [[nodiscard]] std::optional<Change> check();

 private:
  std::filesystem::path path_;
  FileWatch watch_;  ///< from before the file is read: a later change is not missed
  std::vector<AccessToken> tokens_;
  bool stale_ = false;
};

}  // namespace lowgear::server
