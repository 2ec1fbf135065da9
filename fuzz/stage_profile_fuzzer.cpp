/// Stage profiles: what is accepted is written and read back the same, and the options of every op keep their promises.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "checks.h"
#include "planning/profile/options.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/profile/summary.h"

namespace {

using lowgear::profile::Measurement;
using lowgear::profile::ProfileFile;
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

void check_written(const ProfileFile& file) {
  const ProfileFile again =
      lowgear::profile::read_profile_file(lowgear::profile::write_profile_file(file), "written.csv");
  require(again.profile == file.profile);
  require(again.columns == file.columns);
  require(again.switch_latency_s == file.switch_latency_s);
  for (const lowgear::profile::StageOp& op : file.profile.ops()) check_options(op.measurements);
}

void check_derived(const StageProfile& profile) {
  (void)lowgear::profile::summarise(profile, std::vector<double>(static_cast<std::size_t>(profile.stages()), 83.64));
  require(lowgear::profile::at_fastest_settings(profile).stages() == profile.stages());
  (void)with_stages_on_ranks(lowgear::profile::with_split_backward(profile, 0.5), std::vector{0, 0});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ProfileFile file;
  try {
    file = lowgear::profile::read_profile_file(text, "fuzz.csv");
  } catch (const lowgear::InputError&) {
    return 0;
  }
  check_written(file);
  try {
    check_derived(file.profile);
  } catch (const lowgear::InputError&) {  // halves that are too short, or stages that became too many
  }
  return 0;
}
