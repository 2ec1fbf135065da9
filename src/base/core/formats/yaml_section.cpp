#include "base/core/formats/yaml_section.h"

#include <algorithm>

namespace lowgear {
namespace {

std::string text_of(const YamlView& view) {
  if (!view.is_text()) view.fail("expected a text in quotes");
  return view.text();
}

}  // namespace

YamlSection YamlSection::parse(std::string_view text, const std::string& source) {
  return YamlSection(YamlView::parse_or_empty(text, source));
}

std::optional<YamlView> YamlSection::find(std::string_view key) {
  known_.emplace(key);
  const std::vector<std::string> keys = map_.keys();
  if (std::ranges::find(keys, key) == keys.end()) return std::nullopt;
  return map_.at(key);
}

std::optional<double> YamlSection::number_in(std::string_view key, double low, double high) {
  const std::optional<YamlView> value = find(key);
  return value ? std::optional(value->number_in(low, high)) : std::nullopt;
}

std::optional<int> YamlSection::integer_in(std::string_view key, int low, int high) {
  const std::optional<YamlView> value = find(key);
  return value ? std::optional(static_cast<int>(value->integer_in(low, high))) : std::nullopt;
}

std::optional<std::string> YamlSection::text(std::string_view key) {
  const std::optional<YamlView> value = find(key);
  return value ? std::optional(text_of(*value)) : std::nullopt;
}

std::optional<std::filesystem::path> YamlSection::path(std::string_view key) {
  if (!text(key)) return std::nullopt;
  return map_.at(key).path();
}

std::optional<mode_t> YamlSection::file_mode(std::string_view key) {
  const std::optional<YamlView> value = find(key);
  if (!value) return std::nullopt;
  const std::string digits = value->is_text() ? value->text() : "";
  const bool octal = digits.size() >= 3 && digits.size() <= 4 &&
                     std::ranges::all_of(digits, [](char digit) { return digit >= '0' && digit <= '7'; });
  if (!octal) value->fail("expected a mode in quotes, such as \"0660\"");
  mode_t mode = 0;
  for (const char digit : digits) mode = mode * 8 + static_cast<mode_t>(digit - '0');
  return mode & 0777U;
}

std::optional<bool> YamlSection::boolean(std::string_view key) {
  const std::optional<YamlView> value = find(key);
  return value ? std::optional(value->boolean()) : std::nullopt;
}

std::vector<std::string> YamlSection::texts(std::string_view key) {
  const std::optional<YamlView> value = find(key);
  if (!value) return {};
  if (!value->is_list()) return {text_of(*value)};
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < value->size(); ++i) texts.push_back(text_of(value->at(i)));
  return texts;
}

YamlSection YamlSection::section(std::string_view key) {
  known_.emplace(key);
  return YamlSection(map_.map_or_empty(key));
}

std::vector<YamlSection> YamlSection::sections(std::string_view key) {
  known_.emplace(key);
  if (!map_.has(key)) return {};
  const YamlView list = map_.at(key);
  std::vector<YamlSection> sections;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const YamlView entry = list.at(i);
    if (!entry.is_map()) entry.fail("expected a map, such as \"- NAME: VALUE\"");
    sections.push_back(YamlSection(entry));
  }
  return sections;
}

void YamlSection::finish() const { map_.require_only(std::vector<std::string_view>(known_.begin(), known_.end())); }

void YamlSection::fail_at(std::string_view key, std::string_view what) const {
  if (map_.has(key)) map_.at(key).fail(what);
  fail(what);
}

}  // namespace lowgear
