#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear {

struct TomlValue;

/// A table of a TOML document that knows which keys it may have, so that a mistake is reported as
/// `agent.toml:2:16: "telemetry_hz" has to be a number from 0.1 to 100`. Every reader throws InputError with file, line
/// and column when the value is of the wrong kind, and returns nothing when there is none. Keeps the document alive.
class TomlTable {
 public:
  /// Reads a whole document. Throws InputError on a syntax error. Characters beyond ASCII have to be escaped.
  [[nodiscard]] static TomlTable parse(std::string_view text, const std::string& source);

  [[nodiscard]] std::optional<double> number_in(std::string_view key, double low, double high);
  [[nodiscard]] std::optional<int> integer_in(std::string_view key, int low, int high);
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  /// Permissions of a file, written like "0660"; bits beyond 0777 are dropped.
  [[nodiscard]] std::optional<mode_t> file_mode(std::string_view key);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);
  /// A text or a list of texts; empty when there is none.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  /// `[key]`; an empty table when there is none.
  [[nodiscard]] TomlTable table(std::string_view key);
  /// The tables of `[[key]]`.
  [[nodiscard]] std::vector<TomlTable> tables(std::string_view key);

  /// Throws InputError for a key that was never read, with a suggestion.
  void finish() const;
  /// Throws InputError at this table.
  [[noreturn]] void fail(std::string_view what) const;
  /// Throws InputError at the value of a key, at this table when there is none.
  [[noreturn]] void fail_at(std::string_view key, std::string_view what) const;
  /// Runs a look-up for the value of a key; what it throws (Error) is reported at that value.
  template <typename Lookup>
  auto look_up(std::string_view key, Lookup&& lookup) {
    try {
      return lookup();
    } catch (const Error& error) {
      fail_at(key, error.what());
    }
  }

 private:
  TomlTable(std::shared_ptr<const TomlValue> table, std::string name, std::string source)
      : table_(std::move(table)), name_(std::move(name)), source_(std::move(source)) {}
  [[nodiscard]] const TomlValue* find(std::string_view key);
  [[nodiscard]] std::string path(std::string_view key) const;
  [[noreturn]] void fail(const TomlValue& value, std::string_view what) const;

  std::shared_ptr<const TomlValue> table_;
  std::string name_;  ///< empty for the document itself
  std::string source_;
  std::set<std::string, std::less<>> known_;  ///< keys that were asked for
};

}  // namespace lowgear
