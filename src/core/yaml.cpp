#include "core/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/number.h"
#include "core/suggestion.h"

namespace lowgear {
namespace {

/// yaml-cpp counts lines and columns from 0, and says -1 where it does not know.
SourceLocation location(const YAML::Mark& mark, const std::string& source) {
  return mark.is_null() ? SourceLocation{source, 0, 0} : SourceLocation{source, mark.line + 1, mark.column + 1};
}

void require_unique_keys(const YAML::Node& map, const std::string& source) {
  std::set<std::string> seen;
  for (const auto& member : map) {
    if (!member.first.IsScalar()) throw_input_error(location(member.first.Mark(), source), "a key is not a word");
    const std::string& key = member.first.Scalar();
    if (!seen.insert(key).second) {
      throw_input_error(location(member.first.Mark(), source), fmt::format("{} stands here twice", quote(key)),
                        "keep one of them");
    }
  }
}

std::string kind_of(const YAML::Node& node) {
  if (node.IsMap()) return "a map";
  if (node.IsSequence()) return "a list";
  if (node.IsScalar()) return quote(node.Scalar());
  return "nothing";
}

/// Sets the value at the path in a tree of maps; `node` may be undefined so far.
void set_value(YAML::Node node, std::string_view path, const YAML::Node& value, const std::string& setting) {
  const std::size_t dot = path.find('.');
  const std::string key(path.substr(0, dot));
  if (key.empty() || (node.IsDefined() && !node.IsNull() && !node.IsMap())) {
    throw InputError(fmt::format("--set {}: there is no such setting", quote(setting)));
  }
  if (dot == std::string_view::npos) {
    node[key] = value;
    return;
  }
  set_value(node[key], path.substr(dot + 1), value, setting);
}

void apply_setting(YAML::Node& document, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) {
    throw InputError(fmt::format("--set {}: write PATH=VALUE, such as optimizer.learning_rate=1e-4", quote(setting)));
  }
  YAML::Node value;
  try {
    value = YAML::Load(setting.substr(equals + 1));
  } catch (const YAML::Exception& error) {
    throw InputError(fmt::format("--set {}: {}", quote(setting), error.what()));
  }
  set_value(document, std::string_view(setting).substr(0, equals), value, setting);
}

}  // namespace

struct YamlView::Node {
  YAML::Node yaml;
};

YamlView::YamlView(std::shared_ptr<const Node> node, std::string source, std::string path)
    : node_(std::move(node)), source_(std::move(source)), path_(std::move(path)) {}

YamlView YamlView::parse(std::string_view text, const std::string& source) { return parse(text, source, {}); }

YamlView YamlView::parse(std::string_view text, const std::string& source, std::span<const std::string> settings) {
  if (text.size() > kMaxYamlBytes) {
    throw_input_error({source, 0, 0}, fmt::format("{} bytes are more than any configuration has", text.size()));
  }
  YAML::Node document;
  try {
    document = YAML::Load(std::string(text));
  } catch (const YAML::ParserException& error) {
    throw_input_error(location(error.mark, source), error.msg);
  } catch (const YAML::Exception& error) {
    throw_input_error(location(error.mark, source), error.msg);
  }
  YamlView view(std::make_shared<Node>(Node{document}), source, "");
  if (!document.IsMap()) view.fail("this is no map of settings", "write lines such as \"steps: 100\"");
  require_unique_keys(document, source);
  for (const std::string& setting : settings) apply_setting(document, setting);
  return view;
}

void YamlView::fail(std::string_view what, std::string_view fix) const {
  throw_input_error(location(node_->yaml.Mark(), source_),
                    path_.empty() ? std::string(what) : fmt::format("{}: {}", path_, what), fix);
}

bool YamlView::is_map() const { return node_->yaml.IsMap(); }
bool YamlView::is_list() const { return node_->yaml.IsSequence(); }

bool YamlView::has(std::string_view key) const {
  if (!node_->yaml.IsMap()) return false;
  const YAML::Node member = node_->yaml[std::string(key)];
  return member.IsDefined() && !member.IsNull();
}

YamlView YamlView::at(std::string_view key) const {
  if (!node_->yaml.IsMap()) fail(fmt::format("expected a map with {}, not {}", quote(key), kind_of(node_->yaml)));
  if (!has(key)) fail(fmt::format("{} is missing", quote(key)));
  const YAML::Node member = node_->yaml[std::string(key)];
  if (member.IsMap()) require_unique_keys(member, source_);
  return {std::make_shared<Node>(Node{member}), source_,
          path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key)};
}

std::size_t YamlView::size() const {
  if (!is_list()) fail(fmt::format("expected a list, not {}", kind_of(node_->yaml)));
  return node_->yaml.size();
}

YamlView YamlView::at(std::size_t index) const {
  if (index >= size()) fail(fmt::format("there is no element {}", index));
  const YAML::Node element = node_->yaml[index];
  if (element.IsMap()) require_unique_keys(element, source_);
  return {std::make_shared<Node>(Node{element}), source_, fmt::format("{}[{}]", path_, index)};
}

std::string YamlView::scalar(std::string_view expected) const {
  if (!node_->yaml.IsScalar()) fail(fmt::format("expected {}, not {}", expected, kind_of(node_->yaml)));
  return node_->yaml.Scalar();
}

std::string YamlView::text() const { return scalar("a text"); }

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
  if (!is_map()) fail(fmt::format("expected a map, not {}", kind_of(node_->yaml)));
  for (const auto& member : node_->yaml) {
    const std::string& key = member.first.Scalar();
    if (std::ranges::find(keys, key) != keys.end()) continue;
    const auto meant = nearest_name(key, std::span(keys.begin(), keys.size()));
    std::vector<std::string_view> all(keys);
    throw_input_error(
        location(member.first.Mark(), source_),
        fmt::format("{}{} is no setting", path_.empty() ? "" : path_ + ": ", quote(key)),
        meant ? fmt::format("did you mean {}?", *meant) : fmt::format("there are {}", fmt::join(all, ", ")));
  }
}

}  // namespace lowgear
