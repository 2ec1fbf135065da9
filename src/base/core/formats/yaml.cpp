#include "base/core/formats/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/csv.h"
#include "base/core/numbers/number.h"
#include "base/core/suggestion.h"
#include "base/core/utf8.h"

namespace lowgear {
namespace {

using Kind = YamlNode::Kind;

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

void apply_setting(YamlNode& document, const std::string& setting) {
  const std::size_t equals = std::min(setting.find('='), setting.size());
  const auto source = std::make_shared<YamlSource>();
  source->name = fmt::format("--set {}", quote(setting));
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

std::shared_ptr<YamlNode> YamlView::parse_map(std::string_view text, const std::string& source) {
  refuse_web_page(text, source);
  if (text.starts_with(kUtf8ByteOrderMark)) text.remove_prefix(kUtf8ByteOrderMark.size());
  auto document = std::make_shared<YamlNode>(
      parse_yaml(std::make_shared<const YamlSource>(YamlSource{source, std::string(text), true})));
  const YamlView view(document, "");
  if (!view.is_map()) view.fail("expected a map of settings", "write lines such as \"steps: 100\"");
  return document;
}

YamlView YamlView::parse(std::string_view text, const std::string& source, std::span<const std::string> settings) {
  const std::shared_ptr<YamlNode> document = parse_map(text, source);
  for (const std::string& setting : settings) apply_setting(*document, setting);
  return {document, ""};
}

YamlView YamlView::parse_with(std::string_view text, const std::string& source, std::span<const YamlSetting> settings) {
  const std::shared_ptr<YamlNode> document = parse_map(text, source);
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

void YamlView::fail(std::string_view what, std::string_view fix) const {
  throw_input_error(node_->place.location(), path_.empty() ? std::string(what) : fmt::format("{}: {}", path_, what),
                    fix);
}

std::string YamlView::joined(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

bool YamlView::is_map() const { return node_->kind == Kind::map; }
bool YamlView::is_list() const { return node_->kind == Kind::list; }

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

std::string YamlView::text() const {
  const std::string expected = "a text";
  std::string text = scalar(expected);
  if (text.empty()) fail(fmt::format("expected {}, not \"\"", expected));
  return text;
}

bool YamlView::boolean() const {
  const std::string text = scalar("true or false");
  if (text != "true" && text != "false") fail(fmt::format("expected true or false, not {}", quote(text)));
  return text == "true";
}

std::int64_t YamlView::integer_in(std::int64_t low, std::int64_t high) const {
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  const std::string text = scalar(expected);
  const std::optional<long long> number = parse_integer(text);
  if (!number || *number < low || *number > high) fail(fmt::format("expected {}, not {}", expected, quote(text)));
  return *number;
}

double YamlView::number_in(double low, double high) const {
  const std::string expected = fmt::format("a number from {} to {}", low, high);
  const std::string text = scalar(expected);
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
