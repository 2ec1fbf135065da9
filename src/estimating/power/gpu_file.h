#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/core/formats/json.h"
#include "estimating/power/gpu_power.h"
#include "estimating/power/voltage_curve.h"

namespace lowgear::power {

/// A figure and its standard error.
struct Estimated {
  double value = 0;
  double error = 0;
};

/// The power model of one measured GPU (docs/formats.md, `lowgear.gpu/1`).
struct GpuFile {
  std::string gpu;           ///< the driver's name, or that of the catalogue
  std::string driver;        ///< its version
  std::string date;          ///< of the samples, `2026-11-29`
  bool simulated = false;    ///< measured on a simulated GPU
  double limit_w = 0;        ///< power limit that was enforced
  double max_clock_mhz = 0;  ///< where V^2 is 1
  int multiprocessors = 0;

  /// Awake, at the highest clock, while nothing runs.
  struct StaticPower {
    Estimated at_reference_w;
    double reference_c = kReferenceC;  ///< temperature of at_reference_w
    Estimated per_k_w;                 ///< growth with the temperature
    Estimated clock_tree_w;            ///< the part of at_reference_w that goes with clock x voltage^2
    bool clock_tree_assumed = true;    ///< no sample can tell it from the rest
  } static_power;

  /// Of one type of matrix products, from operands near the tensor cores: for reports, as products of training also
  /// move their operands.
  struct OperationEnergy {
    std::string type;             ///< bf16, fp8, tf32
    Estimated at_max_clock_pj;    ///< of one operation at the highest clock; a multiply-add is two
    double ops_per_cycle_sm = 0;  ///< reached on one multiprocessor
  };
  std::vector<OperationEnergy> operations;

  Estimated byte_pj;           ///< of a byte of device memory at the highest clock; 0: not measured
  Estimated byte_clock_share;  ///< the part of byte_pj that goes with V^2
  Estimated cache_pj;          ///< of a byte of the last-level cache, as byte_pj
  Estimated cache_clock_share;
  Estimated loss_per_kw;  ///< lost in the delivery of a kilowatt of work, as a share of it; grows in proportion
  VoltageCurve voltage;   ///< of the multiprocessors alone
};

/// Reads a GPU file. Throws InputError with file, line and column, or the member's path.
[[nodiscard]] GpuFile parse_gpu_file(std::string_view text, const std::string& source);

/// The file with one of its figures a standard error higher, for each figure that has an error; the voltage as a whole.
[[nodiscard]] std::vector<GpuFile> one_error_off(const GpuFile& file);

/// Replaces static power, power of memory and the voltage curve of a model by those of a file; work still sustains the
/// same clock under the power limit. The energy of work follows the core's curve but for a fixed share.
/// `memory_bytes_per_s` is the data sheet's bandwidth. Throws InputError if the file's highest clock is not
/// `max_clock_mhz`.
void replace(GpuPower& power, const GpuFile& file, double max_clock_mhz, double memory_bytes_per_s);

/// One line about the origin of a file's numbers.
[[nodiscard]] std::string describe(const GpuFile& file);

}  // namespace lowgear::power
