/// Reads any bytes as the record of a controller of techniques, and as a state of one; whatever is accepted must be
/// written and read back the same, and can be replayed unless it does not fit model and points.
#include <cstdint>
#include <string>

#include "checks.h"
#include "planning/adapt/techniques/technique_controller.h"

namespace {

using namespace lowgear;  // NOLINT(google-build-using-namespace): the program is all Lowgear's

std::string written(const adapt::TechniqueRecord& record) {
  std::string text = adapt::write_technique_header(record.options, record.start, 0) + "\n";
  for (const adapt::TechniqueStep& step : record.steps) text += adapt::write_technique_line(step) + "\n";
  return text;
}

void check_state(std::string_view text) {
  const Json document = parse_json(text, "state");
  const Json state = adapt::technique_state_json(adapt::technique_state_of(JsonView(document, "state")));
  require(adapt::technique_state_json(adapt::technique_state_of(JsonView(state, "written"))) == state);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  ignore_input_error([text] {
    check_records(text, adapt::read_technique_records, written,
                  [](const adapt::TechniqueRecord& record) { return adapt::replay(record); });
  });
  ignore_input_error([text] { check_state(text); });
  return 0;
}
