/// Stage profiles: what is accepted is written and read back the same, and the options of every op keep their promises.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/columns/stage_columns.h"
#include "planning/profile/options.h"
#include "planning/profile/stage_profile.h"
#include "planning/profile/summary.h"

namespace {

using lowgear::OpKind;
using lowgear::profile::Measurement;
using lowgear::profile::StageProfile;

void check_options(std::span<const Measurement> measurements) {
  const std::vector<lowgear::profile::Option> options = lowgear::profile::pareto_options(measurements, 83.64);
  require(options.empty() == measurements.empty());
  for (std::size_t i = 1; i < options.size(); ++i) {
    require(options[i - 1].time_s < options[i].time_s);
    require(options[i - 1].effective_energy_j > options[i].effective_energy_j);
  }
  const std::vector<std::size_t> hull = lowgear::profile::lower_convex_hull(options);
  require(hull.empty() == options.empty());
  if (!hull.empty()) require(hull.front() == 0 && hull.back() == options.size() - 1);
}

void check_written(const StageProfile& profile) {
  const StageProfile again =
      lowgear::profile::read_stage_profile(lowgear::profile::write_stage_profile(profile), "written.csv");
  require(again.stages() == profile.stages());
  for (int stage = 0; stage < profile.stages(); ++stage) {
    for (int kind = 0; kind < lowgear::kOpKindCount; ++kind) {
      const auto read = again.measurements(stage, static_cast<OpKind>(kind));
      const auto written = profile.measurements(stage, static_cast<OpKind>(kind));
      require(read.size() == written.size());
      for (std::size_t i = 0; i < read.size(); ++i) {
        require(read[i].clock_mhz == written[i].clock_mhz && read[i].time_s == written[i].time_s &&
                read[i].energy_j == written[i].energy_j && read[i].setting == written[i].setting);
      }
      check_options(written);
    }
  }
}

void check_derived(const StageProfile& profile) {
  (void)lowgear::profile::summarise(profile, std::vector<double>(static_cast<std::size_t>(profile.stages()), 83.64));
  require(lowgear::profile::at_fastest_settings(profile).stages() == profile.stages());
  (void)lowgear::profile::with_virtual_stages(lowgear::profile::with_split_backward(profile, 0.5), 2);
}

/// What the columns state is what is read of them again.
void check_columns(std::string_view text, const StageProfile& profile) {
  const lowgear::profile::StageColumns columns = lowgear::profile::read_stage_columns(text, "fuzz.csv");
  const std::size_t stages = columns.activation_bytes.size();
  if (stages != 0 && stages != static_cast<std::size_t>(profile.stages())) return;
  const std::string written = with_stage_columns(write_stage_profile(profile), columns);
  require(lowgear::profile::read_stage_columns(written, "written.csv") == columns);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  StageProfile profile;
  try {
    profile = lowgear::profile::read_stage_profile(text, "fuzz.csv");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  check_written(profile);
  try {
    check_columns(text, profile);
  } catch (const lowgear::InputError&) {
  }
  try {
    check_derived(profile);
  } catch (const lowgear::InputError&) {  // halves that are too short, or stages that became too many
  }
  return 0;
}
