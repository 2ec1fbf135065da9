#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "base/core/energy/checked_counter.h"
#include "base/core/energy/energy_check.h"
#include "hardware/gpu/gpu.h"
#include "hardware/measure/measurement.h"

namespace lowgear::measure {

/// What a GPU may draw between the counter's last step and the edge of a window.
enum class EdgePower : unsigned char {
  recent,    ///< about that of the last second: work that has settled, and iterations, each of which has the next
             ///< one's error with the other sign
  any_seen,  ///< that of any step so far: a window after a pause, or with one at its end
};

/// An energy with its uncertainty.
struct EnergyEstimate {
  double time_s = 0;  ///< of the reading
  double energy_j = 0;
  double uncertainty_j = 0;  ///< how far off it can be
  int run = 0;               ///< number of restarts of the counter: energies of different runs do not compare
};

/// Follows an energy counter that advances in even steps (every 100 ms on an H100), so that the energy at any moment
/// can be read more finely than the counter.
///
/// A step that is seen between two readings happened somewhere between them. As steps are evenly spaced, all recent
/// ones together narrow down the time of the last to some milliseconds, when readings fall at changing phases of the
/// steps. Since then, energy is taken to grow with the power of the last whole step, for a few periods. That is right
/// for a load that begins or ends with a window. Where it changed between that step and the edge, the counter has not
/// shown it yet: the uncertainty covers the powers of its `EdgePower`.
class EnergyTrack {
 public:
  explicit EnergyTrack(EdgePower edge_power = EdgePower::recent) : edge_power_(edge_power) {}

  /// A reading of the counter, taken within `time_error_s` of `time_s`. Times rise; a reading that is missing makes for
  /// a longer step. A counter that falls (the driver was loaded anew) starts the track over.
  void add(double time_s, double energy_j, double time_error_s = 0);
  /// Starts over: later readings do not compare with earlier ones.
  void start_over();

  /// The track has seen two steps, so that `at` can estimate.
  [[nodiscard]] bool ready() const { return !powers_w_.empty(); }
  /// Energy at `time_s`, which is not before the last reading; that of the last step where no step has come for too
  /// long. Empty before `ready`.
  [[nodiscard]] std::optional<EnergyEstimate> at(double time_s) const;

 private:
  struct Reading {
    double earliest_s = 0;
    double energy_j = 0;
  };
  /// A range that holds a value.
  struct Range {
    double low = 0;
    double high = 0;
    [[nodiscard]] double middle() const { return (low + high) / 2; }
    [[nodiscard]] double half_width() const { return (high - low) / 2; }
  };
  /// The counter's step number `index` happened within `time_s`.
  struct Step {
    long index = 0;
    Range time_s;
  };

  void add_step(Range time_s, double energy_j);
  [[nodiscard]] Range edge_power_w() const;
  [[nodiscard]] long periods_since_last(const Range& time_s) const;
  [[nodiscard]] Range period_range() const;
  void narrow_down();

  EdgePower edge_power_;
  std::optional<Range> seen_power_w_;  ///< of all steps
  int run_ = 0;
  std::optional<Reading> last_reading_;
  std::deque<Step> steps_;  ///< the recent ones, as the readings bracketed them
  Range period_s_;          ///< between steps
  Range last_step_s_;       ///< time of the last step, as all of them bracket it
  double last_step_energy_j_ = 0;
  std::deque<double> powers_w_;  ///< of the last steps, oldest first
};

/// One reading of every sensor of a GPU, on the caller's clock.
struct GpuSample : gpu::GpuValues {
  double time_s = 0;           ///< after the last sensor
  double counter_time_s = 0;   ///< of `energy_j`, where there is one
  double counter_error_s = 0;  ///< how much earlier or later it may have been read
  std::string problem;         ///< the last failure; empty without any

  /// Time of the energy's reading; the sample's own time without an energy.
  [[nodiscard]] double energy_time_s() const { return energy_j ? counter_time_s : time_s; }
};

/// Asks every sensor that the GPU has. The counter has its own time: its call takes milliseconds.
[[nodiscard]] GpuSample sample(gpu::Gpu& gpu, const std::function<double()>& now_s);

/// Traits of this GPU's counter, by its highest power limit and its power readings.
[[nodiscard]] CounterTraits counter_traits(gpu::Gpu& gpu);
/// The reading of the counter in a sample, for the check.
[[nodiscard]] CounterReading counter_reading(const GpuSample& sample);

/// Samples of one GPU added up over a window.
class GpuWindow {
 public:
  /// `start` is the counter's estimate at the window's begin; empty where there is no counter.
  GpuWindow(double start_time_s, std::optional<EnergyEstimate> start, const CounterTraits& traits = {});

  /// A sample stands for the time since the one before it, or since the window's begin.
  void add(const GpuSample& sample);

  /// The window up to `end_time_s`. Does not end it. `end` is the counter's estimate there, or earlier when it has not
  /// been read since. `contradiction` says how the two have contradicted each other within the window, if they have.
  /// `problem` of the result says why the counter's energy is impossible, if it is.
  [[nodiscard]] GpuMeasurement measure(double end_time_s, std::optional<EnergyEstimate> end,
                                       const std::string& contradiction = {}) const;
  [[nodiscard]] double start_time_s() const { return start_time_s_; }
  /// Why the last impossible power reading was impossible; empty when all were possible.
  [[nodiscard]] const std::string& impossible_power() const { return power_.impossible(); }

 private:
  /// An energy, and the time over which it was read.
  struct CoveredEnergy {
    double energy_j = 0;
    double covered_s = 0;
  };
  struct Sources;
  [[nodiscard]] Sources sources(double end_time_s, const std::optional<EnergyEstimate>& end) const;
  void choose(const Sources& sources, const std::string& contradiction, GpuMeasurement& result) const;
  [[nodiscard]] CoveredEnergy counted(const std::optional<EnergyEstimate>& end) const;
  [[nodiscard]] EnergyVerdict check(const Sources& sources) const;
  void add_clocks(GpuMeasurement& result) const;

  /// A quantity added up over time.
  struct TimeIntegral {
    double sum = 0;
    double time_s = 0;
    void add(double value, double over_s) {
      sum += value * over_s;
      time_s += over_s;
    }
    [[nodiscard]] std::optional<double> mean() const { return time_s > 0 ? std::optional(sum / time_s) : std::nullopt; }
  };

  struct Extremes {
    std::optional<int> min_clock_mhz;
    std::optional<int> max_clock_mhz;
    std::optional<int> max_temperature_c;
  };

  double start_time_s_;
  std::optional<EnergyEstimate> start_;
  CounterTraits traits_;
  double last_time_s_;
  PowerIntegral power_;
  TimeIntegral clock_;
  TimeIntegral utilisation_;
  TimeIntegral power_capped_;
  TimeIntegral thermally_throttled_;
  Extremes extremes_;
  int readings_ = 0;
};

/// Measures windows from the samples of one GPU. Has no thread and no clock: callers pass rising times.
class GpuMeter {
 public:
  GpuMeter(gpu::GpuIdentity identity, const gpu::GpuFeatures& features, const CounterTraits& traits = {},
           EdgePower edge_power = EdgePower::recent);
  /// Asks the GPU for its traits.
  explicit GpuMeter(gpu::Gpu& gpu, EdgePower edge_power = EdgePower::recent)
      : GpuMeter(gpu.identity(), gpu.features(), counter_traits(gpu), edge_power) {}

  void add(const GpuSample& sample);
  /// The counter has shown two steps, or there is none: a window that begins now is measured at full precision.
  [[nodiscard]] bool ready() const;

  [[nodiscard]] GpuWindow begin(double time_s) const;
  [[nodiscard]] GpuMeasurement measure(const GpuWindow& window, double time_s) const;
  /// Why the counter's energy is not used, or a difference to report; empty without either.
  [[nodiscard]] const EnergyVerdict& counter_state() const { return check_.state(); }

 private:
  [[nodiscard]] std::string why_not_counted(const GpuWindow& window) const;

  gpu::GpuIdentity identity_;
  gpu::GpuFeatureStatus counter_;
  CounterTraits traits_;
  CheckedCounter check_;
  EnergyTrack track_;
  double counter_time_s_ = 0;    ///< of its last reading
  bool counter_answers_ = true;  ///< in the last sample, and it does not stand still
  std::string set_aside_;        ///< why the last impossible step was impossible
  double set_aside_s_ = 0;       ///< when
  std::string contradiction_;    ///< of the counter and the power readings, the last one
  double contradiction_s_ = 0;   ///< when it was last seen
  std::string problem_;
};

}  // namespace lowgear::measure
