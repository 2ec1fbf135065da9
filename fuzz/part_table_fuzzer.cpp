/// Parts of ops: what is accepted composes to a profile that is read back the same, whose options are on a hull.
#include <cstddef>
#include <cstdint>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/compose/composed_profile.h"
#include "planning/profile/profile_file.h"

namespace {

using namespace lowgear::profile;

void check_hull(const std::vector<SeriesPart>& parts) {
  const std::vector<SeriesOption> hull = compose_series(parts, 83.64);
  require(!hull.empty());
  for (std::size_t k = 0; k < hull.size(); ++k) {
    require(hull[k].choice.size() == parts.size());
    if (k > 0) require(hull[k - 1].time_s < hull[k].time_s);
  }
  if (hull.size() > 2) require(thinned(hull, 2).size() == 2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const PartTable parts = read_part_table({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
    for (const auto& [cell, series] : parts) check_hull(series);
    const std::string text =
        lowgear::profile::write_profile_file({.profile = compose_profile(parts, {.max_options = 5}).profile});
    require(lowgear::profile::write_profile_file({.profile = read_profile_file(text, "composed.csv").profile}) == text);
  } catch (const lowgear::InputError&) {
  }
  return 0;
}
