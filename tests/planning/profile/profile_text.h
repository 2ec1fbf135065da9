#pragma once

#include <string>
#include <vector>

#include "planning/profile/profile_file.h"

namespace lowgear::profile {

inline constexpr const char* kProfileHeader = "stage,instruction,frequency,time,energy\n";

/// The profile of a file with these rows.
inline StageProfile read_profile(const std::string& rows) {
  return read_profile_file(kProfileHeader + rows, "p.csv").profile;
}

inline std::vector<int> clocks_of(const StageProfile& profile, int stage, OpKind kind) {
  std::vector<int> clocks_mhz;
  for (const Measurement& measurement : profile.measurements(stage, kind)) clocks_mhz.push_back(measurement.clock_mhz);
  return clocks_mhz;
}

inline constexpr const char* kWithSettings =
    "stage,instruction,frequency,time,energy,setting\n"
    "0,forward,1400,0.12,20,sm3\n"
    "0,forward,1400,0.10,30,sm12\n"
    "0,forward,1000,0.16,15,sm12\n"
    "0,backward,1400,0.2,60,\n";

}  // namespace lowgear::profile
