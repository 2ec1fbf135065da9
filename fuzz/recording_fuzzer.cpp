/// Recordings of the client library: four files in one input, separated by bytes of 0x1e. What is accepted keeps its
/// promises, and a profile can be made of it or is refused.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/recorded_profile.h"

namespace {

constexpr char kSeparator = '\x1e';

std::array<std::string_view, 4> parts_of(std::string_view text) {
  std::array<std::string_view, 4> parts;
  for (std::string_view& part : parts) {
    const std::size_t end = text.find(kSeparator);
    part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto [json, units, energy, iterations] = parts_of({reinterpret_cast<const char*>(data), size});
  try {
    const std::vector<lowgear::profile::Recording> recordings{
        lowgear::profile::read_recording({"fuzz", json, units, energy, iterations})};
    double before_s = -1;
    for (const lowgear::profile::EnergySample& sample : recordings.front().samples) {
      require(sample.time_s > before_s);
      before_s = sample.time_s;
    }
    int number = -1;
    for (const lowgear::profile::RecordedIteration& iteration : recordings.front().iterations) {
      require(iteration.number > number && iteration.end_s >= iteration.start_s);
      number = iteration.number;
    }
    const auto profile = lowgear::profile::profile_recordings(recordings, {.skipped_iterations = 0, .blocking_w = {}});
    for (const lowgear::profile::RecordedCell& cell : profile.cells)
      require(cell.energy_j >= 0 && cell.energy_error_j >= 0);
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
