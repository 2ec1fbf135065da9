#include "control/protocol/json_members.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::protocol {

std::string name_text(const JsonView& value) {
  std::string text = value.text();
  if (text.empty() || text.size() > kMaxNameBytes) {
    value.fail(fmt::format("expected a text of 1 to {} bytes, not one of {}", kMaxNameBytes, text.size()));
  }
  if (printable(text, text.size()) != text) value.fail("has characters that cannot be printed");
  return text;
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
