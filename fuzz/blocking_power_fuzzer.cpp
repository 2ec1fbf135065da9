/// Blocking power by stage: what is accepted has a power for every stage.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "planning/profile/options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const int stages : {1, 2, 8}) {
    try {
      const std::vector<double> power_w = lowgear::profile::read_blocking_power(text, "fuzz.csv", stages);
      if (power_w.size() != static_cast<std::size_t>(stages)) std::abort();
      for (const double value : power_w) {
        if (!(value >= 0 && value <= lowgear::profile::kMaxBlockingPowerW)) std::abort();
      }
    } catch (const lowgear::InputError&) {
    }
  }
  return 0;
}
