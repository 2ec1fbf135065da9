#include "control/protocol/json_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/core/error.h"
#include "base/core/suggestion.h"

namespace lowgear::protocol {

void require_members(const JsonView& object, std::initializer_list<std::string_view> known) {
  if (!object.json().is_object()) object.fail("expected an object");
  const std::vector<std::string_view> names(known);
  for (const auto& [key, value] : object.json().items()) {
    if (std::ranges::find(names, key) != names.end()) continue;
    const auto nearest = nearest_name(key, names);
    object.fail(fmt::format("there is no member {}", quote(key)),
                nearest ? fmt::format("did you mean {}?", quote(*nearest)) : std::string());
  }
}

std::string name_text(const JsonView& value) {
  std::string text = value.text();
  if (text.empty() || text.size() > kMaxNameBytes) {
    value.fail(fmt::format("expected a text of 1 to {} bytes, not one of {}", kMaxNameBytes, text.size()));
  }
  if (printable(text, text.size()) != text) value.fail("has characters that cannot be printed");
  return text;
}

double number_in(const JsonView& value, double low, double high) {
  const double number = value.number();
  if (number < low || number > high)
    value.fail(fmt::format("expected a number from {} to {}, not {}", low, high, number));
  return number;
}

bool has_value(const JsonView& object, std::string_view key) {
  return object.has(key) && !object.at(key).json().is_null();
}

std::string with_member(const Json& object, std::string_view name, std::string_view json) {
  std::string text = object.dump();
  text.pop_back();
  text += fmt::format(R"(,"{}":)", name);
  text += json;
  text += '}';
  return text;
}

double positive_or_zero(const JsonView& value) { return value.json().is_null() ? 0 : value.number(); }

std::string json_text(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace lowgear::protocol
