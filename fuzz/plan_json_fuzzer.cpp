/// Reads any bytes as a plan; whatever is accepted must be written and read back to the same text.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/core/error.h"
#include "planning/plan/plan_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lowgear::plan::Plan plan;
  try {
    plan = lowgear::plan::read_plan({reinterpret_cast<const char*>(data), size}, "plan.json");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  const std::string text = lowgear::plan::write_plan(plan);
  if (lowgear::plan::write_plan(lowgear::plan::read_plan(text, "written.json")) != text ||
      lowgear::plan::count_switches(plan.ranks) < 0) {
    std::abort();
  }
  return 0;
}
