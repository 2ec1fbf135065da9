#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace lowgear {

/// A GPU draws at most this multiple of its power limit on average over a step of its counter or longer. The limit's
/// controller overshoots for milliseconds: an H100 with a limit of 700 W showed a reading of 949 W
/// (docs/hardware.md).
inline constexpr double kPowerLimitOvershoot = 2;
/// Over a longer time than this a GPU draws at most kLastingOvershoot times its limit.
inline constexpr double kOvershootS = 0.2;
/// The first second of an H100's controller is 5 % above the limit (docs/simgpu.md), and counters have errors.
inline constexpr double kLastingOvershoot = 1.15;
/// Highest power of a GPU whose limit is unknown: the largest modules of 2026 have limits of 1,400 W (a B300), and
/// 2,700 W with two GPUs and a CPU (a GB200).
inline constexpr double kHighestGpuPowerW = 3000;
/// Lowest power of a GPU that responds: the smallest idle at some watts. A lower reading is invalid, or in another
/// unit.
inline constexpr double kLowestGpuPowerW = 1;
/// Highest power of a CPU package or its memory: the largest of 2026 are sold for 500 W.
inline constexpr double kHighestCpuPowerW = 2000;
/// Share of the larger one by which a counter and integrated power readings may differ, besides their errors, without
/// a report: up to 0.5 % over 10 s on an H100, at worst 6.9 % (docs/hardware.md).
inline constexpr double kNotableDifference = 0.10;
/// Share from which on they contradict each other. A100 and H100 sample power during a quarter of the time
/// (arXiv 2312.02741), which errs by more where the load keeps time with the sampling.
inline constexpr double kContradiction = 0.25;
/// Error of integrated power readings as a share of the energy: the worst that was seen (docs/hardware.md).
inline constexpr double kIntegratedPowerError = 0.07;
/// A counter that has not moved for this long has failed. An H100's moves every 0.1 s.
inline constexpr double kLongestStepS = 0.5;

/// Why an energy is impossible or unreliable. The names are part of messages and metrics.
enum class EnergyFault : unsigned char {
  none,
  differs,       ///< notably from the power readings: the energy is used, and the difference reported
  contradicts,   ///< the power readings, by more than both can err
  stands_still,  ///< no energy, or less than a GPU needs, over a time in which a GPU or CPU draws some
  falls,         ///< less than nothing, or not a number
  too_high,      ///< above anything that the GPU or CPU can draw
};
inline constexpr int kEnergyFaultCount = 6;
/// `none`, `differs`, `contradicts`, `stands_still`, `falls`, `too_high`
[[nodiscard]] std::string_view name(EnergyFault fault);

/// Power readings added up over the time of the energy.
struct IntegratedPower {
  double energy_j = 0;
  double error_j = 0;  ///< at the edges of the time, besides the shares above
};

/// An energy that a counter (as the difference of two readings), a report or a recording states.
struct StatedEnergy {
  double energy_j = 0;
  double time_s = 0;
  double error_j = 0;   ///< of the energy; 0: unknown
  double period_s = 0;  ///< of the counter's steps: the energy may be of a time longer or shorter by this
  /// The most that the GPU or CPU can draw; `highest_gpu_power_w` of the limit for a GPU.
  double highest_power_w = kHighestGpuPowerW;
  /// For longer than kOvershootS; `lasting_gpu_power_w` of the highest limit that it may have had.
  double lasting_power_w = kHighestGpuPowerW;
  /// The least that it draws; kLowestGpuPowerW for a GPU that responded in that time.
  double lowest_power_w = 0;
  std::optional<IntegratedPower> readings = std::nullopt;
};

/// The most that a GPU with this power limit can draw for a moment, and any GPU without one.
[[nodiscard]] double highest_gpu_power_w(std::optional<double> power_limit_w);
/// The most that a GPU with this limit can draw for longer than kOvershootS.
[[nodiscard]] double lasting_gpu_power_w(std::optional<double> power_limit_w);

/// Why a GPU that answers cannot draw this much, as the rest of a sentence whose subject is the power reading: `is 0 W,
/// and ...`. Empty where it can. Such a reading is ignored.
[[nodiscard]] std::string why_no_power(double power_w, double highest_power_w = kHighestGpuPowerW);

struct EnergyVerdict {
  EnergyFault fault = EnergyFault::none;
  /// Both figures, as the rest of a sentence whose subject is the source of the energy: `the energy counter ...`,
  /// `the report ...`. Empty without a fault.
  std::string reason;

  /// The energy can be used: it has no fault, or only a difference to mention.
  [[nodiscard]] bool usable() const { return fault == EnergyFault::none || fault == EnergyFault::differs; }
};

/// Judges whether a GPU or CPU can have drawn this energy in this time. Ignores impossible power readings
/// (`why_no_power`). `contradicts`: both figures are possible, and it is unknown which one is right. Every energy from
/// a counter, a report or a recording passes through this function.
[[nodiscard]] EnergyVerdict check_energy(const StatedEnergy& stated);

/// Energies of intervals that follow each other, as iterations of one rank, judged together. A step of the counter
/// excuses a run of intervals once: one that is shorter than a step may show the energy of a whole one, or none, but
/// not each of a hundred. So does the overshoot of a power limit.
class EnergyRun {
 public:
  struct Judged {
    EnergyVerdict verdict;
    std::int64_t first = 0;  ///< the intervals from this one on make the verdict together
  };

  /// Takes the next interval. Numbers rise; intervals that are left out took as long as this one.
  [[nodiscard]] Judged add(std::int64_t number, const StatedEnergy& stated);

 private:
  /// Intervals that are judged together.
  struct Span {
    std::int64_t first = 0;
    StatedEnergy sum;

    void add(const StatedEnergy& stated);
  };

  std::optional<std::int64_t> last_;
  Span run_;             ///< since the excess was 0
  double excess_j_ = 0;  ///< largest excess of intervals up to the last one over the most that can be drawn
  Span still_;           ///< intervals up to the last one with less energy than the least that can be drawn
};

/// Power readings added up over time, with their error.
class PowerIntegral {
 public:
  /// Each reading is the mean power of this time before it: 0.1 s for NVML's instant power, 1 s for its average.
  explicit PowerIntegral(double averaging_s, double highest_power_w = kHighestGpuPowerW)
      : averaging_s_(averaging_s), highest_power_w_(highest_power_w) {}

  /// Adds a reading, `over_s` after the previous one or after the begin. Interpolates power linearly between readings.
  /// Leaves out the time of an empty or impossible reading (`why_no_power`).
  void add(std::optional<double> power_w, double over_s);

  [[nodiscard]] double energy_j() const { return energy_j_; }
  [[nodiscard]] double covered_s() const { return covered_s_; }
  [[nodiscard]] std::optional<double> last_power_w() const { return last_power_w_; }
  [[nodiscard]] std::optional<double> peak_power_w() const;

  /// The energy until `rest_s` after the last reading, at constant power since then.
  [[nodiscard]] IntegratedPower until(double rest_s) const;
  /// There are enough readings to check an energy with them.
  [[nodiscard]] bool comparable() const;
  /// The times between readings are alike, or no longer than a reading covers. On a busy machine readings come late,
  /// and in step with the load: such a sample is no mean of the power.
  [[nodiscard]] bool is_even() const;
  /// There are many readings, all equal: no GPU draws that evenly.
  [[nodiscard]] bool is_stuck() const;
  /// Why the last impossible reading was impossible; empty when all were possible.
  [[nodiscard]] const std::string& impossible() const { return impossible_; }

 private:
  double averaging_s_;
  double highest_power_w_;
  double energy_j_ = 0;
  double covered_s_ = 0;
  int readings_ = 0;
  int gaps_ = 0;  ///< times between readings
  double squared_gaps_s2_ = 0;
  std::optional<double> last_power_w_;
  double lowest_w_ = std::numeric_limits<double>::infinity();
  double highest_w_ = -std::numeric_limits<double>::infinity();
  std::string impossible_;
  double squared_changes_j2_ = 0;  ///< squared errors of the changes from reading to reading
};

/// The whole error of integrated power readings.
[[nodiscard]] double error_j(const IntegratedPower& power);

}  // namespace lowgear
