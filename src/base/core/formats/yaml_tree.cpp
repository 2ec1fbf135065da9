#include "base/core/formats/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "base/core/utf8.h"

namespace lowgear {
namespace {

using Kind = YamlNode::Kind;
using SourcePointer = std::shared_ptr<const YamlSource>;

YamlPlace place_at(const YAML::Mark& mark, const SourcePointer& source) {
  const std::size_t offset = mark.pos < 0 ? 0 : static_cast<std::size_t>(mark.pos);
  return {source, std::min(offset, source->text.size())};
}

/// Makes the tree from what the parser meets.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(SourcePointer source) : source_(std::move(source)) { root_.place.source = source_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(has_document_, true)) fail(mark, "a second document begins here", "give one document");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { add(node(Kind::null, mark)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    fail(mark, "aliases are not supported", "write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    require_plain(mark, tag);
    YamlNode scalar = node(Kind::scalar, mark);
    scalar.scalar = value;
    add(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    open(Kind::list, mark, tag);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    open(Kind::map, mark, tag);
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] YamlNode take() { return std::move(root_); }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, std::string_view what, std::string_view fix = {}) const {
    throw_input_error(place_at(mark, source_).location(), what, fix);
  }

  /// yaml-cpp says "?" for a value without a tag and "!" for one in quotes.
  void require_plain(const YAML::Mark& mark, std::string_view tag) const {
    if (!tag.empty() && tag != "?" && tag != "!") fail(mark, fmt::format("the tag {} is not supported", quote(tag)));
  }

  [[nodiscard]] YamlNode node(Kind kind, const YAML::Mark& mark) {
    if (++count_ > kMaxYamlValues) fail(mark, fmt::format("more than {} values", kMaxYamlValues));
    YamlNode made;
    made.kind = kind;
    made.place = place_at(mark, source_);
    return made;
  }

  [[nodiscard]] bool awaits_key() const {
    return !open_.empty() && open_.back().kind == Kind::map && open_.back().keys.size() == open_.back().values.size();
  }

  void open(Kind kind, const YAML::Mark& mark, const std::string& tag) {
    require_plain(mark, tag);
    if (awaits_key()) fail(mark, "a key is not a word");
    if (open_.size() >= kMaxYamlDepth) fail(mark, fmt::format("nested more than {} levels deep", kMaxYamlDepth));
    open_.push_back(node(kind, mark));
  }

  void close() {
    YamlNode done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done));
  }

  void add(YamlNode value) {
    if (awaits_key()) return add_key(value);
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    YamlNode& parent = open_.back();
    // Nothing stands where the next thing does, as far as the parser knows.
    if (value.kind == Kind::null && parent.kind == Kind::map) value.place = parent.keys.back().place;
    parent.values.push_back(std::move(value));
  }

  void add_key(const YamlNode& key) {
    const SourceLocation where = key.place.location();
    if (key.kind != Kind::scalar) throw_input_error(where, "a key is not a word");
    if (open_.back().find(key.scalar) != nullptr) {
      throw_input_error(where, fmt::format("{} occurs twice here", quote(key.scalar)), "keep one of them");
    }
    open_.back().keys.push_back({key.scalar, key.place});
  }

  SourcePointer source_;
  YamlNode root_;
  std::vector<YamlNode> open_;  ///< lists and maps that have begun, outermost first
  std::size_t count_ = 0;
  bool has_document_ = false;
};

/// The first tab among the blanks that a line begins with, up to the line that `end` is in: YAML indents with spaces
/// alone, and the parser complains of what follows.
std::optional<std::size_t> indenting_tab(std::string_view text, std::size_t end) {
  for (std::size_t line = 0; line <= end && line < text.size();) {
    const std::size_t word = std::min(text.find_first_not_of(" \t", line), text.size());
    const std::size_t tab = text.find('\t', line);
    const bool empty = word == text.size() || text[word] == '\n' || text[word] == '\r' || text[word] == '#';
    if (tab < word && !empty) return tab;
    const std::size_t next = text.find('\n', line);
    if (next == std::string_view::npos) break;
    line = next + 1;
  }
  return std::nullopt;
}

[[noreturn]] void fail_parsing(const YAML::Exception& error, const SourcePointer& source) {
  const YamlPlace place = place_at(error.mark, source);
  if (const std::optional<std::size_t> tab = indenting_tab(source->text, place.offset)) {
    throw_input_error(YamlPlace{source, *tab}.location(), "a tab indents this line, which YAML does not allow",
                      "indent it with spaces");
  }
  throw_input_error(place.location(), printable(error.msg));
}

/// yaml-cpp takes the byte 4 for the end of the text, and guesses other encodings from NULs.
void require_text(const SourcePointer& source) {
  const std::string_view text = source->text;
  if (text.size() > kMaxYamlBytes) {
    throw_input_error({source->name, 0, 0}, fmt::format("{} bytes are too many for a configuration", text.size()));
  }
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = utf8_character_size(text.substr(i));
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool control = byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t';
    if (size == 0 || control) {
      throw_input_error(YamlPlace{source, i}.location(),
                        fmt::format("the byte {:#04x} is not text", static_cast<unsigned>(byte)), "write UTF-8");
    }
    i += size;
  }
}

}  // namespace

SourceLocation YamlPlace::location() const {
  return source->has_lines ? locate(source->text, offset, source->name) : SourceLocation{source->name, 0, 0};
}

const YamlNode* YamlNode::find(std::string_view key) const {
  const auto index = static_cast<std::size_t>(std::ranges::find(keys, key, &Key::name) - keys.begin());
  return index < keys.size() ? &values[index] : nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  const auto index = static_cast<std::size_t>(std::ranges::find(keys, key, &Key::name) - keys.begin());
  return index < keys.size() ? &values[index] : nullptr;
}

YamlNode parse_yaml(const SourcePointer& source) {
  require_text(source);
  TreeBuilder builder(source);
  std::istringstream stream(source->text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail_parsing(error, source);
  }
  return builder.take();
}

}  // namespace lowgear
