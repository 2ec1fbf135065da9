#include "base/core/formats/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "base/core/text.h"

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
    if (tag == "!") require_end_of_quotes(mark);
    YamlNode scalar = node(Kind::scalar, mark);
    scalar.scalar = value;
    scalar.quoted = tag == "!";
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

  /// yaml-cpp takes the end of the text for a missing quote, and all between for the value. A block scalar also has the
  /// tag "!".
  void require_end_of_quotes(const YAML::Mark& mark) const {
    const std::string_view text = source_->text;
    const std::size_t begin = place_at(mark, source_).offset;
    if (begin >= text.size()) return;
    const char quotes = text[begin];
    if (quotes != '\'' && quotes != '"') return;
    for (std::size_t i = begin + 1; i < text.size(); ++i) {
      if (quotes == '"' && text[i] == '\\') {
        ++i;
      } else if (text[i] == quotes) {
        if (quotes == '"' || i + 1 == text.size() || text[i + 1] != quotes) return;
        ++i;
      }
    }
    fail(mark, "the quoted text has no closing quote", fmt::format("write {} after it", quotes));
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

  /// Whether more brackets open here than may be nested.
  [[nodiscard]] bool begins_deep(const YAML::Mark& mark) const {
    const std::string_view rest = std::string_view(source_->text).substr(place_at(mark, source_).offset);
    return std::min(rest.find_first_not_of("[{ \n"), rest.size()) > kMaxYamlDepth;
  }

  void open(Kind kind, const YAML::Mark& mark, const std::string& tag) {
    require_plain(mark, tag);
    const bool is_key = awaits_key();
    // yaml-cpp takes a run of brackets without an end for a key.
    if (is_key && !begins_deep(mark)) fail(mark, "a key must be a single value, not a list or a map");
    if (is_key || open_.size() >= kMaxYamlDepth) {
      fail(mark, fmt::format("nested more than {} levels deep", kMaxYamlDepth));
    }
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
    if (key.kind != Kind::scalar) throw_input_error(where, "a key must be a single value, not a list or a map");
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

namespace {

std::string kind_of(const YamlNode& node) {
  switch (node.kind) {
    case Kind::map:
      return "a map";
    case Kind::list:
      return "a list";
    case Kind::scalar:
      return quote(node.scalar);
    case Kind::null:
      break;
  }
  return "nothing";
}

[[noreturn]] void refuse_setting(const YamlPlace& option, std::string_view what) {
  throw_input_error(option.location(), what, "write PATH=VALUE, such as optimizer.learning_rate=1e-4");
}

/// The value at the path in a tree of maps, made where it is missing.
YamlNode& value_at(YamlNode& root, std::string_view path, const YamlPlace& option) {
  if (static_cast<std::size_t>(std::ranges::count(path, '.')) >= kMaxYamlDepth) {
    refuse_setting(option, "there is no such setting");
  }
  YamlNode* node = &root;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    if (key.empty()) refuse_setting(option, "a part of its path is empty");
    if (node->kind == Kind::null) node->kind = Kind::map;
    if (node->kind != Kind::map) refuse_setting(option, fmt::format("the parent of {} is not a map", quote(key)));
    if (node->find(key) == nullptr) {
      node->keys.push_back({key, option});
      node->values.emplace_back().place = option;
    }
    node = node->find(key);
    if (dot == std::string_view::npos) return *node;
    path.remove_prefix(dot + 1);
  }
}

/// Throws InputError for TOML, recognized by its first line with content: `[section]`, `[[entry]]` or `name = value`.
void refuse_toml(std::string_view text, const std::string& source) {
  std::size_t begin = 0;
  while ((begin = std::min(text.find_first_not_of(" \t\r\n", begin), text.size())) < text.size() &&
         text[begin] == '#') {
    begin = std::min(text.find('\n', begin), text.size());
  }
  const std::size_t brackets = std::min(text.find_first_not_of('[', begin), text.size()) - begin;
  const std::string_view rest = text.substr(begin + brackets);
  const std::size_t end =
      std::min(rest.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"), rest.size());
  const std::size_t sign = std::min(rest.find_first_not_of(" \t", end), rest.size());
  if (end == 0 || sign == rest.size() || rest[sign] != (brackets == 0 ? '=' : ']')) return;
  const std::string name = printable(rest.substr(0, end), 40);
  throw_input_error(locate(text, begin, source), "this is TOML, and the file has to be YAML",
                    brackets == 0 ? fmt::format("write \"{}: VALUE\"", name)
                    : brackets == 1
                        ? fmt::format("write \"{}:\" and its settings on lines below it, indented with spaces", name)
                        : fmt::format("write \"{}:\" and each entry on lines below it, after \"  - \"", name));
}

void apply_setting(YamlNode& document, const std::string& setting) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const auto source = std::make_shared<YamlSource>();
  source->name = fmt::format("setting {}", quote(setting));
  source->has_lines = false;
  const YamlPlace option{source, 0};
  if (equals == setting.size()) refuse_setting(option, "there is no \"=\" in it");
  source->text = setting.substr(equals + 1);
  YamlNode value = parse_yaml(source);
  value_at(document, std::string_view(setting).substr(0, equals), option) = std::move(value);
}

}  // namespace

std::string yaml_quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 0x20;
    if (c == '"' || c == '\\') result += '\\';
    result += control ? fmt::format("\\x{:02x}", c) : std::string(1, c);
  }
  return result + '"';
}

YamlView YamlView::parse(std::string_view text, const std::string& source) { return parse(text, source, {}); }

std::shared_ptr<YamlNode> YamlView::parse_map(std::string_view text, const std::string& source, bool may_be_empty) {
  refuse_web_page(text, source);
  if (text.starts_with(kUtf8ByteOrderMark)) text.remove_prefix(kUtf8ByteOrderMark.size());
  refuse_toml(text, source);
  auto document = std::make_shared<YamlNode>(
      parse_yaml(std::make_shared<const YamlSource>(YamlSource{source, std::string(text), true})));
  const YamlView view(document, "");
  if (document->kind == Kind::null && may_be_empty) document->kind = Kind::map;
  if (!view.is_map()) view.fail("expected a map of settings", "write lines such as \"name: value\"");
  return document;
}

YamlView YamlView::parse(std::string_view text, const std::string& source, std::span<const std::string> settings) {
  const std::shared_ptr<YamlNode> document = parse_map(text, source, false);
  for (const std::string& setting : settings) apply_setting(*document, setting);
  return {document, ""};
}

YamlView YamlView::parse_with(std::string_view text, const std::string& source, std::span<const YamlSetting> settings) {
  const std::shared_ptr<YamlNode> document = parse_map(text, source, false);
  for (const YamlSetting& setting : settings) {
    const YamlPlace place{std::make_shared<const YamlSource>(YamlSource{setting.origin, setting.value, false}), 0};
    YamlNode scalar;
    scalar.kind = Kind::scalar;
    scalar.place = place;
    scalar.scalar = setting.value;
    value_at(*document, setting.path, place) = std::move(scalar);
  }
  return {document, ""};
}

YamlView YamlView::parse_or_empty(std::string_view text, const std::string& source) {
  return {parse_map(text, source, true), ""};
}

void YamlView::fail(std::string_view what, std::string_view fix) const {
  // `--tp 8` says where it is without its path.
  const YamlSource& source = *node_->place.source;
  const bool is_option = !source.has_lines && !node_->scalar.empty() && source.name.ends_with(node_->scalar);
  throw_input_error(node_->place.location(),
                    path_.empty() || is_option ? std::string(what) : fmt::format("{}: {}", path_, what), fix);
}

std::string YamlView::joined(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

bool YamlView::is_map() const { return node_->kind == Kind::map; }
bool YamlView::is_list() const { return node_->kind == Kind::list; }
bool YamlView::is_text() const {
  const std::string& text = node_->scalar;
  return node_->kind == Kind::scalar && (node_->quoted || (!parse_number(text) && text != "true" && text != "false"));
}

std::vector<std::string> YamlView::keys() const {
  std::vector<std::string> keys;
  for (const YamlNode::Key& key : node_->keys) keys.push_back(key.name);
  return keys;
}

bool YamlView::has(std::string_view key) const {
  const YamlNode* member = node_->find(key);
  return member != nullptr && member->kind != Kind::null;
}

YamlView YamlView::at(std::string_view key) const {
  if (!is_map()) fail(fmt::format("expected a map with {}, not {}", quote(key), kind_of(*node_)));
  const YamlNode* member = node_->find(key);
  if (member == nullptr) fail(fmt::format("{} is missing", quote(key)));
  YamlView view(std::shared_ptr<const YamlNode>(node_, member), joined(key));
  if (member->kind == Kind::null) view.fail("a value is missing");
  return view;
}

YamlView YamlView::map_or_empty(std::string_view key) const {
  if (has(key)) {
    YamlView view = at(key);
    if (!view.is_map()) view.fail(fmt::format("expected a map, not {}", kind_of(*view.node_)));
    return view;
  }
  const auto empty = std::make_shared<YamlNode>();
  empty->kind = Kind::map;
  empty->place = node_->place;
  return {empty, joined(key)};
}

std::size_t YamlView::size() const {
  if (!is_list()) fail(fmt::format("expected a list, not {}", kind_of(*node_)));
  return node_->values.size();
}

YamlView YamlView::at(std::size_t index) const {
  if (index >= size()) fail(fmt::format("there is no element {}", index));
  return {std::shared_ptr<const YamlNode>(node_, &node_->values[index]), fmt::format("{}[{}]", path_, index)};
}

std::string YamlView::scalar(std::string_view expected) const {
  if (node_->kind != Kind::scalar) fail(fmt::format("expected {}, not {}", expected, kind_of(*node_)));
  return node_->scalar;
}

std::string YamlView::unquoted(std::string_view expected) const {
  std::string text = scalar(expected);
  if (node_->quoted) fail(fmt::format("expected {}, not the text {}", expected, quote(text)), "remove the quotes");
  return text;
}

std::string YamlView::text() const {
  const std::string expected = "a text";
  std::string text = scalar(expected);
  if (text.empty()) fail(fmt::format("expected {}, not \"\"", expected));
  return text;
}

std::filesystem::path YamlView::path() const {
  const std::string path = text();
  if (path.ends_with('\n')) fail("the path ends with a newline", "write it without | and >, or with |-");
  return path;
}

bool YamlView::boolean() const {
  const std::string text = unquoted("true or false");
  if (text != "true" && text != "false") fail(fmt::format("expected true or false, not {}", quote(text)));
  return text == "true";
}

std::int64_t YamlView::integer_in(std::int64_t low, std::int64_t high) const {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  const std::string text = unquoted(expected);
  const std::optional<long long> number = parse_integer(text);
  if (!number || *number < low || *number > high) fail(fmt::format("expected {}, not {}", expected, quote(text)));
  return *number;
}

double YamlView::number_in(double low, double high) const {
  const std::string expected = fmt::format("a number from {} to {}", low, high);
  const std::string text = unquoted(expected);
  const std::optional<double> number = parse_number(text);
  if (!number || *number < low || *number > high) fail(fmt::format("expected {}, not {}", expected, quote(text)));
  return *number;
}

void YamlView::require_only(std::initializer_list<std::string_view> keys) const {
  require_only(std::span(keys.begin(), keys.size()));
}

void YamlView::require_only(std::span<const std::string_view> keys) const {
  if (!is_map()) fail(fmt::format("expected a map, not {}", kind_of(*node_)));
  for (const YamlNode::Key& key : node_->keys) {
    if (std::ranges::find(keys, key.name) != keys.end()) continue;
    const auto meant = nearest_name(key.name, keys);
    throw_input_error(
        key.place.location(), fmt::format("{}{} is not a setting", path_.empty() ? "" : path_ + ": ", quote(key.name)),
        meant ? fmt::format("did you mean {}?", *meant) : fmt::format("there are {}", fmt::join(keys, ", ")));
  }
}

}  // namespace lowgear
