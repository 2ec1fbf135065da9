#include "hardware/measure/gpu_meter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/core/energy/energy_check.h"

namespace lowgear::measure {

namespace {

/// Steps that are looked back on: some seconds of an H100's. Over longer times its clock need not agree with ours.
constexpr std::size_t kRememberedSteps = 64;
/// Steps whose powers say how much the power changes from one to the next.
constexpr std::size_t kRememberedPowers = 10;
/// Periods without a step after which the counter does not tell what is drawn, where that is longer than
/// `kLongestStepS`.
constexpr double kMostPeriodsWithoutStep = 3;

}  // namespace

void EnergyTrack::add(double time_s, double energy_j, double time_error_s) {
  if (last_reading_ && energy_j < last_reading_->energy_j) start_over();
  if (last_reading_ && energy_j > last_reading_->energy_j) {
    add_step({.low = last_reading_->earliest_s, .high = time_s + time_error_s}, energy_j);
  }
  last_reading_ = Reading{.earliest_s = time_s - time_error_s, .energy_j = energy_j};
}

void EnergyTrack::start_over() {
  const int run = run_ + 1;
  *this = EnergyTrack(edge_power_);
  run_ = run;
}

void EnergyTrack::add_step(Range time_s, double energy_j) {
  // Slow readings miss steps: what they see is the last of them, less than a period ago.
  if (steps_.size() > 1) time_s.low = std::max(time_s.low, time_s.high - period_s_.high);
  const bool is_first = steps_.empty();
  const long passed = is_first ? 0 : periods_since_last(time_s);
  // Over so many periods, those before no longer say when this step was.
  if (passed > static_cast<long>(kRememberedSteps)) steps_.clear();
  steps_.push_back({.index = steps_.empty() ? 0 : steps_.back().index + passed, .time_s = time_s});
  if (steps_.size() > kRememberedSteps) steps_.pop_front();
  narrow_down();
  if (!is_first) {
    const double power_w = (energy_j - last_step_energy_j_) / (static_cast<double>(passed) * period_s_.middle());
    const Range seen = seen_power_w_.value_or(Range{.low = power_w, .high = power_w});
    seen_power_w_ = Range{.low = std::min(seen.low, power_w), .high = std::max(seen.high, power_w)};
    powers_w_.push_back(power_w);
    if (powers_w_.size() > kRememberedPowers) powers_w_.pop_front();
  }
  last_step_energy_j_ = energy_j;
}

/// How many periods a new step is from the last. The fewest that the periods known so far
/// allow; the first two steps are taken for neighbours.
long EnergyTrack::periods_since_last(const Range& time_s) const {
  if (steps_.size() < 2) return 1;
  const double shortest_s = time_s.low - last_step_s_.high;
  const auto fewest = static_cast<long>(std::ceil(shortest_s / period_s_.high));
  return std::max(1L, fewest);
}

/// The periods that agree with every pair of steps.
EnergyTrack::Range EnergyTrack::period_range() const {
  Range period{.low = 0, .high = std::numeric_limits<double>::infinity()};
  for (std::size_t later = 1; later < steps_.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const auto periods = static_cast<double>(steps_[later].index - steps_[earlier].index);
      period.low = std::max(period.low, (steps_[later].time_s.low - steps_[earlier].time_s.high) / periods);
      period.high = std::min(period.high, (steps_[later].time_s.high - steps_[earlier].time_s.low) / periods);
    }
  }
  return period;
}

/// Brings all steps to bear on the time of the last. Steps that are not evenly spaced after all are forgotten.
void EnergyTrack::narrow_down() {
  const Step last = steps_.back();
  if (steps_.size() > 1) {
    period_s_ = period_range();
    Range time_s = last.time_s;
    for (const Step& step : steps_) {
      const auto periods = static_cast<double>(last.index - step.index);
      time_s.low = std::max(time_s.low, step.time_s.low + periods * period_s_.low);
      time_s.high = std::min(time_s.high, step.time_s.high + periods * period_s_.high);
    }
    if (period_s_.low <= period_s_.high && time_s.low <= time_s.high) {
      last_step_s_ = time_s;
      return;
    }
    const Step before = steps_[steps_.size() - 2];
    steps_ = {before, last};
    period_s_ = period_range();
  }
  last_step_s_ = last.time_s;
}

EnergyTrack::Range EnergyTrack::edge_power_w() const {
  if (edge_power_ == EdgePower::any_seen) return *seen_power_w_;
  const auto [least, most] = std::ranges::minmax(powers_w_);
  const double half_spread_w = (most - least) / 2;
  return {.low = powers_w_.back() - half_spread_w, .high = powers_w_.back() + half_spread_w};
}

std::optional<EnergyEstimate> EnergyTrack::at(double time_s) const {
  if (!ready()) return std::nullopt;
  const double power_w = powers_w_.back();
  const double longest_s = std::max(kLongestStepS, kMostPeriodsWithoutStep * period_s_.middle());
  if (time_s - last_step_s_.middle() > longest_s) time_s = last_step_s_.middle();
  const double since_step_s = std::max(0.0, time_s - last_step_s_.middle());
  const Range edge_w = edge_power_w();
  const auto off_j = [&](double edge_power_w) {
    return std::abs(edge_power_w - power_w) * since_step_s + edge_power_w * last_step_s_.half_width();
  };
  return EnergyEstimate{
      .time_s = time_s,
      .energy_j = last_step_energy_j_ + power_w * since_step_s,
      .uncertainty_j = std::max(off_j(edge_w.low), off_j(edge_w.high)),
      .run = run_,
  };
}

namespace {

/// A counter that could not be read for the rest of a window is still worth more than power readings, which say
/// nothing of how far off they are, unless they cover clearly more.
constexpr double kCounterPreferredShare = 0.9;
/// By which an honest counter and honest power readings differ, besides their errors (docs/hardware.md). Where they
/// differ by more, the error of the energy covers both.
constexpr double kAgreeingShare = 0.02;
/// Power readings of a longer time than this stand for it, however they came; those of a shorter one only if they came
/// evenly.
constexpr double kLongS = 3;
/// Over which NVML averages power (docs/hardware.md).
constexpr double kInstantPowerS = 0.1;
constexpr double kAveragePowerS = 1;

template <typename Value>
void raise(std::optional<Value>& highest, Value value) {
  highest = highest ? std::max(*highest, value) : value;
}

template <typename Value>
void lower(std::optional<Value>& lowest, Value value) {
  lowest = lowest ? std::min(*lowest, value) : value;
}

}  // namespace

GpuWindow::GpuWindow(double start_time_s, std::optional<EnergyEstimate> start, const CounterTraits& traits)
    : start_time_s_(start_time_s),
      start_(start),
      traits_(traits),
      last_time_s_(start_time_s),
      power_(traits.power_averaging_s, traits.highest_power_w) {}

void GpuWindow::add(const GpuSample& sample) {
  if (sample.time_s <= last_time_s_) return;  // taken before the window began
  const double over_s = sample.time_s - last_time_s_;
  last_time_s_ = sample.time_s;
  ++readings_;
  power_.add(sample.power_w, over_s);
  if (sample.sm_clock_mhz) {
    clock_.add(*sample.sm_clock_mhz, over_s);
    lower(extremes_.min_clock_mhz, *sample.sm_clock_mhz);
    raise(extremes_.max_clock_mhz, *sample.sm_clock_mhz);
  }
  if (sample.temperature_c) raise(extremes_.max_temperature_c, *sample.temperature_c);
  if (sample.gpu_utilisation_percent) utilisation_.add(*sample.gpu_utilisation_percent, over_s);
  if (sample.throttle_reasons) {
    power_capped_.add(sample.throttle_reasons->power_cap() ? 1 : 0, over_s);
    thermally_throttled_.add(sample.throttle_reasons->thermal() ? 1 : 0, over_s);
  }
}

/// Energy by the counter; empty if it started over, or was not read since the window's begin.
GpuWindow::CoveredEnergy GpuWindow::counted(const std::optional<EnergyEstimate>& end) const {
  if (!start_ || !end || start_->run != end->run || end->time_s <= start_->time_s) return {};
  return {.energy_j = std::max(0.0, end->energy_j - start_->energy_j), .covered_s = end->time_s - start_->time_s};
}

/// What counter and power readings say of a window.
struct GpuWindow::Sources {
  CoveredEnergy counter;
  double counter_error_j = 0;
  CoveredEnergy power;
  IntegratedPower readings;

  [[nodiscard]] bool both() const { return counter.covered_s > 0 && power.covered_s > 0; }
  /// They are of the same time.
  [[nodiscard]] bool compare() const { return both() && power.covered_s >= kCounterPreferredShare * counter.covered_s; }
  /// The power readings over the counter's time.
  [[nodiscard]] IntegratedPower scaled_readings() const {
    const double scale = counter.covered_s / power.covered_s;
    return {.energy_j = readings.energy_j * scale, .error_j = readings.error_j * scale};
  }
  [[nodiscard]] double difference_j() const { return std::abs(counter.energy_j - scaled_readings().energy_j); }
};

GpuWindow::Sources GpuWindow::sources(double end_time_s, const std::optional<EnergyEstimate>& end) const {
  const double rest_s = power_.last_power_w() ? std::max(0.0, end_time_s - last_time_s_) : 0;
  const IntegratedPower readings = power_.until(rest_s);  // the last reading holds until the end
  return {.counter = counted(end),
          .counter_error_j = start_ && end ? end->uncertainty_j + start_->uncertainty_j : 0,
          .power = {.energy_j = readings.energy_j, .covered_s = power_.covered_s() + rest_s},
          .readings = readings};
}

/// Power readings are held against the counter where they cover the same time: for long enough, or evenly.
EnergyVerdict GpuWindow::check(const Sources& sources) const {
  std::optional<IntegratedPower> readings;
  const bool represents = power_.is_even() || sources.power.covered_s >= kLongS;
  if (traits_.compares_power && power_.comparable() && represents && sources.compare())
    readings = sources.scaled_readings();
  return check_energy({.energy_j = sources.counter.energy_j,
                       .time_s = sources.counter.covered_s,
                       .error_j = sources.counter_error_j,
                       .period_s = readings ? 0 : traits_.period_s,
                       .highest_power_w = traits_.highest_power_w,
                       .lasting_power_w = traits_.lasting_power_w,
                       .lowest_power_w = traits_.lowest_power_w,
                       .readings = readings});
}

/// The counter, where it can be and says enough; otherwise the power readings. Where neither is impossible and they
/// contradict each other, the error covers both.
void GpuWindow::choose(const Sources& sources, const std::string& contradiction, GpuMeasurement& result) const {
  const CoveredEnergy& counter = sources.counter;
  bool counter_serves = counter.covered_s > 0 && counter.covered_s >= kCounterPreferredShare * sources.power.covered_s;
  bool contradicts = sources.both() && !contradiction.empty();
  if (counter_serves) {
    const EnergyVerdict verdict = check(sources);
    contradicts = verdict.fault == EnergyFault::contradicts || (contradicts && verdict.usable());
    const std::string& reason = contradicts && verdict.usable() ? contradiction : verdict.reason;
    if (!reason.empty()) result.problem = "the energy counter " + reason;
    counter_serves = verdict.usable() && !contradicts;
  }
  if (contradicts) {
    counter_serves = power_.is_stuck();
    result.problem += counter_serves ? "; the power readings never change, and the error covers both"
                                     : "; it is not known which of them is right, and the error covers both";
  }
  const CoveredEnergy& energy = counter_serves ? counter : sources.power;
  result.source = counter_serves ? EnergySource::counter : EnergySource::integrated_power;
  result.covered_s = energy.covered_s;
  if (energy.covered_s > 0) {
    result.energy_j = energy.energy_j;
    result.mean_power_w = energy.energy_j / energy.covered_s;
  }
  if (counter_serves) {
    result.energy_uncertainty_j = sources.counter_error_j;
  } else if (power_.comparable()) {
    result.energy_uncertainty_j = error_j(sources.readings);
  }
  if (!result.energy_uncertainty_j || !traits_.compares_power || !sources.compare()) return;
  const double unexplained_j = sources.difference_j() - sources.scaled_readings().error_j - sources.counter_error_j;
  if (contradicts || (counter_serves && unexplained_j > kAgreeingShare * counter.energy_j)) {
    *result.energy_uncertainty_j += sources.difference_j();
  }
}

GpuMeasurement GpuWindow::measure(double end_time_s, std::optional<EnergyEstimate> end,
                                  const std::string& contradiction) const {
  GpuMeasurement result;
  result.time_s = end_time_s - start_time_s_;
  const Sources sources = this->sources(end_time_s, end);
  if (sources.power.covered_s > 0) result.integrated_power_j = sources.power.energy_j;
  choose(sources, contradiction, result);
  result.peak_power_w = power_.peak_power_w();
  // Readings lie between the moments that they are taken at; the counter's energy shows what they have missed.
  if (result.peak_power_w && result.mean_power_w) {
    result.peak_power_w = std::max(*result.peak_power_w, *result.mean_power_w);
  }
  add_clocks(result);
  return result;
}

void GpuWindow::add_clocks(GpuMeasurement& result) const {
  result.mean_sm_clock_mhz = clock_.mean();
  result.min_sm_clock_mhz = extremes_.min_clock_mhz;
  result.max_sm_clock_mhz = extremes_.max_clock_mhz;
  result.max_temperature_c = extremes_.max_temperature_c;
  result.mean_utilisation_percent = utilisation_.mean();
  if (power_capped_.time_s > 0) {
    result.power_capped_s = power_capped_.sum;
    result.thermally_throttled_s = thermally_throttled_.sum;
  }
  result.readings = readings_;
}

GpuSample sample(gpu::Gpu& gpu, const std::function<double()>& now_s) {
  GpuSample result;
  std::optional<gpu::GpuFeature> answered;
  for (const gpu::GpuSensor& sensor : gpu::gpu_sensors()) {
    if (!works(gpu, sensor.feature) || (answered && sensor.stand_in_for == answered)) continue;
    const bool is_counter = sensor.feature == gpu::GpuFeature::energy_counter;
    try {
      const double before_s = is_counter ? now_s() : 0;
      gpu.read(sensor.feature, result);
      if (is_counter) {
        const double after_s = now_s();
        result.counter_time_s = (before_s + after_s) / 2;
        result.counter_error_s = (after_s - before_s) / 2;
      }
      answered = sensor.feature;
    } catch (const gpu::GpuError& error) {
      result.problem = error.what();
    }
  }
  result.time_s = now_s();
  return result;
}

CounterTraits counter_traits(gpu::Gpu& gpu) {
  CounterTraits traits;
  traits.compares_power = !gpu.identity().counts_whole_module;
  if (!works(gpu, gpu::GpuFeature::instant_power)) traits.power_averaging_s = kAveragePowerS;
  if (!traits.compares_power || !works(gpu, gpu::GpuFeature::power_limits)) return traits;
  try {
    // The highest that can be set: the limit in effect may change at any time.
    const double limit_w = gpu.power_limits().max_w;
    traits.highest_power_w = highest_gpu_power_w(limit_w);
    traits.lasting_power_w = lasting_gpu_power_w(limit_w);
  } catch (const gpu::GpuError&) {
    // Without a limit the bound of all GPUs holds.
  }
  return traits;
}

CounterReading counter_reading(const GpuSample& sample) {
  return {.time_s = sample.energy_time_s(),
          .time_error_s = sample.counter_error_s,
          .energy_j = sample.energy_j,
          .power_w = sample.power_w};
}

GpuMeter::GpuMeter(gpu::GpuIdentity identity, const gpu::GpuFeatures& features, const CounterTraits& traits,
                   EdgePower edge_power)
    : identity_(std::move(identity)),
      counter_(features[static_cast<std::size_t>(gpu::GpuFeature::energy_counter)]),
      traits_(traits),
      check_(traits),
      track_(edge_power) {}

void GpuMeter::add(const GpuSample& sample) {
  if (!sample.problem.empty()) problem_ = gpu::without_gpu_name(sample.problem, identity_.uuid);
  if (!counter_.works) return;
  const EnergyVerdict step = check_.add(counter_reading(sample));
  if (!step.usable()) {
    set_aside_ = step.reason;
    set_aside_s_ = sample.energy_time_s();
    track_.start_over();
  }
  if (check_.state().fault == EnergyFault::contradicts) {
    contradiction_ = check_.state().reason;
    contradiction_s_ = sample.energy_time_s();
  }
  counter_answers_ = sample.energy_j && check_.state().fault != EnergyFault::stands_still;
  if (!sample.energy_j) return;
  // A counter that stands still has said nothing since its last step.
  counter_time_s_ = check_.state().fault == EnergyFault::stands_still ? check_.last_change_s() : sample.counter_time_s;
  track_.add(sample.counter_time_s, *sample.energy_j, sample.counter_error_s);
}

bool GpuMeter::ready() const {
  return track_.ready() || !counter_.works || !problem_.empty() || !check_.state().usable();
}

GpuWindow GpuMeter::begin(double time_s) const {
  std::optional<EnergyEstimate> start = counter_answers_ ? track_.at(time_s) : std::nullopt;
  if (start && start->time_s < time_s) start.reset();  // no step has come for too long
  return {time_s, start, traits_};
}

/// Why a window's energy is not the counter's although the GPU has one.
std::string GpuMeter::why_not_counted(const GpuWindow& window) const {
  std::string why;
  if (!check_.state().usable()) {
    why = check_.state().reason;
  } else if (!set_aside_.empty() && set_aside_s_ > window.start_time_s()) {
    why = set_aside_;
  } else if (counter_answers_) {
    why = check_.has_moved() ? "did not answer all the time" : "has not moved yet";
  } else {
    return problem_;
  }
  return "the energy counter " + why;
}

GpuMeasurement GpuMeter::measure(const GpuWindow& window, double time_s) const {
  const std::optional<EnergyEstimate> end = track_.at(counter_answers_ ? time_s : counter_time_s_);
  const bool contradicts = contradiction_s_ > window.start_time_s();
  GpuMeasurement result = window.measure(time_s, end, contradicts ? contradiction_ : "");
  result.identity = identity_;
  const bool by_counter = result.source == EnergySource::counter;
  std::string why = result.problem;
  if (why.empty() && !counter_.works) why = counter_.reason;
  if (why.empty() && !(by_counter && result.covers_all())) why = why_not_counted(window);
  if (!by_counter && result.energy_j && !why.empty()) why += "; its energy is that of the power readings";
  if (!window.impossible_power().empty()) {
    why += (why.empty() ? "" : "; ") + ("a power reading " + window.impossible_power()) + ": left out";
  }
  // What else has failed.
  const bool is_said = problem_.empty() || why.find(problem_) != std::string::npos;
  result.problem = is_said ? why : why.empty() ? problem_ : problem_ + "; " + why;
  return result;
}

}  // namespace lowgear::measure
