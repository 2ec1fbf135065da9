#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear {

using Json = nlohmann::ordered_json;

/// The value, or null if it is absent: the member is always written, so that readers need no check.
template <typename Value>
[[nodiscard]] Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

/// Deepest nesting of arrays and objects that is read, so that a malicious file cannot exhaust the stack.
inline constexpr std::size_t kMaxJsonDepth = 64;

/// Default limit on the values of a document, which bounds the memory that a malicious file can use.
inline constexpr std::size_t kMaxJsonValues = std::size_t{1} << 25;

/// Parses JSON text (RFC 8259, with an optional UTF-8 BOM). Throws InputError with file, line and column on a syntax
/// error, a number beyond the range of a double, a duplicate key, nesting deeper than kMaxJsonDepth, or more than
/// `max_values` values.
[[nodiscard]] Json parse_json(std::string_view text, const std::string& source,
                              std::size_t max_values = kMaxJsonValues);

/// A cursor into a parsed document that knows its path, so that a wrong value is reported as
/// `plan.json: $.stages[2].ops[5].mhz: expected a whole number, not "fast"`. Does not own the document.
class JsonView {
 public:
  JsonView(const Json& value, std::string source, std::string path = "$");
  JsonView(const Json&& value, std::string source, std::string path = "$") = delete;  ///< it would refer to nothing

  /// The named member; throws InputError when this is no object or lacks it.
  [[nodiscard]] JsonView at(std::string_view key) const;
  /// The element; throws InputError when this is no array or has no such element.
  [[nodiscard]] JsonView at(std::size_t index) const;
  /// Whether this is an object that has the member.
  [[nodiscard]] bool has(std::string_view key) const;
  /// Number of elements; throws InputError when this is no array.
  [[nodiscard]] std::size_t size() const;

  [[nodiscard]] double number() const;                    ///< finite
  [[nodiscard]] long long integer() const;                ///< a whole number
  [[nodiscard]] int integer_in(int low, int high) const;  ///< a whole number in [low, high]
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool boolean() const;
  /// The value itself, for walking through the members of an object, which `at` would search for one by one.
  [[nodiscard]] const Json& json() const { return *value_; }

  /// Throws InputError at this value.
  [[noreturn]] void fail(std::string_view what, std::string_view fix = {}) const;

 private:
  [[noreturn]] void fail_kind(std::string_view expected) const;

  const Json* value_;
  std::string source_;
  std::string path_;
};

/// Throws InputError unless the document's `format` member equals `expected` (for example `lowgear.plan/1`); the
/// message names both.
void require_format(const JsonView& document, std::string_view expected);

/// Calls `read` with each line of a text that has one JSON document a line, as `source:line`. Throws InputError with
/// file, line and column where a line is no JSON.
void for_each_json_line(std::string_view text, const std::string& source,
                        const std::function<void(const JsonView& line)>& read);

/// A number, and null for NaN and infinity, which JSON lacks; read back, null is NaN.
[[nodiscard]] Json number_or_null(double value);
/// Throws InputError unless it is a number or null.
[[nodiscard]] double number_or_nan(const JsonView& view);

/// Throws InputError at an unknown member, naming the nearest known one; also when this is no object.
void require_members(const JsonView& object, std::initializer_list<std::string_view> known);

/// Whether the object has the member and it is not null.
[[nodiscard]] bool has_value(const JsonView& object, std::string_view key);

/// A number in [low, high]. Throws InputError.
[[nodiscard]] double number_in(const JsonView& value, double low, double high);

/// Sets a member if there is a value.
template <typename Value>
void set_if(Json& object, std::string_view key, const std::optional<Value>& value) {
  if (value) object[std::string(key)] = *value;
}

}  // namespace lowgear
