#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "rivals/formats/perseus_plan.h"
#include "server/perseus/protocol.h"

namespace lowgear::server::perseus {

inline constexpr std::string_view kPerseusLogLevel = "INFO";
inline constexpr std::string_view kPerseusDebug = "DEBUG";

/// Arguments of schedulers, by their names in the artifact; each scheduler reads its own.
struct Arguments {
  double warmup_step_ratio = 0.1;  ///< share of a window's iterations that is left out, at least one of them
  int minimum_power_state = 850;   ///< lowest that is profiled
  int warmup_iters = 2;            ///< windows at the highest power state before anything is measured or run
  int num_iters = 1;               ///< AllMax: windows until it stops
  int forward_freq = 0;            ///< TwoFrequencies
  int backward_freq = 0;
  double eta_knob = 0.5;  ///< Zeus: 1 minimises energy, 0 time
  Instruction balanced_phase = Instruction::forward;
  // What follows is Lowgear's.
  int clocks = 6;           ///< that are profiled; the rest is predicted from them
  double slowdown_pct = 0;  ///< how much longer than the fastest plan an iteration may be
  /// Power of a GPU that waits, by stage; a single number is for all stages.
  std::vector<double> blocking_power_w;
};

/// How the server treats jobs of the Perseus protocol: what theirs takes from PERSEUS_* variables.
struct Settings {
  std::string scheduler;  ///< one of `perseus_scheduler_names`
  Json scheduler_args = Json::object();
  Mode mode = Mode::frequency;
  Arguments arguments;
  /// PointSolution: in the order in which they run. Shared by all jobs; null for other schedulers.
  std::shared_ptr<const std::vector<formats::PerseusPlan>> solutions;
  /// Where results are written; empty: nowhere.
  std::string dump_dir;
  /// `DEBUG` logs every request; the others only what goes wrong.
  std::string log_level{kPerseusLogLevel};

  /// Tells settings apart that would lead a job elsewhere: of scheduler, arguments and the plans' content.
  [[nodiscard]] std::string fingerprint() const;
};

/// All schedulers: `InstructionProfiler`, `PointSolution`, `PointSolution3D`, `ZeusGlobalPowerLimit`,
/// `ZeusLocalPowerState`, `ZeusLocalPowerState3D`, `AllMaxFrequency`, `AllMaxPowerLimit`, `AllMaxPowerLimit3D`,
/// `TwoFrequencies`, `Lowgear`.
[[nodiscard]] std::vector<std::string_view> perseus_scheduler_names();

/// The mode that `read_perseus_settings` is to be given where a person has named none: the scheduler's own, and
/// frequency for one that takes either. Throws InputError when there is no such scheduler.
[[nodiscard]] std::string_view default_perseus_mode(std::string_view scheduler);

/// Reads a person's configuration: `args` a JSON object (empty: none), `mode` one of `frequency`, `power limit`,
/// `unspecified`. Plan files of `solution_path` (a file, or a folder whose `.py` files run in the order of their names,
/// or backwards with `reverse`) are read now, as data. Throws InputError when a scheduler or argument is unknown, an
/// argument missing or out of range, or the mode not that of the scheduler.
[[nodiscard]] Settings read_perseus_settings(std::string_view scheduler, std::string_view args, std::string_view mode);

/// A level of Python's logging in any case, in capitals; the default where it is empty. Throws InputError for others.
[[nodiscard]] std::string read_perseus_log_level(std::string_view text);

/// Reply of `GET /info`; also `perseus.json`.
[[nodiscard]] Json perseus_server_info(const Settings& settings);

}  // namespace lowgear::server::perseus
