/// Reads any text as a GPU file. What is accepted gives a GPU finite powers.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/core/error.h"
#include "checks.h"
#include "estimating/power/gpu_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const lowgear::power::GpuFile file = lowgear::power::parse_gpu_file(text, "input");
    lowgear::power::GpuPower power = lowgear::power::gpu_row("h200-sxm").power;
    replace(power, file, file.max_clock_mhz, 4.8e12);
    require(std::isfinite(power.compute_w) && power.compute_w >= 0 && std::isfinite(power.memory_w));
    require(!describe(file).empty());
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
