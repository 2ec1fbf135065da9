/// JSON: what is accepted is what the library reads, and is written and read back the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "checks.h"

namespace {

using lowgear::Json;
using lowgear::JsonView;

/// Asks every value for everything.
void walk(const JsonView& view, const Json& value) {
  ignore_input_error([&] { (void)view.number(); });
  ignore_input_error([&] { (void)view.integer(); });
  ignore_input_error([&] { (void)view.integer_in(-5, 5); });
  ignore_input_error([&] { (void)view.text(); });
  ignore_input_error([&] { (void)view.boolean(); });
  ignore_input_error([&] { lowgear::require_format(view, "lowgear.plan/1"); });
  if (value.is_array()) {
    for (std::size_t i = 0; i < view.size(); ++i) walk(view.at(i), value[i]);
  }
  if (value.is_object()) {
    for (const auto& [key, member] : value.items()) walk(view.at(key), member);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  Json document;
  try {
    document = lowgear::parse_json(text, "fuzz.json");
  } catch (const lowgear::InputError& error) {
    if (std::string_view(error.what()).find('\n') != std::string_view::npos) std::abort();
    return 0;
  }
  if (document != Json::parse(text)) std::abort();
  if (document != lowgear::parse_json(document.dump(), "fuzz.json")) std::abort();
  walk(JsonView(document, "fuzz.json"), document);
  return 0;
}
