#include "planning/workflow/planning_memory.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::workflow {
namespace {

/// Peak memory of `lowgear plan` over its computations, rounded up: measured were 4.1 KB with 64 stages and 512
/// microbatches (sandwich) and 6.9 KB with 8 and 8192 (exact).
constexpr double kBytesPerComputation = 8192;
constexpr double kGib = 1024.0 * 1024 * 1024;

double computations_of(int ranks, int microbatches, int chunks) {
  constexpr double kComputationsEach = 2;
  return static_cast<double>(ranks) * microbatches * chunks * kComputationsEach;
}

}  // namespace

double planning_memory_bytes(int ranks, int microbatches, int chunks) {
  return computations_of(ranks, microbatches, chunks) * kBytesPerComputation;
}

void require_planning_memory(int ranks, int microbatches, int chunks, std::optional<std::uint64_t> available_bytes) {
  const double needed = planning_memory_bytes(ranks, microbatches, chunks);
  if (!available_bytes || needed <= static_cast<double>(*available_bytes)) return;
  throw InputError(fmt::format(
      "{} stages x {} microbatches are {:.3g} computations, which take about {:.3g} GiB to plan, and {:.3g} "
      "GiB are available: plan fewer stages or microbatches",
      static_cast<double>(ranks) * chunks, microbatches, computations_of(ranks, microbatches, chunks), needed / kGib,
      static_cast<double>(*available_bytes) / kGib));
}

}  // namespace lowgear::workflow
