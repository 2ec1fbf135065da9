#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"

namespace lowgear {

/// Throws InputError at a member that is none of these, naming the nearest of them; also when this is no object.
void require_members(const JsonView& object, std::initializer_list<std::string_view> known);

/// Whether the object has the member and it is not null.
[[nodiscard]] bool has_value(const JsonView& object, std::string_view key);

/// A number in [low, high]. Throws InputError.
[[nodiscard]] double number_in(const JsonView& value, double low, double high);

/// Sets a member where there is a value; without one the object does not get it.
template <typename Value>
void set_if(Json& object, std::string_view key, const std::optional<Value>& value) {
  if (value) object[std::string(key)] = *value;
}

}  // namespace lowgear
