#include "hardware/simgpu/physics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/core/probability.h"

namespace lowgear::simgpu {
namespace {

/// Static power grows no further from here on, so that no model can run away.
constexpr double kHottestC = 150;
/// How much energy the power limit may be missed by for a while: this share of the limit over this time.
constexpr double kSurplusShare = 0.05;
constexpr double kSurplusTimeS = 0.1;
/// [trace] (gpu_model.cpp): the power cap is still reported half a second after the load that caused it has gone.
constexpr std::int64_t kPowerCapHoldNs = 500'000'000;
/// The hardware's thermal slowdown ends this far below its threshold.
constexpr double kSlowdownHysteresisK = 5;

/// Tell the random numbers of one purpose from those of another.
constexpr std::uint64_t kInstantNoiseSalt = 4;
constexpr std::uint64_t kAverageNoiseSalt = 5;

constexpr double seconds(std::int64_t time_ns) { return static_cast<double>(time_ns) * 1e-9; }
/// Rounded up, so that what ends then is done.
std::int64_t nanoseconds(double time_s) { return static_cast<std::int64_t>(std::ceil(time_s * 1e9)); }

/// In (0, 1).
double uniform(std::uint64_t bits) { return (static_cast<double>(bits >> 11U) + 0.5) * 0x1p-53; }

/// Standard normal, by Box and Muller.
double normal(std::uint64_t bits) {
  const double radius = std::sqrt(-2 * std::log(uniform(random_bits(bits))));
  return radius * std::cos(2 * std::numbers::pi * uniform(random_bits(bits + 1)));
}

bool due(std::int64_t time_ns, std::int64_t period_ns, std::int64_t phase_ns) {
  return (time_ns - phase_ns) % period_ns == 0;
}

/// A whole number of grid steps below the period.
std::int64_t phase_of(std::uint64_t bits, std::int64_t period_ns) {
  const auto steps = static_cast<std::uint64_t>(period_ns / kPhysicsGridNs);
  return static_cast<std::int64_t>(bits % steps) * kPhysicsGridNs;
}

std::int64_t period_ns(double period_s) {
  return std::llround(period_s * 1e9 / static_cast<double>(kPhysicsGridNs)) * kPhysicsGridNs;
}

/// What the board draws heats the package, the rest the die.
GpuPower by_place(const SimulatedGpuModel& model, double static_w, double on_die_w, double memory_w) {
  const double board_w = std::min(model.thermal.board_w, static_w);
  return {.die_w = static_w - board_w + on_die_w, .elsewhere_w = board_w + memory_w};
}

GpuPower sleeping_power(const SimulatedGpuModel& model) { return by_place(model, model.power.idle_w, 0, 0); }

}  // namespace

GpuPower working_power(const SimulatedGpuModel& model, double sm_clock_mhz, double die_c, GpuActivity activity) {
  const power::GpuPower& power = model.power;
  const double rate = power::Switching(power, sm_clock_mhz, model.sm_clocks.max_mhz).rate;
  return by_place(model, power.static_power_w(rate, std::min(die_c, kHottestC)),
                  (activity.compute * power.compute_w + activity.memory * power.memory_sm_w) * rate,
                  activity.memory * power.memory_w);
}

GpuPhysicsState idle_gpu(const SimulatedGpuModel& model, std::uint64_t seed) {
  GpuPhysicsState state;
  state.seed = seed;
  state.sm_clock_mhz = state.granted_clock_mhz = model.sm_clocks.min_mhz;
  state.power_clock_mhz = state.thermal_clock_mhz = model.sm_clocks.max_mhz;
  state.memory_clock_mhz = model.idle_memory_clock_mhz;
  state.power_limit_w = model.power.limit_w;

  state.power = sleeping_power(model);
  state.die_rise_k = model.thermal.die_k_per_w * state.power.die_w;
  state.package_rise_k = model.thermal.package_k_per_w * state.power.total_w();

  const SensorModel& sensors = model.sensors;
  const std::int64_t power_period_ns = period_ns(sensors.power_period_s);
  state.energy_phase_ns = phase_of(random_bits(seed ^ 1U), period_ns(sensors.energy_period_s));
  state.power_phase_ns = phase_of(random_bits(seed ^ 2U), power_period_ns);
  state.utilisation_phase_ns = phase_of(random_bits(seed ^ 3U), period_ns(sensors.utilisation_period_s));
  // As though it had been idle for ever.
  const double power_w = state.power.total_w();
  state.instant_power_w = state.average_power_w = power_w;
  state.sample_start_j = power_w * (seconds(state.power_phase_ns) - sensors.power_sample_s);
  for (int i = 0; i < GpuPhysicsState::kMaxWindow; ++i) {
    const std::int64_t before_ns = (GpuPhysicsState::kMaxWindow - i) * power_period_ns;
    state.window_j[static_cast<std::size_t>(i)] = power_w * seconds(state.power_phase_ns - before_ns);
  }
  return state;
}

void GpuPhysics::advance_to(std::int64_t time_ns) {
  if (time_ns <= state_.time_ns) return;
  while (next_event_ns() <= time_ns) {
    handle_event();
    skip_steady_state(time_ns);
  }
  state_.time_ns = time_ns;
}

std::int64_t GpuPhysics::advance_to_kernel_end(std::size_t slot) {
  const RunningKernel& kernel = state_.kernels.at(slot);
  while (kernel.active) handle_event();
  state_.time_ns = std::max(state_.time_ns, state_.step_ns);
  return kernel.end_ns;
}

std::int64_t GpuPhysics::next_event_ns() const {
  std::int64_t next_ns = (state_.step_ns / kPhysicsGridNs + 1) * kPhysicsGridNs;
  if (state_.pending_clock_mhz != 0) next_ns = std::min(next_ns, state_.pending_ns);
  for (const RunningKernel& kernel : state_.kernels) {
    if (kernel.active) next_ns = std::min(next_ns, kernel.end_ns);
  }
  return std::max(next_ns, state_.step_ns);
}

void GpuPhysics::handle_event() {
  integrate_to(next_event_ns());
  for (RunningKernel& kernel : state_.kernels) {
    if (kernel.active && kernel.end_ns <= state_.step_ns) finish_kernel(kernel);
  }
  if (state_.pending_clock_mhz != 0 && state_.pending_ns <= state_.step_ns) {
    state_.granted_clock_mhz = state_.pending_clock_mhz;
    state_.pending_clock_mhz = 0;
  }
  if (state_.step_ns % kPhysicsGridNs == 0) handle_grid_point();
  settle();
}

void GpuPhysics::integrate_to(std::int64_t time_ns) {
  const double step_s = seconds(time_ns - state_.step_ns);
  state_.step_ns = time_ns;
  if (step_s <= 0) return;
  state_.energy_j += state_.power.total_w() * step_s;
  const GpuActivity now = activity();
  state_.control_activity_s.compute += now.compute * step_s;
  state_.control_activity_s.memory += now.memory * step_s;
  if (any_kernel()) state_.busy_s += step_s;
  const double rate = kernel_rate();
  double memory_share = 0;
  for (RunningKernel& kernel : state_.kernels) {
    if (!kernel.active) continue;
    memory_share += (1 - compute_share(kernel)) * rate;
    kernel.done += step_s / kernel_time_s(kernel) * rate;
  }
  state_.memory_busy_s += std::min(1.0, memory_share) * step_s;
  const auto relax = [step_s](double& rise_k, double target_k, double time_constant_s) {
    rise_k = target_k + (rise_k - target_k) * std::exp(-step_s / time_constant_s);
  };
  const ThermalModel& thermal = model_.thermal;
  relax(state_.die_rise_k, thermal.die_k_per_w * state_.power.die_w, thermal.die_time_constant_s);
  relax(state_.package_rise_k, thermal.package_k_per_w * state_.power.total_w(), thermal.package_time_constant_s);
}

void GpuPhysics::skip_steady_state(std::int64_t until_ns) {
  if (any_kernel() || state_.step_ns % kControlPeriodNs != 0) return;
  const SensorModel& sensors = model_.sensors;
  // The last piece goes step by step, so that every sensor sees it.
  const std::int64_t tail_ns = 2 * period_ns(sensors.average_window_s + sensors.power_period_s +
                                             sensors.energy_period_s + sensors.utilisation_period_s);
  const std::int64_t spare_ns = until_ns - state_.step_ns - tail_ns;
  if (spare_ns < tail_ns) return;
  const bool unlimited = state_.power_clock_mhz == model_.sm_clocks.max_mhz &&
                         state_.thermal_clock_mhz == model_.sm_clocks.max_mhz && !state_.hardware_slowdown;
  const bool about_to_sleep = state_.awake && state_.contexts == 0;
  if (state_.pending_clock_mhz != 0 || !unlimited || about_to_sleep) return;
  constexpr double kSteadyK = 1e-9;
  const ThermalModel& thermal = model_.thermal;
  if (std::fabs(thermal.die_k_per_w * state_.power.die_w - state_.die_rise_k) > kSteadyK ||
      std::fabs(thermal.package_k_per_w * state_.power.total_w() - state_.package_rise_k) > kSteadyK) {
    return;
  }
  const std::int64_t skipped_ns = spare_ns / kControlPeriodNs * kControlPeriodNs;
  const double energy_j = state_.power.total_w() * seconds(skipped_ns);
  state_.step_ns += skipped_ns;
  state_.energy_j += energy_j;
  state_.control_energy_j += energy_j;
}

void GpuPhysics::start_kernel(double compute_s, double memory_s, GpuActivity load, double width, std::size_t slot) {
  integrate_to(state_.time_ns);
  wake();
  state_.kernels.at(slot) = {.compute_s = compute_s,
                             .memory_s = memory_s,
                             .compute_load = load.compute,
                             .memory_load = load.memory,
                             .width = width,
                             .done = 0,
                             .start_ns = state_.step_ns,
                             .end_ns = 0,
                             .active = true};
  plan_kernel_ends();
  settle();
}

void GpuPhysics::stop_kernel(std::size_t slot) {
  RunningKernel& kernel = state_.kernels.at(slot);
  if (!kernel.active) return;
  integrate_to(state_.time_ns);
  kernel.end_ns = state_.step_ns;
  finish_kernel(kernel);
  settle();
}

void GpuPhysics::finish_kernel(RunningKernel& kernel) {
  kernel.active = false;
  state_.idle_since_ns = state_.step_ns;
  plan_kernel_ends();  // the others run faster from now on
}

void GpuPhysics::set_sharing(KernelSharing sharing) {
  integrate_to(state_.time_ns);
  state_.sharing = sharing;
  plan_kernel_ends();
  settle();
}

void GpuPhysics::plan_kernel_ends() {
  const double rate = kernel_rate();
  for (RunningKernel& kernel : state_.kernels) {
    // One that is done ends at this event, whatever the others do.
    if (!kernel.active || (kernel.end_ns != 0 && kernel.end_ns <= state_.step_ns)) continue;
    const double left = std::max(0.0, 1 - kernel.done);
    kernel.end_ns = state_.step_ns + nanoseconds(left * kernel_time_s(kernel) / rate);
  }
}

void GpuPhysics::set_contexts(int contexts) {
  if (contexts == state_.contexts) return;
  integrate_to(state_.time_ns);
  state_.contexts = contexts;
  if (contexts > 0) wake();
  state_.idle_since_ns = state_.step_ns;
  settle();
}

void GpuPhysics::lock_sm_clocks(int min_mhz, int max_mhz) {
  integrate_to(state_.time_ns);
  state_.locked_min_mhz = min_mhz;
  state_.locked_max_mhz = max_mhz;
  if (state_.awake) grant_clock_later(working_clock_mhz());
  settle();
}

void GpuPhysics::reset_sm_clocks() { lock_sm_clocks(0, 0); }

void GpuPhysics::lock_memory_clock(int max_mhz) {
  integrate_to(state_.time_ns);
  state_.memory_locked_max_mhz = max_mhz;
  settle();
}

void GpuPhysics::set_power_limit(double power_limit_w) {
  integrate_to(state_.time_ns);
  state_.power_limit_w = power_limit_w;
  state_.power_surplus_j = 0;
  settle();
}

double GpuPhysics::draw_call_latency_s() {
  return model_.switching.call_median_s * std::exp(model_.switching.call_sigma * draw_normal());
}

double GpuPhysics::draw_transition_s(int clock_mhz) {
  const SwitchModel& switching = model_.switching;
  const double of_target =
      switching.target_sigma * normal(random_bits(state_.seed ^ random_bits(static_cast<std::uint64_t>(clock_mhz))));
  return switching.transition_median_s * std::exp(of_target + switching.transition_sigma * draw_normal());
}

double GpuPhysics::draw_normal() { return normal(random_bits(state_.seed + (++state_.random_draws << 8U))); }

double GpuPhysics::energy_j() const {
  return state_.energy_j + state_.power.total_w() * seconds(state_.time_ns - state_.step_ns);
}

double GpuPhysics::die_c() const { return model_.thermal.ambient_c + state_.package_rise_k + state_.die_rise_k; }

std::uint64_t GpuPhysics::throttle_reasons() const {
  if (!state_.awake) return kReasonIdle;
  std::uint64_t reasons = 0;
  if (state_.time_ns < state_.power_capped_until_ns) reasons |= kReasonSoftwarePowerCap;
  if (state_.hardware_slowdown) reasons |= kReasonHardwareSlowdown | kReasonHardwareThermal;
  if (state_.thermal_clock_mhz < model_.sm_clocks.max_mhz) reasons |= kReasonSoftwareThermal;
  return reasons;
}

void GpuPhysics::handle_grid_point() {
  fall_asleep_when_idle();
  read_sensors();
  if (due(state_.step_ns, kControlPeriodNs, 0)) {
    enforce_temperature();
    enforce_limits();
  }
}

void GpuPhysics::read_sensors() {
  const SensorModel& sensors = model_.sensors;
  const std::int64_t now_ns = state_.step_ns;
  if (due(now_ns, period_ns(sensors.energy_period_s), state_.energy_phase_ns)) {
    state_.energy_counter_j = state_.energy_j;
  }
  const std::int64_t power_period_ns = period_ns(sensors.power_period_s);
  if (due(now_ns, power_period_ns, state_.power_phase_ns)) {
    state_.instant_power_w = read_power((state_.energy_j - state_.sample_start_j) / sensors.power_sample_s,
                                        sensors.instant_noise_w, kInstantNoiseSalt);
    const int points = static_cast<int>(std::lround(sensors.average_window_s / sensors.power_period_s));
    const int oldest = (state_.window_next - points + GpuPhysicsState::kMaxWindow) % GpuPhysicsState::kMaxWindow;
    state_.average_power_w = points == 0
                                 ? state_.instant_power_w
                                 : read_power((state_.energy_j - state_.window_j[static_cast<std::size_t>(oldest)]) /
                                                  sensors.average_window_s,
                                              sensors.average_noise_w, kAverageNoiseSalt);
    state_.window_j[static_cast<std::size_t>(state_.window_next)] = state_.energy_j;
    state_.window_next = (state_.window_next + 1) % GpuPhysicsState::kMaxWindow;
  }
  if (due(now_ns, power_period_ns, state_.power_phase_ns - period_ns(sensors.power_sample_s))) {
    state_.sample_start_j = state_.energy_j;
  }
  if (due(now_ns, period_ns(sensors.utilisation_period_s), state_.utilisation_phase_ns)) {
    const auto percent = [&](double busy_s) {
      return std::clamp(static_cast<int>(std::lround(100 * busy_s / sensors.utilisation_period_s)), 0, 100);
    };
    state_.gpu_utilisation_percent = percent(std::exchange(state_.busy_s, 0));
    state_.memory_utilisation_percent = percent(std::exchange(state_.memory_busy_s, 0));
  }
}

double GpuPhysics::read_power(double power_w, double noise_w, std::uint64_t salt) const {
  constexpr double kMostDeviations = 3;
  const auto sample = static_cast<std::uint64_t>(state_.step_ns / kPhysicsGridNs);
  const double deviations = normal(random_bits(state_.seed ^ salt) + (sample << 8U));
  return std::max(0.0, power_w + noise_w * std::clamp(deviations, -kMostDeviations, kMostDeviations));
}

void GpuPhysics::enforce_temperature() {
  const ClockRange& clocks = model_.sm_clocks;
  const double die_c = this->die_c();
  const bool cooled = die_c < model_.thermal.slowdown_hardware_c - kSlowdownHysteresisK;
  state_.hardware_slowdown = die_c >= model_.thermal.slowdown_hardware_c || (state_.hardware_slowdown && !cooled);
  if (die_c >= model_.thermal.slowdown_software_c) {
    // From the clock as it is: lowering a limit above it would have no effect.
    state_.thermal_clock_mhz =
        std::max(clocks.min_mhz, std::min(state_.thermal_clock_mhz, state_.sm_clock_mhz) - clocks.step_mhz);
  } else {
    state_.thermal_clock_mhz = std::min(clocks.max_mhz, state_.thermal_clock_mhz + clocks.step_mhz);
  }
}

void GpuPhysics::enforce_limits() {
  const double period_s = seconds(kControlPeriodNs);
  const double used_j = state_.energy_j - state_.control_energy_j;
  const GpuActivity mean{.compute = state_.control_activity_s.compute / period_s,
                         .memory = state_.control_activity_s.memory / period_s};
  state_.control_energy_j = state_.energy_j;
  state_.control_activity_s = {};

  const double slack_j = kSurplusShare * kSurplusTimeS * state_.power_limit_w;
  state_.power_surplus_j =
      std::clamp(state_.power_surplus_j + state_.power_limit_w * period_s - used_j, -slack_j, slack_j);
  if (!state_.awake) {
    state_.power_clock_mhz = model_.sm_clocks.max_mhz;
    return;
  }
  const double allowed_w = state_.power_limit_w + state_.power_surplus_j / kSurplusTimeS;
  const int clock_mhz = highest_clock_within(allowed_w, mean);
  const bool capped = clock_mhz < state_.granted_clock_mhz;
  state_.power_clock_mhz = capped ? clock_mhz : model_.sm_clocks.max_mhz;
  if (capped) state_.power_capped_until_ns = state_.step_ns + kPowerCapHoldNs;
}

int GpuPhysics::highest_clock_within(double power_w, GpuActivity activity) const {
  const ClockRange& clocks = model_.sm_clocks;
  const double die_c = this->die_c();
  return clocks.at_or_below(
      static_cast<int>(power::highest_clock_within(clocks.min_mhz, clocks.max_mhz, power_w, [&](double clock_mhz) {
        return working_power(model_, clock_mhz, die_c, activity).total_w();
      })));
}

void GpuPhysics::wake() {
  if (state_.awake) return;
  state_.awake = true;
  grant_clock_later(working_clock_mhz());
}

void GpuPhysics::fall_asleep_when_idle() {
  if (!state_.awake || state_.contexts > 0 || any_kernel()) return;
  if (seconds(state_.step_ns - state_.idle_since_ns) < model_.idle_after_s) return;
  state_.awake = false;
  state_.granted_clock_mhz = model_.sm_clocks.min_mhz;
  state_.pending_clock_mhz = 0;
}

void GpuPhysics::grant_clock_later(int clock_mhz) {
  if (state_.pending_clock_mhz == 0 && clock_mhz == state_.granted_clock_mhz) return;
  if (clock_mhz == state_.pending_clock_mhz) return;
  state_.pending_clock_mhz = clock_mhz;
  state_.pending_ns = state_.step_ns + nanoseconds(draw_transition_s(clock_mhz));
}

int GpuPhysics::working_clock_mhz() const {
  const ClockRange& clocks = model_.sm_clocks;
  if (state_.locked_max_mhz == 0) return clocks.max_mhz;
  const int below_mhz = clocks.at_or_below(state_.locked_max_mhz);
  return below_mhz >= state_.locked_min_mhz ? below_mhz : clocks.at_or_above(state_.locked_min_mhz);
}

void GpuPhysics::settle() {
  const int memory_mhz = !state_.awake                       ? model_.idle_memory_clock_mhz
                         : state_.memory_locked_max_mhz != 0 ? state_.memory_locked_max_mhz
                                                             : model_.memory_clocks_mhz.front();
  int limit_mhz = std::min(state_.power_clock_mhz, state_.thermal_clock_mhz);
  if (state_.hardware_slowdown) {
    limit_mhz = std::min(limit_mhz, model_.sm_clocks.at_or_below(model_.sm_clocks.max_mhz / 2));
  }
  const int sm_mhz = std::min(state_.granted_clock_mhz, limit_mhz);
  const bool changed = sm_mhz != state_.sm_clock_mhz || memory_mhz != state_.memory_clock_mhz;
  state_.sm_clock_mhz = sm_mhz;
  state_.memory_clock_mhz = memory_mhz;
  if (changed) plan_kernel_ends();
  state_.power = power();
}

bool GpuPhysics::any_kernel() const { return std::ranges::any_of(state_.kernels, &RunningKernel::active); }

double GpuPhysics::kernel_rate() const {
  double demand = 0;
  for (const RunningKernel& kernel : state_.kernels) {
    if (kernel.active) demand += state_.sharing == KernelSharing::concurrent ? kernel.width : 1;
  }
  return 1 / std::max(1.0, demand);
}

double GpuPhysics::kernel_time_s(const RunningKernel& kernel) const {
  return kernel.compute_s * model_.sm_clocks.max_mhz / state_.sm_clock_mhz +
         kernel.memory_s * model_.memory_clocks_mhz.front() / state_.memory_clock_mhz;
}

double GpuPhysics::compute_share(const RunningKernel& kernel) const {
  return kernel.compute_s * model_.sm_clocks.max_mhz / state_.sm_clock_mhz / kernel_time_s(kernel);
}

GpuActivity GpuPhysics::activity() const {
  const double rate = kernel_rate();
  GpuActivity sum;
  for (const RunningKernel& kernel : state_.kernels) {
    if (!kernel.active) continue;
    const double compute = compute_share(kernel);
    sum.compute += compute * kernel.compute_load * rate;
    sum.memory += (1 - compute) * kernel.memory_load * rate;
  }
  return sum;
}

GpuPower GpuPhysics::power() const {
  return state_.awake ? working_power(model_, state_.sm_clock_mhz, die_c(), activity()) : sleeping_power(model_);
}

}  // namespace lowgear::simgpu
