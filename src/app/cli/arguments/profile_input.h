#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planning/profile/recording.h"
#include "planning/steps/step_input.h"
#include "rivals/formats/merak_recording.h"

namespace lowgear::cli {

/// A recording whose `invalid` says that its times and energies mean nothing is an InputError, or the caller looks at
/// the mark.
enum class MarkedInvalid : unsigned char { refused, accepted };

/// The recordings that the paths name: folders of one rank (`recording.json` in them), or folders of such folders
/// (`rank-00000`, `rank-00001`, ..., and the same in `part-00001`, ... where the job was resumed), in the order of
/// parts and ranks. Throws InputError when a folder is neither, or as `read_recording` does.
[[nodiscard]] std::vector<profile::Recording> load_recordings(const std::vector<std::string>& paths,
                                                              MarkedInvalid marked);

/// Whether a folder is one that `load_recordings` looks for recordings in.
[[nodiscard]] bool is_recording(const std::filesystem::path& folder);

/// Size of the order that an attached job wrote next to its ranks' folders (`schedule.csv`).
struct RecordedSchedule {
  int stages = 0;
  int microbatches = 0;
  std::string file = {};  ///< its CSV; empty: none
};

/// Empty where there is none. Throws InputError where it cannot be read, or several differ.
[[nodiscard]] std::optional<RecordedSchedule> recorded_schedule(const std::vector<std::string>& paths);

/// Lengths of every microbatch that the trainer wrote next to the ranks' folders (`lengths.csv`); empty where there are
/// none. Throws InputError where they cannot be read, or several recordings have some.
[[nodiscard]] std::optional<steps::Lengths> recorded_lengths(const std::vector<std::string>& paths);

/// All ranks of Merak's raw files `instructions-%d.csv` and `time-energy-%d.csv` in a folder, in the order of their
/// numbers. Throws InputError when there are none or one of a pair is missing, or as `formats::read_merak` does.
[[nodiscard]] std::vector<profile::Recording> load_merak(const std::filesystem::path& folder,
                                                         const formats::MerakRun& run);

/// Clocks in MHz from text: a list `1410,1395,1380`, or a range `1410-855/15` (first, last and step; either may be the
/// higher). In the order of the text. Throws InputError on anything else, a clock that is named twice or not in 1 to
/// kMaxClockMhz.
[[nodiscard]] std::vector<int> parse_clocks(const std::string& text);

/// Throws InputError when `output` is one of the inputs, or lies below one that is a folder.
void refuse_to_overwrite(const std::filesystem::path& output, const std::vector<std::string>& inputs);

}  // namespace lowgear::cli
