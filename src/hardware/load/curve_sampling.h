#pragma once

#include <functional>
#include <span>
#include <vector>

#include "estimating/curve/curve_sample.h"
#include "hardware/gpu/gpu.h"
#include "hardware/load/gpu_load.h"

namespace lowgear::load {

/// Measures loads of a GPU one after another: its energy, clocks and temperature at the clock that it chooses.
struct CurveRun {
  const gpu::GpuSystem& system;
  gpu::Gpu& gpu;
  GpuLoad& load;
  double settle_s = 1.4;  ///< of a load before it is measured: the power limit has found its clock
  double window_s = 2.2;  ///< of the measurement
  std::function<bool()> asked_to_end = [] { return false; };  ///< ends the run after a sample
  /// Called with every sample.
  std::function<void(const curve::CurveSample&)> on_sample = {};
};

/// The samples of the plan's loads, in its order; fewer if the run was asked to end. A load whose energy or clock the
/// GPU does not report has no sample. Throws gpu::GpuError where the GPU has no energy counter or no clock.
[[nodiscard]] std::vector<curve::CurveSample> sample_curve(const CurveRun& run, std::span<const curve::CurveLoad> plan);

}  // namespace lowgear::load
