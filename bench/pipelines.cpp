#include "pipelines.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include "base/core/files/file.h"
#include "planning/profile/example_profile.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"

namespace lowgear::bench {
namespace {

constexpr std::uint64_t kSeed = 20240904;
constexpr double kVariation = 0.05;

/// Uniform in [0.95, 1.05]. By hand, because std::uniform_real_distribution differs between standard libraries.
double random_factor(std::mt19937_64& random) {
  const double uniform = static_cast<double>(random() >> 11) * 0x1p-53;
  return 1 + kVariation * (2 * uniform - 1);
}

std::filesystem::path given_profiles() {
  return std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus/stage_profile";
}

}  // namespace

bool given_data_present() { return std::filesystem::exists(given_profiles()); }

bool require_given_data(std::string_view study) {
  if (given_data_present()) return true;
  fmt::print(stderr, "{}: SKIPPED: needs the profiles in ../shared/data/perseus, which are absent\n", study);
  return false;
}

profile::StageProfile GivenProfile::read() const {
  return profile::read_profile_file(read_file(given_profiles() / file), std::string(file)).profile;
}

Pipeline::Pipeline(profile::StageProfile profile, double blocking_power_w, int microbatches)
    : profile_(std::move(profile)),
      blocking_power_w_(static_cast<std::size_t>(profile_.stages()), blocking_power_w),
      schedule_(schedule::one_f_one_b_schedule(profile_.stages(), microbatches)),
      dag_(build_dag(schedule_)) {}

planner::ProblemInstance instance_of(const profile::StageProfile& profile, double blocking_power_w, int microbatches) {
  const std::vector<double> power_w(static_cast<std::size_t>(profile.stages()), blocking_power_w);
  return planner::make_planning_model(
             schedule::build_dag(schedule::one_f_one_b_schedule(profile.stages(), microbatches)), profile, power_w)
      .instance;
}

profile::StageProfile unequal_stages(int stages) {
  const profile::StageProfile base = given_data_present() ? kGpt3OnA100.read() : profile::example_profile();
  std::mt19937_64 random(kSeed);
  profile::StageProfile profile(stages);
  for (int stage = 0; stage < stages; ++stage) {
    const int base_stage = stage + 1 == stages ? base.stages() - 1 : 0;
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const double time_factor = random_factor(random);
      const double energy_factor = random_factor(random);
      for (const profile::Measurement& m : base.measurements(base_stage, kind)) {
        profile.add(stage, kind, {m.clock_mhz, m.time_s * time_factor, m.energy_j * energy_factor});
      }
    }
  }
  return profile;
}

}  // namespace lowgear::bench
