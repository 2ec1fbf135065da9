#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "report/experiment/arm_comparison.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace experiment = lowgear::experiment;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const experiment::RunRecord run = experiment::read_metrics(text, "metrics.jsonl");
    experiment::ComparisonOptions options;
    options.loss = 1;
    options.price_per_kwh = 1;
    (void)compare_arms({{"a", {{run, {}, {}}, {run, {}, {}}}}, {"b", {{run, {}, {}}, {run, {}, {}}}}}, options);
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
