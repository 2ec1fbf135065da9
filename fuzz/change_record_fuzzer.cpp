/// Reads any bytes as a record of changes, and as a state of their controller; whatever is accepted must be
/// written and read back the same, and can be replayed unless it does not fit model and points.
#include <cstdint>
#include <string>

#include "checks.h"
#include "planning/adapt/change_record.h"

namespace {

using namespace lowgear;  // NOLINT(google-build-using-namespace): the program is all Lowgear's

std::string written(const adapt::ChangeRecord& record) {
  std::string text = adapt::write_change_header(record.options, record.start, 0) + "\n";
  for (const adapt::ChangeStep& step : record.steps) text += adapt::write_change_line(step) + "\n";
  return text;
}

void check_state(std::string_view text) {
  const Json document = parse_json(text, "state");
  const Json state = adapt::change_state_json(adapt::change_state_of(JsonView(document, "state")));
  require(adapt::change_state_json(adapt::change_state_of(JsonView(state, "written"))) == state);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  ignore_input_error([text] {
    check_records(text, adapt::read_change_records, written,
                  [](const adapt::ChangeRecord& record) { return adapt::replay(record); });
  });
  ignore_input_error([text] { check_state(text); });
  return 0;
}
