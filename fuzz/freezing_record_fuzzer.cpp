/// Reads any bytes as the record of a controller of freezing and as a state of one; whatever is accepted must be
/// written and read back the same, and can be replayed unless it does not fit the model.
#include <cstdint>
#include <string>

#include "checks.h"
#include "planning/adapt/freezing/controller.h"

namespace {

using namespace lowgear;  // NOLINT(google-build-using-namespace): the program is all Lowgear's

std::string written(const adapt::freezing::Record& record) {
  std::string text = adapt::freezing::write_header(record.blocks, record.options, record.start, 0) + "\n";
  for (const adapt::freezing::Step& step : record.steps) text += adapt::freezing::write_line(step) + "\n";
  return text;
}

void check_state(std::string_view text) {
  const std::string state = adapt::freezing::write_state(adapt::freezing::parse_state(text, "state"));
  require(adapt::freezing::write_state(adapt::freezing::parse_state(state, "written")) == state);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = text_of(data, size);
  ignore_input_error([text] { check_records(text, adapt::freezing::read_records, written, adapt::freezing::replay); });
  ignore_input_error([text] { check_state(text); });
  return 0;
}
