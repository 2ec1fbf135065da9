#pragma once

/// The results that the authors of Perseus published, and folders of the same shape. Perseus' server, or Lowgear's in
/// its place, writes such a folder for each job: `N.prof.json` of window N.

#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planning/profile/stage_profile.h"
#include "planning/simulator/cluster.h"

namespace lowgear::evaluation {

using simulator::PipelineFigures;

/// The first iterations of a window, which its figures leave out.
inline constexpr std::size_t kWarmUpIterations = 2;
/// The first windows of a job, at the highest power states: the baseline of its other windows.
inline constexpr int kWarmUpWindows = 2;

/// N of `N.prof.json`; empty for another name.
[[nodiscard]] std::optional<int> profile_number(std::string_view file_name);

/// Figures of a window without its first iterations: the mean over iterations of the slowest rank's time, and of
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

enum class Method : unsigned char { perseus, envpipe };

/// `Perseus`, `EnvPipe`.
[[nodiscard]] std::string_view name(Method method);

/// A pipeline of the emulation.
struct EmulatedPipeline {
  std::string model;   ///< `gpt3-175b`
  std::string device;  ///< `a100_sxm`
  friend auto operator<=>(const EmulatedPipeline&, const EmulatedPipeline&) = default;
};

struct EmulatedRun {
  EmulatedPipeline pipeline;
  int microbatches = 0;
  friend auto operator<=>(const EmulatedRun&, const EmulatedRun&) = default;
};

/// A workload that was measured on a cluster.
struct Workload {
  std::string gpu;    ///< `A100`
  std::string model;  ///< `gpt3-xl`
  friend auto operator<=>(const Workload&, const Workload&) = default;
};

/// The measured iterations of one plan, the first two left out: the mean of the slowest rank's time, the mean of all
/// ranks' energy.
struct MeasuredPlan {
  int number = 0;  ///< N of `N.prof.json`
  PipelineFigures figures;
};

/// Iterations with power limits, by row of Zeus' tables.
struct ZeusRows {
  int gpus = 0;                         ///< of the workload
  std::vector<PipelineFigures> global;  ///< one limit for all; the first is that of the highest limit, the baseline
  std::vector<PipelineFigures> per_stage;
};

/// Contents of the folders. Figures of the emulation are on the scale of its files, one GPU a rank: a tenth of real
/// times, an eightieth of real energies.
struct Artifact {
  std::map<EmulatedPipeline, profile::StageProfile> profiles;
  std::map<EmulatedRun, std::vector<PipelineFigures>> frontiers;
  std::map<EmulatedRun, PipelineFigures> envpipe;  ///< on the same scale
  std::map<Workload, ZeusRows> zeus;
  std::map<std::pair<Workload, Method>, std::vector<MeasuredPlan>> runs;  ///< by number; warm-ups left out
  int files = 0;                                                          ///< that were read
  std::vector<std::string> doubts;                                        ///< about the profiles, one line each
};

/// Whether a file at this path, below the folder given and with its name before it, is read. By its name: stage
/// profiles `MODEL+DEVICE_PRECISION.csv`, frontiers `DEVICE/MODEL_PRECISION_mbN.csv`, `envpipe_result.csv`,
/// `GPU/zeus_global.csv`, `GPU/zeus_local.csv`, and `N.prof.json` of a run of plans, in folders of the names that
/// Perseus' server gives or `MODEL_GPU_...`. Runs below a folder `envpipe` are EnvPipe's; those of power limits (below
/// `zeus_local`, `zeus_global`) are not read, as Zeus' tables have their results.
[[nodiscard]] bool is_artifact_file(std::string_view path);

/// Whether it is a table of the artifact, and no run, which a job of one's own leaves just the same.
[[nodiscard]] bool is_artifact_table(std::string_view path);

/// Adds a file for which is_artifact_file holds. Throws InputError with file and place where it cannot be read, has a
/// shape of its own or is there twice.
void add_file(Artifact& artifact, const std::string& path, std::string_view text);

}  // namespace lowgear::evaluation
