#pragma once

#include <string_view>

#include "planning/profile/stage_profile.h"

namespace lowgear::profile {

/// A GPU for a time and power model. Values and sources in docs/profiling.md.
struct ExampleGpu {
  int max_clock_mhz = 1410;
  int min_clock_mhz = 210;
  int clock_step_mhz = 15;
  double peak_flop_s = 312e12;        ///< dense bf16, at the highest clock
  double memory_byte_s = 2039e9;      ///< independent of the SM clock
  double link_byte_s = 300e9;         ///< NVLink, one direction
  double matrix_efficiency = 0.75;    ///< share of the peak that matrix products reach
  double link_efficiency = 0.8;       ///< share of the link that all-reduces reach
  double static_power_w = 100;        ///< p0: does not depend on the clock
  double power_at_max_clock_w = 360;  ///< p0 + p1 f V^2 at the highest clock
  double voltage_floor = 0.72;        ///< of the voltage at the highest clock
  int voltage_knee_mhz = 810;         ///< the voltage is at its floor up to here and rises in a line from here
};

/// A GPT of equal transformer layers, cut into stages of equal numbers of layers; the last stage also has the language
/// model head.
struct TransformerModel {
  int hidden_size = 12288;
  int layers = 96;
  int heads = 96;
  int vocabulary = 50257;
  int sequence = 2048;
  int microbatch = 1;
  int tensor_parallel = 8;
  int stages = 8;
};

/// Supply voltage as a share of that at the highest clock.
[[nodiscard]] double relative_voltage(const ExampleGpu& gpu, int clock_mhz);

/// P = p0 + p1 f V(f)^2 in watts.
[[nodiscard]] double power_w(const ExampleGpu& gpu, int clock_mhz);

/// Seconds of one forward of a stage: t = a + b / f. `a` is what memory and links take, `b / f` the matrix products.
[[nodiscard]] double forward_time_s(const ExampleGpu& gpu, const TransformerModel& model, int stage, int clock_mhz);
/// The same of a backward: twice the matrix products and memory traffic, as many all-reduces.
[[nodiscard]] double backward_time_s(const ExampleGpu& gpu, const TransformerModel& model, int stage, int clock_mhz);

/// A profile of every stage at every clock of the GPU, energy being power x time. *Modelled*, not measured.
[[nodiscard]] StageProfile modelled_profile(const ExampleGpu& gpu, const TransformerModel& model);

/// The one that comes with Lowgear: GPT-3 175B on eight stages of A100-like GPUs.
[[nodiscard]] StageProfile example_profile();

/// Power of a GPU that waits in examples: assumed.
inline constexpr double kExampleBlockingPowerW = 75;

/// Whether this is `example_profile()`, so that whatever is made from it can say so.
[[nodiscard]] bool is_example_profile(const StageProfile& profile);

/// The note that commands print with its figures.
inline constexpr std::string_view kExampleProfileNotice =
    "made from Lowgear's example profile, which is modelled, not measured: figures show what Lowgear does, not what a "
    "GPU would save";

}  // namespace lowgear::profile
