/// What a rank's activations take: what is accepted is written and read back the same, and a profile of its stages has
/// an amount for each of them or none.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/recorded_activations.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<lowgear::profile::Recording> ranks(1);
  try {
    ranks.front().activations = lowgear::profile::read_recorded_activations(text, "fuzz.csv");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  const std::string written = lowgear::profile::write_recorded_activations(ranks.front().activations);
  require(lowgear::profile::read_recorded_activations(written, "written.csv") == ranks.front().activations);
  int stages = 0;
  for (const lowgear::profile::RecordedActivations& row : ranks.front().activations) {
    require(row.bytes > 0);
    stages = row.stage >= stages ? row.stage + 1 : stages;
  }
  const auto joined = lowgear::profile::activations_by_stage(ranks, stages);
  require(joined.bytes.empty() || joined.bytes.size() == static_cast<std::size_t>(stages));
  for (const double bytes : joined.bytes) require(bytes > 0);
  return 0;
}
