/// Reads any text as a YAML document and looks at all of it. The first line, unless it is empty, is a setting that goes
/// into the document.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/yaml.h"
#include "checks.h"

namespace {

void check(const lowgear::YamlNode& node, std::size_t depth) {
  require(depth <= lowgear::kMaxYamlDepth);
  require(node.place.offset <= node.place.source->text.size());
  require((node.kind == lowgear::YamlNode::Kind::map) || node.keys.empty());
  require(node.keys.empty() || node.keys.size() == node.values.size());
  for (std::size_t i = 0; i < node.keys.size(); ++i) require(node.find(node.keys[i].name) == &node.values[i]);
  for (const lowgear::YamlNode& value : node.values) check(value, depth + 1);
}

void read_as_settings(std::string_view text, const std::vector<std::string>& settings) {
  const lowgear::YamlView view = lowgear::YamlView::parse(text, "f.yaml", settings);
  if (view.has("a")) {
    const lowgear::YamlView a = view.at("a");
    (void)(a.is_list() ? a.at(0).boolean() : a.at("b").number_in(-1, 1) > 0);
  }
  view.require_only({"a", "steps", "model"});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  const std::string_view first = text.substr(0, text.find('\n'));
  const std::string_view rest = text.substr(std::min(first.size() + 1, text.size()));
  try {
    check(lowgear::parse_yaml(std::make_shared<lowgear::YamlSource>(lowgear::YamlSource{"f.yaml", std::string(rest)})),
          0);
    read_as_settings(rest, first.empty() ? std::vector<std::string>() : std::vector{std::string(first)});
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
