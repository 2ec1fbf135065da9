/// Reads any bytes as the starting points of Perseus' fits; what is accepted is finite and of stages in a row.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/core/error.h"
#include "rivals/policies/perseus/exponential_fit.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto guess = lowgear::policies::read_initial_guess({reinterpret_cast<const char*>(data), size}, "guess.py");
    for (const auto& [cell, curve] : guess) {
      const bool finite =
          std::isfinite(curve.scale_j) && std::isfinite(curve.rate_per_unit) && std::isfinite(curve.offset_j);
      if (!finite || (cell.first > 0 && !guess.contains({cell.first - 1, cell.second}))) std::abort();
    }
  } catch (const lowgear::InputError&) {
    return 0;
  }
  return 0;
}
