#include "base/core/formats/json_members.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/core/error.h"
#include "base/core/suggestion.h"

namespace lowgear {

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

double number_in(const JsonView& value, double low, double high) {
  const double number = value.number();
  if (number < low || number > high)
    value.fail(fmt::format("expected a number from {} to {}, not {}", low, high, number));
  return number;
}

bool has_value(const JsonView& object, std::string_view key) {
  return object.has(key) && !object.at(key).json().is_null();
}

}  // namespace lowgear
