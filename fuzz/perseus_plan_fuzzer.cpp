/// Reads any bytes as a plan of Perseus or Zeus; whatever is accepted must keep its clocks when it is written and read
/// back.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "base/core/error.h"
#include "rivals/formats/perseus_plan.h"

namespace {

bool has_all_kinds(const lowgear::formats::PerseusPlan& plan) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), [](const auto& stage) {
    return std::all_of(stage.begin(), stage.end(), [](const auto& entry) { return entry.kind.has_value(); });
  });
}

/// The same clocks without kinds.
lowgear::formats::PerseusPlan bare(lowgear::formats::PerseusPlan plan) {
  for (auto& stage : plan.stages) {
    for (auto& entry : stage) {
      entry.kind.reset();
    }
  }
  return plan;
}

lowgear::formats::PerseusPlan written_and_read(const lowgear::formats::PerseusPlan& plan,
                                               lowgear::formats::PerseusDialect dialect) {
  return lowgear::formats::read_perseus_plan(lowgear::formats::write_perseus_plan(plan, {}, dialect), "written.py");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  lowgear::formats::PerseusPlan plan;
  try {
    plan = lowgear::formats::read_perseus_plan({reinterpret_cast<const char*>(data), size}, "plan.py");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  if (written_and_read(plan, lowgear::formats::PerseusDialect::artifact) != bare(plan)) {
    std::abort();
  }
  if (has_all_kinds(plan) && written_and_read(plan, lowgear::formats::PerseusDialect::zeus) != plan) {
    std::abort();
  }
  return 0;
}
