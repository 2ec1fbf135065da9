#include "base/core/formats/toml.h"

#include <fmt/format.h>
// toml++ 3.3 asserts that keys start as they should before it reports those that do not (`[@x]`): a mistake in a file
// is no assertion.
#define TOML_ASSERT(expression) static_cast<void>(0)  // NOLINT(cppcoreguidelines-macro-usage): theirs
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <variant>

#include "base/core/text.h"

namespace lowgear {

/// A value and where it stands.
struct TomlValue {
  struct Other {};  ///< a date or time, which no setting is
  using List = std::vector<TomlValue>;
  using Table = std::map<std::string, TomlValue, std::less<>>;

  std::variant<Other, bool, double, std::string, List, Table> content;
  int line = 0;
  int column = 0;
};

namespace {

constexpr int kMaxDotsOfALine = 256;

TomlValue copy_of(const toml::node& node) {
  const toml::source_position where = node.source().begin;
  TomlValue value{{}, static_cast<int>(where.line), static_cast<int>(where.column)};
  if (const toml::table* table = node.as_table()) {
    TomlValue::Table members;
    for (const auto& [key, member] : *table) members.emplace(std::string(key.str()), copy_of(member));
    value.content = std::move(members);
  } else if (const toml::array* array = node.as_array()) {
    TomlValue::List elements;
    for (const toml::node& element : *array) elements.push_back(copy_of(element));
    value.content = std::move(elements);
  } else if (node.is_string()) {
    value.content = *node.value<std::string>();
  } else if (node.is_boolean()) {
    value.content = *node.value<bool>();
  } else if (const toml::value<std::int64_t>* whole = node.as_integer()) {
    value.content = static_cast<double>(whole->get());
  } else if (const toml::value<double>* number = node.as_floating_point()) {
    value.content = number->get();
  }
  return value;
}

/// toml++ 3.3 does not cope with every character beyond ASCII (it calls some unreachable).
void require_ascii(std::string_view text, const std::string& source) {
  const auto odd =
      std::ranges::find_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0x80U) != 0; });
  if (odd == text.end()) return;
  throw_input_error(locate(text, static_cast<std::size_t>(odd - text.begin()), source), "a character beyond ASCII",
                    "write it as \\uXXXX within a text in quotes");
}

/// toml++ 3.3 bounds how deep values are nested, but not `a.a.a = 1`, whose tables it frees by recursion.
void require_shallow(std::string_view text, const std::string& source) {
  int dots = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') dots = 0;
    if (text[i] == '.') ++dots;
    if (dots <= kMaxDotsOfALine) continue;
    throw_input_error(locate(text, i, source), fmt::format("more than {} dots in a line", kMaxDotsOfALine),
                      "tables are nested too deeply");
  }
}

}  // namespace

TomlTable TomlTable::parse(std::string_view text, const std::string& source) {
  require_ascii(text, source);
  require_shallow(text, source);
  try {
    return {std::make_shared<const TomlValue>(copy_of(toml::parse(text, source))), "", source};
  } catch (const toml::parse_error& error) {
    const toml::source_position where = error.source().begin;
    throw_input_error({source, static_cast<int>(where.line), static_cast<int>(where.column)},
                      printable(error.description()));
  }
}

const TomlValue* TomlTable::find(std::string_view key) {
  known_.emplace(key);
  const auto& members = std::get<TomlValue::Table>(table_->content);
  const auto found = members.find(key);
  return found == members.end() ? nullptr : &found->second;
}

std::string TomlTable::path(std::string_view key) const {
  return name_.empty() ? quote(key) : quote(fmt::format("{}.{}", name_, printable(key, 40)));
}

void TomlTable::fail(const TomlValue& value, std::string_view what) const {
  throw_input_error({source_, value.line, value.column}, what);
}

void TomlTable::fail(std::string_view what) const { fail(*table_, what); }

void TomlTable::fail_at(std::string_view key, std::string_view what) const {
  const auto& members = std::get<TomlValue::Table>(table_->content);
  const auto found = members.find(key);
  fail(found == members.end() ? *table_ : found->second, what);
}

std::optional<double> TomlTable::number_in(std::string_view key, double low, double high) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double* const number = std::get_if<double>(&value->content);
  if (number == nullptr || !(*number >= low && *number <= high)) {
    fail(*value, fmt::format("{} has to be a number from {} to {}", path(key), low, high));
  }
  return *number;
}

std::optional<int> TomlTable::integer_in(std::string_view key, int low, int high) {
  const std::optional<double> value = number_in(key, low, high);
  if (!value) return std::nullopt;
  if (*value != std::trunc(*value)) fail_at(key, fmt::format("{} has to be a whole number", path(key)));
  return static_cast<int>(*value);
}

std::optional<std::string> TomlTable::text(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* const text = std::get_if<std::string>(&value->content);
  if (text == nullptr) fail(*value, fmt::format("{} has to be a text in quotes", path(key)));
  return *text;
}

std::optional<mode_t> TomlTable::file_mode(std::string_view key) {
  const std::optional<std::string> digits = text(key);
  if (!digits) return std::nullopt;
  const bool octal = digits->size() >= 3 && digits->size() <= 4 &&
                     std::ranges::all_of(*digits, [](char digit) { return digit >= '0' && digit <= '7'; });
  if (!octal) fail_at(key, fmt::format("{} is a mode, written like \"0660\"", path(key)));
  mode_t mode = 0;
  for (const char digit : *digits) mode = mode * 8 + static_cast<mode_t>(digit - '0');
  return mode & 0777U;
}

std::optional<bool> TomlTable::boolean(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool* const flag = std::get_if<bool>(&value->content);
  if (flag == nullptr) fail(*value, fmt::format("{} has to be true or false", path(key)));
  return *flag;
}

std::vector<std::string> TomlTable::texts(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return {};
  if (const auto* const text = std::get_if<std::string>(&value->content)) return {*text};
  const auto* const list = std::get_if<TomlValue::List>(&value->content);
  if (list == nullptr) fail(*value, fmt::format("{} has to be a text or a list of texts", path(key)));
  std::vector<std::string> words;
  for (const TomlValue& element : *list) {
    const auto* const word = std::get_if<std::string>(&element.content);
    if (word == nullptr) fail(element, fmt::format("{} has to be a list of texts", path(key)));
    words.push_back(*word);
  }
  return words;
}

TomlTable TomlTable::table(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) {
    const TomlValue empty{TomlValue::Table{}, table_->line, table_->column};
    return {std::make_shared<const TomlValue>(empty), std::string(key), source_};
  }
  if (!std::holds_alternative<TomlValue::Table>(value->content)) {
    fail(*value, fmt::format("{0} has to be a table: [{0}]", key));
  }
  return {std::shared_ptr<const TomlValue>(table_, value), std::string(key), source_};
}

std::vector<TomlTable> TomlTable::tables(std::string_view key) {
  const TomlValue* value = find(key);
  if (value == nullptr) return {};
  const auto* const list = std::get_if<TomlValue::List>(&value->content);
  const auto is_table = [](const TomlValue& each) { return std::holds_alternative<TomlValue::Table>(each.content); };
  if (list == nullptr || list->empty() || !std::ranges::all_of(*list, is_table)) {
    fail(*value, fmt::format("write [[{0}]] for each {0}", key));
  }
  std::vector<TomlTable> result;
  for (const TomlValue& element : *list) {
    result.push_back({std::shared_ptr<const TomlValue>(table_, &element), std::string(key), source_});
  }
  return result;
}

void TomlTable::finish() const {
  for (const auto& [unknown, value] : std::get<TomlValue::Table>(table_->content)) {
    if (known_.contains(unknown)) continue;
    const std::vector<std::string_view> known(known_.begin(), known_.end());
    const auto meant = nearest_name(unknown, known);
    fail(value, meant ? fmt::format("there is no {}; did you mean {}?", path(unknown), quote(*meant))
                      : fmt::format("there is no {}; there are {}", path(unknown), fmt::join(known, ", ")));
  }
}

}  // namespace lowgear
