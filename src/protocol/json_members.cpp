#include "protocol/json_members.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::protocol {

std::string printable_text(const JsonView& value, std::size_t most_bytes) {
  std::string text = value.text();
  if (text.empty() || text.size() > most_bytes) {
    value.fail(fmt::format("expected a text of 1 to {} bytes, not one of {}", most_bytes, text.size()));
  }
  if (printable(text, text.size()) != text) value.fail("has characters that cannot be printed");
  return text;
}

std::string name_text(const JsonView& value) { return printable_text(value, kMaxNameBytes); }

double calendar_time_s(const JsonView& value) {
  constexpr double kMostS = 1e11;  // the year 5138; as milliseconds, 1973
  const double time_s = value.number();
  if (!(time_s >= 0)) value.fail("is before 1970; give seconds since 1970 (UTC)");
  if (time_s > kMostS) value.fail("is after the year 5000; give seconds since 1970 (UTC), not milliseconds");
  return time_s;
}

std::string with_member(const Json& object, std::string_view name, std::string_view json) {
  std::string text = object.dump();
  text.pop_back();
  text += fmt::format(R"(,"{}":)", name);
  text += json;
  text += '}';
  return text;
}

std::string json_text(const Json& document) { return document.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace lowgear::protocol
