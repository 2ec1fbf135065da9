#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "estimating/curve/curve_sample.h"
#include "estimating/power/gpu_file.h"
#include "estimating/power/voltage_curve.h"

namespace lowgear::curve {

/// What samples at natural clocks hardly show, as an expectation with its standard deviation.
struct CurveFitOptions {
  power::Estimated clock_tree_share = {0.3, 0.15};  ///< part of the static power that goes with clock x voltage^2
  power::Estimated byte_clock_share = {0.5,
                                       0.3};  ///< part of a byte's energy that goes with voltage^2, in memory and cache
  power::Estimated loss_per_kw = {0.2, 0.3};  ///< loss in the delivery of power, as a share of a kilowatt
  double lowest_clock_mhz = 0;  ///< the curve is extrapolated to this clock; 0: to half of the lowest measured
};

/// Energy of one kind of load: its type, data and additions, without its numbers of multiprocessors.
struct LoadEnergy {
  CurveLoad load;
  power::Estimated pj;          ///< of an operation at the highest clock
  double ops_per_cycle_sm = 0;  ///< mean
  int samples = 0;
};

/// A sample and what the fit makes of it.
struct FittedSample {
  double clock_mhz = 0;  ///< by the rate of its products, which a driver's readings miss by up to 1 %
  double fitted_w = 0;
  double relative_v2 = 1;        ///< what this sample alone says about V^2, given everything else
  double relative_v2_error = 0;  ///< one standard deviation, of the sample's power alone
  std::string left_out = {};     ///< the reason; empty for a sample that the fit uses
};

/// Power of a GPU as a function of its load and clock:
///   P = S + s (T - 40 C) + d t - C (1 - f V^2 / f_max) + a B + m B / (B + 0.5 TB/s) + c L + W + q W^2
///   W = (e operations/s + b B + h L) V^2
/// with static power S and its growth s with temperature, a drift d over the time of measurement, a clock tree C,
/// energies e of an operation by kind of load, bytes B of device memory and L of the last-level cache in a second,
/// memory that is awake m, a loss q in the delivery of the power, and V^2 as a table over the clock f, 1 at the
/// highest.
struct CurveFit {
  double max_clock_mhz = 0;
  power::GpuFile::StaticPower static_power;
  power::Estimated loss_per_kw;  ///< q
  power::Estimated drift_w;      ///< over all the time of measurement
  std::vector<LoadEnergy> loads;
  power::Estimated byte_pj;  ///< at the highest clock and the highest rate of the samples; 0: none reads memory
  power::Estimated byte_clock_share;
  power::Estimated cache_pj;  ///< of a byte of the last-level cache at the highest clock, c + h; 0: none reads it
  power::Estimated cache_clock_share;  ///< h / (c + h)
  power::VoltageCurve voltage;
  std::vector<FittedSample> samples;  ///< in the order given
  double residual = 0;                ///< standard deviation of measured over fitted power, of the samples used

  [[nodiscard]] std::size_t left_out() const;
};

/// Fits by least squares, weighted by the errors of the samples, which are raised to explain the residuals. Leaves out,
/// with a reason: samples whose clock heat held down, idle ones below the highest clock, and outliers of more than five
/// standard deviations. Errors of the result follow from the residuals and the expectations in `options`. Throws
/// InputError where the samples do not suffice: fewer than eight, or none below the highest clock.
[[nodiscard]] CurveFit fit_curve(std::span<const CurveSample> samples, const CurveFitOptions& options = {});

/// Origin of samples.
struct CurveOrigin {
  std::string gpu = {};  ///< as the driver names it
  std::string driver = {};
  std::string date = {};
  bool simulated = false;
  double limit_w = 0;
  int multiprocessors = 0;
};
/// The file of a fitted GPU. Its energies of operations are those of finite numbers, where there are samples of them.
[[nodiscard]] power::GpuFile gpu_file(const CurveFit& fit, const CurveOrigin& origin);

}  // namespace lowgear::curve
