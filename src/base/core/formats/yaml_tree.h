#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"

namespace lowgear {

/// Most bytes of a YAML document that is read: people write them.
inline constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20;
/// Most values in it, and deepest nesting.
inline constexpr std::size_t kMaxYamlValues = 10'000;
inline constexpr std::size_t kMaxYamlDepth = 64;

/// What a piece of YAML was read from.
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

}  // namespace lowgear
