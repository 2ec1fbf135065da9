#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planning/profile/recorded_profile.h"
#include "rivals/formats/merak_recording.h"

namespace lowgear::cli {

/// The command line of `lowgear profile`.
struct ProfileArguments {
  std::vector<std::string> recordings;
  std::string merak;
  std::string fill;
  std::optional<int> choose;
  formats::MerakRun merak_run;
  std::string clocks;  ///< --supported-clocks
  bool predict = false;
  std::string gpu_file;  ///< power to predict clocks with, or empty
  std::string job;       ///< file of lowgear estimate that says how times follow the clock, or empty
  profile::ProfilingOptions profiling;
  std::string out;
  std::string errors_out;
  std::string blocking_power_out;
  std::string freqevents;  ///< folder for logs of clock changes, or empty
  std::string html;        ///< page to write, or empty
  std::string command;     ///< the command line, for the page
  std::optional<int> max_options;
  bool accepts_invalid = false;  ///< recordings whose figures mean nothing
  bool json = false;

  /// Whether it is `profile compose`; a folder of that name is ./compose.
  [[nodiscard]] bool composes() const;
  /// Whether the profile has rows of clocks that were not recorded.
  [[nodiscard]] bool fills() const { return predict || !gpu_file.empty() || !fill.empty(); }
  /// Everything that is read.
  [[nodiscard]] std::vector<std::string> inputs() const;
  /// Everything that is written.
  [[nodiscard]] std::vector<std::string> outputs() const;
  /// File of the times by length, which those who read the profile find by its name. Empty without such a name.
  [[nodiscard]] std::string work_path() const;
  [[nodiscard]] std::string errors_path() const;
};

/// The arguments must outlive `app`.
void add_profile_options(CLI::App& app, ProfileArguments& arguments);

/// Throws InputError for options that contradict each other or lack another, and for results that would overwrite an
/// input or each other.
void check_profile_arguments(const CLI::App& app, const ProfileArguments& arguments);

}  // namespace lowgear::cli
