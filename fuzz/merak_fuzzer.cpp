/// Merak's raw files: instructions and energy in one input, separated by a byte of 0x1e. What is accepted has a clock
/// of the list in every unit, and times from 0.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"
#include "planning/profile/recorded_profile.h"
#include "rivals/formats/merak_recording.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t separator = text.find('\x1e');
  const std::string_view energy = separator == std::string_view::npos ? "" : text.substr(separator + 1);
  try {
    const lowgear::profile::Recording recording = lowgear::formats::read_merak(
        {0, "instructions-0.csv", "time-energy-0.csv", text.substr(0, separator), energy}, {1, 1, 1, {1410, 1395}});
    for (const lowgear::profile::RecordedUnit& unit : recording.units) {
      if (unit.clock_mhz != 1410 && unit.clock_mhz != 1395) std::abort();
      if (!(unit.start_s >= 0 && unit.end_s >= unit.start_s)) std::abort();
    }
    (void)lowgear::profile::energy_windows(recording);
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
