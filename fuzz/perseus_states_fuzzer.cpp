/// Reads any bytes as the power states that Perseus' server leaves, and as those of a small pipeline; clocks that are
/// accepted are as many as its ops.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "planning/schedule/generators.h"
#include "rivals/formats/perseus_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)lowgear::formats::is_power_states(text);
  try {
    const auto states = lowgear::formats::read_power_states(text, "0.sched.json");
    const auto dag = build_dag(lowgear::schedule::one_f_one_b_schedule(2, 2));
    if (clocks_for(states, dag).size() != dag.ops.size()) std::abort();
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
