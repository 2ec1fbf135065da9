#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hardware/gpu/gpu.h"
#include "hardware/measure/energy_track.h"
#include "hardware/measure/measurement.h"

namespace lowgear::measure {

/// One reading of every sensor of a GPU, on the caller's clock.
struct GpuSample : gpu::GpuValues {
  double time_s = 0;          ///< after the last sensor
  double counter_time_s = 0;  ///< of `energy_j`, where there is one
  std::string problem;        ///< the last thing that failed; empty when nothing did

  /// When the energy was read; the sample's own time where there is none.
  [[nodiscard]] double energy_time_s() const { return energy_j ? counter_time_s : time_s; }
};

/// Asks every sensor that the GPU has. The counter has its own time: its call takes milliseconds.
[[nodiscard]] GpuSample sample(gpu::Gpu& gpu, const std::function<double()>& now_s);

/// Samples of one GPU added up over a window.
class GpuWindow {
 public:
  /// `start` is the counter's estimate at the window's begin; empty where there is no counter.
  GpuWindow(double start_time_s, std::optional<EnergyEstimate> start);

  /// A sample stands for the time since the one before it, or since the window's begin.
  void add(const GpuSample& sample);

  /// The window up to `end_time_s`. Does not end it. `end` is the counter's estimate there, or earlier when it has not
  /// been read since.
  [[nodiscard]] GpuMeasurement measure(double end_time_s, std::optional<EnergyEstimate> end) const;

 private:
  /// An energy, and the time over which it was read.
  struct CoveredEnergy {
    double energy_j = 0;
    double covered_s = 0;
  };
  [[nodiscard]] CoveredEnergy counted(const std::optional<EnergyEstimate>& end) const;
  [[nodiscard]] CoveredEnergy integrated(double end_time_s) const;

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
    std::optional<double> peak_power_w;
    std::optional<int> min_clock_mhz;
    std::optional<int> max_clock_mhz;
    std::optional<int> max_temperature_c;
  };

  double start_time_s_;
  std::optional<EnergyEstimate> start_;
  double last_time_s_;
  std::optional<double> last_power_w_;
  TimeIntegral power_;
  TimeIntegral clock_;
  TimeIntegral utilisation_;
  TimeIntegral power_capped_;
  TimeIntegral thermally_throttled_;
  Extremes extremes_;
  int readings_ = 0;
};

/// What the samples of one GPU say about any window. Has no thread and no clock: times are passed in and rise.
class GpuMeter {
 public:
  GpuMeter(gpu::GpuIdentity identity, const gpu::GpuFeatures& features);

  void add(const GpuSample& sample);
  /// The counter has shown two steps, or there is none: a window that begins now is measured as well as it can be.
  [[nodiscard]] bool ready() const;

  [[nodiscard]] GpuWindow begin(double time_s) const;
  [[nodiscard]] GpuMeasurement measure(const GpuWindow& window, double time_s) const;

 private:
  gpu::GpuIdentity identity_;
  gpu::GpuFeatureStatus counter_;
  EnergyTrack track_;
  double counter_time_s_ = 0;    ///< of its last reading
  bool counter_answers_ = true;  ///< in the last sample
  std::string problem_;
};

}  // namespace lowgear::measure
