#pragma once

#include <filesystem>
#include <string>

#include "base/core/files/file.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::policies {

inline constexpr const char* kNoPublishedData =
    "NOT CHECKED against the published results of Perseus: ../shared/data/perseus is absent";

/// A file of the Perseus artifact (SOSP'24, ml-energy/zeus branch `kronos`, sosp24_data/emulation), which is not part
/// of this project.
inline std::filesystem::path published_path(const std::string& relative) {
  return std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus" / relative;
}

inline bool published_data_present() { return std::filesystem::exists(published_path("stage_profile")); }

/// A GPU of the artifact's emulations, with its settings for it. Times and energies are a tenth of the real ones.
struct PublishedPipeline {
  const char* profile;
  double blocking_power_w;
  double unit_s;

  [[nodiscard]] profile::StageProfile read() const {
    const auto path = published_path(std::string("stage_profile/") + profile);
    return profile::read_profile_file(read_file(path), path.filename()).profile;
  }
};

inline constexpr PublishedPipeline kGpt3OnA100{"gpt3-175b+a100_sxm_bf16.csv", 83.64, 1e-3};
inline constexpr PublishedPipeline kBloomOnA40{"bloom+a40_bf16.csv", 70.38, 1e-4};

}  // namespace lowgear::policies
