// From the text of a schedule to the verdict on its messages, and back to text.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/torch_csv.h"

namespace {

void exercise(std::string_view text) {
  const lowgear::schedule::Schedule schedule = lowgear::schedule::read_torch_csv(text, "fuzz.csv");
  const lowgear::schedule::Schedule again =
      lowgear::schedule::read_torch_csv(lowgear::schedule::write_torch_csv(schedule), "fuzz.csv");
  require(again.ranks == schedule.ranks);
  for (const lowgear::schedule::HeldPeaks& held : lowgear::schedule::held_peaks(schedule)) {
    require(held.activations >= 0 && held.inputs >= 0);
  }
  const lowgear::schedule::PipelineDag dag = lowgear::schedule::build_dag(schedule);
  require(dag.topological_order.size() == dag.ops.size());
  const auto ordered = lowgear::schedule::with_communication(lowgear::schedule::without_communication(schedule));
  require(!lowgear::schedule::find_communication_fault(ordered, lowgear::schedule::P2pGrouping::none));
  require(!lowgear::schedule::find_communication_fault(ordered, lowgear::schedule::P2pGrouping::adjacent));
  if (!lowgear::schedule::has_communication(schedule)) return;
  const bool safe = !lowgear::schedule::find_communication_fault(schedule, lowgear::schedule::P2pGrouping::none);
  const bool safe_in_groups =
      !lowgear::schedule::find_communication_fault(schedule, lowgear::schedule::P2pGrouping::adjacent);
  require(safe_in_groups || !safe);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    exercise({reinterpret_cast<const char*>(data), size});
  } catch (const lowgear::InputError&) {
    // Refusing is an answer.
  }
  return 0;
}
