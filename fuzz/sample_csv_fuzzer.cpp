/// A file of samples that is to be continued: what is kept of it is whole, and read the same again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "estimating/sampling/sample_csv.h"

namespace {

using namespace lowgear;

void check(std::string_view text) {
  static const sampling::SampleFormat kFormat = sampling::SampleFormat::of(sampling::SampledOperator::layer_norm);
  static const std::vector<std::vector<std::int64_t>> kPlan = {{1, 16, 64}, {2, 16, 64}, {1, 32, 64}, {2, 32, 64}};
  const sampling::ResumePoint point = resume(kFormat, text, "fuzz", kPlan);
  if (point.kept_bytes > text.size() || point.rows > point.next || point.next > kPlan.size()) std::abort();
  if (point.kept_bytes > 0 && text[point.kept_bytes - 1] != '\n') std::abort();
  const sampling::ResumePoint again = resume(kFormat, text.substr(0, point.kept_bytes), "fuzz", kPlan);
  if (again.rows != point.rows || again.next != point.next) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check({reinterpret_cast<const char*>(data), size});
  } catch (const InputError&) {
  }
  return 0;
}
