#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

/// Longest text that a document may hold where a name is expected.
inline constexpr std::size_t kMaxNameBytes = 200;

/// Throws InputError at a member that is none of these, naming the nearest of them; also when this is no object.
void require_members(const JsonView& object, std::initializer_list<std::string_view> known);

/// Text of 1 to kMaxNameBytes bytes of printable UTF-8. Throws InputError.
[[nodiscard]] std::string name_text(const JsonView& value);

/// A number in [low, high]. Throws InputError.
[[nodiscard]] double number_in(const JsonView& value, double low, double high);

/// Whether the object has the member and it is not null.
[[nodiscard]] bool has_value(const JsonView& object, std::string_view key);

/// `object` as text with one more member, whose JSON text needs no parsing: plans have thousands of values.
[[nodiscard]] std::string with_member(const Json& object, std::string_view name, std::string_view json);

/// The document in one line; bytes that are no UTF-8 are replaced, as names are the user's.
[[nodiscard]] std::string json_text(const Json& document);

}  // namespace lowgear::protocol
