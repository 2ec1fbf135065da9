#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/core/formats/json.h"

namespace lowgear::protocol {

/// Longest text that a document may hold where a name is expected.
inline constexpr std::size_t kMaxNameBytes = 200;

/// Text of 1 to `most_bytes` bytes of printable UTF-8. Throws InputError.
[[nodiscard]] std::string printable_text(const JsonView& value, std::size_t most_bytes);
/// The same of at most kMaxNameBytes.
[[nodiscard]] std::string name_text(const JsonView& value);

/// Seconds since 1970, for timetables. Throws InputError, also where they must be milliseconds.
[[nodiscard]] double calendar_time_s(const JsonView& value);

/// `object` as text with one more member, whose JSON text needs no parsing: plans have thousands of values.
[[nodiscard]] std::string with_member(const Json& object, std::string_view name, std::string_view json);

/// The document in one line; bytes that are no UTF-8 are replaced, as names are the user's.
[[nodiscard]] std::string json_text(const Json& document);

}  // namespace lowgear::protocol
