#include "estimating/model/config_json.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"

namespace lowgear::model {
namespace {

/// A config.json has some fifty members; id2label and the like may have as many more.
constexpr std::size_t kMaxValues = std::size_t{1} << 16;

std::string written_scalar(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class JsonMembers final : public ConfigMembers {
 public:
  JsonMembers(JsonView object, std::string_view expected) : object_(std::move(object)) {
    if (!object_.json().is_object()) object_.fail(expected);
  }

  [[nodiscard]] std::vector<std::string> keys() const override {
    std::vector<std::string> keys;
    for (const auto& member : object_.json().items()) keys.push_back(member.key());
    return keys;
  }
  [[nodiscard]] bool has(std::string_view key) const override {
    return object_.has(key) && !object_.at(key).json().is_null();
  }
  [[nodiscard]] std::int64_t integer(std::string_view key) const override { return object_.at(key).integer(); }
  [[nodiscard]] double number(std::string_view key) const override { return object_.at(key).number(); }
  [[nodiscard]] std::string text(std::string_view key) const override { return object_.at(key).text(); }
  [[nodiscard]] bool boolean(std::string_view key) const override { return object_.at(key).boolean(); }
  [[nodiscard]] std::vector<std::string> texts(std::string_view key) const override {
    const JsonView list = object_.at(key);
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < list.size(); ++i) texts.push_back(list.at(i).text());
    return texts;
  }
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const override {
    const JsonView list = object_.at(key);
    std::vector<std::int64_t> values;
    for (std::size_t i = 0; i < list.size(); ++i) values.push_back(list.at(i).integer());
    return values;
  }
  [[nodiscard]] std::unique_ptr<ConfigMembers> object(std::string_view key) const override {
    return std::make_unique<JsonMembers>(object_.at(key), "expected an object or null");
  }
  [[nodiscard]] std::string written(std::string_view key) const override {
    const Json& value = object_.at(key).json();
    if (!value.is_structured() || value.empty()) return written_scalar(value);
    const bool one = value.is_array() && value.size() == 1 && !value[0].is_structured();
    return one ? written_scalar(value[0]) : "...";
  }
  [[noreturn]] void fail(std::string_view key, std::string_view what, std::string_view fix) const override {
    object_.at(key).fail(what, fix);
  }

 private:
  JsonView object_;
};

/// Offset of a member of the object that begins at `begin` in valid JSON text; npos if it has none of this name.
std::size_t find_member(std::string_view text, std::size_t begin, std::string_view key) {
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '{' || text[i] == '[') ++depth;
    if (text[i] == '}' || text[i] == ']') --depth;
    if (depth == 0) break;
    if (text[i] != '"') continue;
    std::size_t end = i + 1;
    while (text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    const std::size_t next = text.find_first_not_of(" \t\r\n", end + 1);
    if (depth == 1 && text[next] == ':' && text.substr(i + 1, end - i - 1) == key) return i;
    i = end;
  }
  return std::string_view::npos;
}

/// Line and column of the member that the path at the beginning of `problem` leads to (`$.rope_scaling.factor: ...`),
/// or of the innermost object or list on its way that is found.
SourceLocation place_of(std::string_view problem, std::string_view text, const std::string& source) {
  const std::string_view path = problem.substr(0, problem.find(": "));
  std::size_t place = text.find('{');
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos && place < text.size();) {
    const std::size_t next = path.find('.', dot + 1);
    const std::string_view key = path.substr(dot + 1, next - dot - 1);
    const std::size_t member = find_member(text, text.find('{', place), key.substr(0, key.find('[')));
    if (member == std::string_view::npos) break;
    place = member;
    dot = next;
  }
  if (place >= text.size()) return {source, 0, 0};
  const std::string_view before = text.substr(0, place);
  const auto line = 1 + std::ranges::count(before, '\n');
  return {source, static_cast<int>(line), static_cast<int>(place - (before.rfind('\n') + 1)) + 1};
}

void add_place(Verdict& verdict, std::string_view text) {
  if (!verdict && verdict.where.line == 0) verdict.where = place_of(verdict.problem, text, verdict.where.source);
}

}  // namespace

ModelConfig parse_model_config(std::string_view json, const std::string& source) {
  const Json document = parse_json(json, source, kMaxValues);
  try {
    ModelConfig config = read_model_config(
        JsonMembers(JsonView(document, source), "expected an object, the config.json of a model"), source);
    add_place(config.supported_members, json);
    add_place(config.trained_members, json);
    return config;
  } catch (const LocatedError& error) {
    if (error.where().line > 0 || !document.is_object()) throw;
    throw_input_error(place_of(error.problem(), json, error.where().source), error.problem());
  }
}

ModelConfig parse_trainable_config(std::string_view json, const std::string& source) {
  ModelConfig config = parse_model_config(json, source);
  trainable(config).require();
  return config;
}

}  // namespace lowgear::model
