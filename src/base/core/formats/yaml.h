#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/core/error.h"

namespace lowgear {

/// Most bytes of a YAML document that is read: people write them.
inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
/// Most values in it, and deepest nesting.
inline constexpr std::size_t kMaxYamlValues = 10'000;
inline constexpr std::size_t kMaxYamlDepth = 64;

/// The text from which a piece of YAML was read.
struct YamlSource {
  std::string name;  ///< of the file; or the option of the command line that it stood in
  std::string text;
  bool has_lines = true;  ///< lines and columns help to find something in it
};

/// Where a key or value stands.
struct YamlPlace {
  std::shared_ptr<const YamlSource> source;
  std::size_t offset = 0;  ///< byte of the text

  [[nodiscard]] SourceLocation location() const;
};

/// A value of a document, with everything below it.
struct YamlNode {
  enum class Kind : unsigned char { null, scalar, list, map };
  struct Key {
    std::string name;
    YamlPlace place;
  };

  Kind kind = Kind::null;
  YamlPlace place;
  std::string scalar;
  bool quoted = false;           ///< the scalar stands in quotes, so it is a text
  std::vector<Key> keys;         ///< of a map, each once
  std::vector<YamlNode> values;  ///< of a map in the order of its keys; elements of a list

  /// The value of a map's key; null when this is no map or lacks it.
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
  [[nodiscard]] YamlNode* find(std::string_view key);
};

/// Reads one document with yaml-cpp's scanner. Throws InputError with the location for ambiguous or unsupported
/// features: duplicate keys, keys that are no words, aliases (which can make a value contain itself), tags, a second
/// document, control characters, text that is no UTF-8, and more bytes, values or levels than stated above.
[[nodiscard]] YamlNode parse_yaml(const std::shared_ptr<const YamlSource>& source);

/// A text as a scalar in double quotes, whatever stands in it.
[[nodiscard]] std::string yaml_quoted(const std::string& text);

/// A value that is put into a document from elsewhere, such as an option of the command line.
struct YamlSetting {
  std::string origin;  ///< what messages call it: `--tp 8`
  std::string path;    ///< of the value in the document: `parallel.tp`
  std::string value;   ///< the unchanged text of a scalar
};

/// A value of a YAML document that knows where it stands, so that a wrong one is reported as
/// `train.yaml:12:9: parallel.pp: expected a whole number from 1 to 1024, not "four"`. Keeps the document alive.
class YamlView {
 public:
  /// Reads a document that is a map. Throws InputError with file, line and column on anything else and on what
  /// parse_yaml refuses.
  [[nodiscard]] static YamlView parse(std::string_view text, const std::string& source);
  /// The same, with settings of a command line that override values of the text or add some:
  /// `optimizer.learning_rate=1e-4`; an empty value removes the setting. A wrong value is reported at its
  /// setting, `setting "steps=many"`. Throws InputError when one is not of this form, or its path goes through
  /// something that is no map.
  [[nodiscard]] static YamlView parse(std::string_view text, const std::string& source,
                                      std::span<const std::string> settings);
  /// The same with settings that were taken apart. A wrong value is reported at its origin.
  [[nodiscard]] static YamlView parse_with(std::string_view text, const std::string& source,
                                           std::span<const YamlSetting> settings);
  /// Reads a document in which every member is optional: one without a value is an empty map.
  [[nodiscard]] static YamlView parse_or_empty(std::string_view text, const std::string& source);

  /// Whether this map has the member, and not as null.
  [[nodiscard]] bool has(std::string_view key) const;
  /// The named member; throws InputError when it is missing.
  [[nodiscard]] YamlView at(std::string_view key) const;
  /// The named map; an empty one when it is missing or null.
  [[nodiscard]] YamlView map_or_empty(std::string_view key) const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] bool is_list() const;
  /// Whether this is a scalar that YAML reads as a text: in quotes, or neither a number nor true or false.
  [[nodiscard]] bool is_text() const;
  /// Keys of a map in their order.
  [[nodiscard]] std::vector<std::string> keys() const;
  /// Elements of a list; throws InputError when this is none.
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] YamlView at(std::size_t index) const;

  [[nodiscard]] std::string text() const;
  /// The path of a file, folder or socket. Throws InputError for one that ends with a newline, as a block scalar does.
  [[nodiscard]] std::filesystem::path path() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer_in(std::int64_t low, std::int64_t high) const;
  [[nodiscard]] double number_in(double low, double high) const;

  /// Throws InputError unless this is a map with no other keys, naming the first other one and what may be meant.
  void require_only(std::initializer_list<std::string_view> keys) const;
  void require_only(std::span<const std::string_view> keys) const;
  /// Throws InputError at this value.
  [[noreturn]] void fail(std::string_view what, std::string_view fix = {}) const;

 private:
  static std::shared_ptr<YamlNode> parse_map(std::string_view text, const std::string& source, bool may_be_empty);
  YamlView(std::shared_ptr<const YamlNode> node, std::string path) : node_(std::move(node)), path_(std::move(path)) {}
  [[nodiscard]] std::string joined(std::string_view key) const;
  [[nodiscard]] std::string scalar(std::string_view expected) const;
  [[nodiscard]] std::string unquoted(std::string_view expected) const;

  std::shared_ptr<const YamlNode> node_;  ///< keeps the whole tree
  std::string path_;
};

}  // namespace lowgear
