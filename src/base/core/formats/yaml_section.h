#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"

namespace lowgear {

/// A map of a configuration in which every member is optional, such as `sockets:` of agent.yaml. It records which
/// members were read, so that `finish` can refuse all others. A reader returns nothing for a missing member; it throws
/// InputError with file, line and column for a value that is null, of the wrong kind or out of range.
class YamlSection {
 public:
  /// Reads a whole document, which may be empty. Throws InputError as YamlView::parse does.
  [[nodiscard]] static YamlSection parse(std::string_view text, const std::string& source);

  [[nodiscard]] std::optional<double> number_in(std::string_view key, double low, double high);
  [[nodiscard]] std::optional<int> integer_in(std::string_view key, int low, int high);
  /// A text; numbers, true and false only in quotes.
  [[nodiscard]] std::optional<std::string> text(std::string_view key);
  /// The path of a file, folder or socket, as `text` and YamlView::path read it.
  [[nodiscard]] std::optional<std::filesystem::path> path(std::string_view key);
  /// Permissions of a file, written like "0660"; bits beyond 0777 are dropped.
  [[nodiscard]] std::optional<mode_t> file_mode(std::string_view key);
  [[nodiscard]] std::optional<bool> boolean(std::string_view key);
  /// A text or a list of texts; empty when it is missing.
  [[nodiscard]] std::vector<std::string> texts(std::string_view key);
  /// The map of this name; an empty section when it is missing or null.
  [[nodiscard]] YamlSection section(std::string_view key);
  /// The maps in the list of this name; empty when it is missing or null.
  [[nodiscard]] std::vector<YamlSection> sections(std::string_view key);

  /// Throws InputError for a member that was never read, with a suggestion.
  void finish() const;
  /// Throws InputError at this map.
  [[noreturn]] void fail(std::string_view what) const { map_.fail(what); }
  /// Throws InputError at the value of a member, at this map when it is missing.
  [[noreturn]] void fail_at(std::string_view key, std::string_view what) const;
  /// Runs a look-up for the value of a member; an Error that it throws is reported at that value.
  template <typename Lookup>
  auto look_up(std::string_view key, Lookup&& lookup) {
    try {
      return lookup();
    } catch (const Error& error) {
      fail_at(key, error.what());
    }
  }

 private:
  explicit YamlSection(YamlView map) : map_(std::move(map)) {}
  [[nodiscard]] std::optional<YamlView> find(std::string_view key);

  YamlView map_;
  std::set<std::string_view> known_;  ///< members that were asked for: literals of the readers
};

}  // namespace lowgear
