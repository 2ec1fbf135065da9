#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/core/error.h"
#include "base/http/message/error.h"
#include "checks.h"
#include "protocol/answers.h"

namespace {

using namespace lowgear;

/// What is read is written and read back the same.
template <typename Read>
void check(std::string_view text, Read read) {
  const Json document = parse_json(text, "answer", 1'000);
  const auto answer = read(JsonView(document, "answer"));
  const Json written = to_json(answer);
  require(read(JsonView(written, "written")) == answer);
}

void check_error(std::string_view text) {
  const std::optional<http::ErrorBody> body = http::read_error_body(text);
  if (body) require(http::read_error_body(to_json(*body).dump()) == body);
}

}  // namespace

/// What a server answers to a rank. The first byte says to which request.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'j':
        check(text, protocol::read_job_answer);
        break;
      case 'r':
        check(text, protocol::read_rank_answer);
        break;
      case 'i':
        check(text, protocol::read_reports_answer);
        break;
      default:
        check_error(text);
    }
  } catch (const InputError&) {
    // What is wrong is refused.
  }
  return 0;
}
