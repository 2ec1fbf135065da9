#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planning/simulator/cluster.h"

/// The folder of results that Perseus' server, or Lowgear's in its place, writes of one job: `N.prof.json` of window N.
namespace lowgear::evaluation {

using simulator::PipelineFigures;

/// The first iterations of a window, which its figures leave out.
inline constexpr std::size_t kWarmUpIterations = 2;
/// The first windows of a job, at the highest power states: what its others are compared with.
inline constexpr int kWarmUpWindows = 2;

/// N of `N.prof.json` or `N.sched.json`; empty for another name.
[[nodiscard]] std::optional<int> profile_number(std::string_view file_name);
[[nodiscard]] std::optional<int> states_number(std::string_view file_name);

/// What a window measured, the first iterations left out: the mean over iterations of the slowest rank's time, and of
/// the energy of all ranks (`total_time_and_energy` of Perseus). Throws InputError on another format, where ranks come
/// twice or have different numbers of iterations, and where no iteration is left.
[[nodiscard]] PipelineFigures window_figures(std::string_view profile_json, const std::string& source);

/// Lowest and highest power state (MHz, or W) in which the instructions of all ranks ran. Throws InputError on another
/// format.
[[nodiscard]] std::pair<int, int> window_states(std::string_view states_json, const std::string& source);

struct Window {
  int number = 0;
  PipelineFigures figures;
  std::optional<std::pair<int, int>> states = {};  ///< empty without its `N.sched.json`
  /// In per cent of the baseline; empty without one, and for its own windows.
  std::optional<double> saving_pct = {};
  std::optional<double> slowdown_pct = {};
};

struct Dump {
  std::string folder;
  std::vector<Window> windows;              ///< by number
  std::optional<PipelineFigures> baseline;  ///< mean of windows 0 and 1, or of the one of them that is there
  std::string note = {};                    ///< about the baseline; empty: it is as it should be
};

/// Compares windows of one job, in any order, with its windows 0 and 1.
[[nodiscard]] Dump compare_windows(std::string folder, std::vector<Window> windows);

}  // namespace lowgear::evaluation
