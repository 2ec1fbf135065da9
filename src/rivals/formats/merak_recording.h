#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planning/profile/recording.h"

namespace lowgear::formats {

/// How Merak's profiling run was set up.
struct MerakRun {
  int stages = 1;               ///< pipeline stages; rank r runs stage r mod stages, as Merak numbers ranks
  int microbatches = 1;         ///< per iteration
  int iterations = 1;           ///< per clock (`num_prof_steps`)
  std::vector<int> clocks_mhz;  ///< in the order in which they were run, without the two warm-up windows
};

/// One rank's files of Merak's profiling run, as text.
struct MerakText {
  int rank = 0;
  std::string instructions_name;      ///< name for messages
  std::string energy_name;            ///< name for messages
  std::string_view instructions_csv;  ///< instruction,start,end: seconds; grouped by instruction
  std::string_view energy_csv;        ///< time,energy: a row whenever the counter changed
};

/// Windows of `MerakRun::iterations` iterations at the highest clock that its server runs before the first clock of the
/// list.
inline constexpr int kMerakWarmUpWindows = 2;

/// Reads one rank of Merak's profiling run. Its server (Perseus' InstructionProfiler) runs exactly
/// kMerakWarmUpWindows warm-up windows at the highest clock, then one window per clock; window w of an instruction is
/// its microbatches x iterations occurrences in the order of time. (The script that comes with it skips
/// min(0.1 x num_prof_steps, 10) windows, so its labels are right only for 20 to 29 steps.) Warm-up windows are
/// kept with the highest clock but as iterations below 0. Iterations are numbered from 0 at the first clock. Throws
/// InputError with file, line and column, also when there are more or fewer units of a kind than these windows have:
/// no unit states its clock, so any wrong number would label some units wrongly.
[[nodiscard]] profile::Recording read_merak(const MerakText& text, const MerakRun& run);

}  // namespace lowgear::formats
