#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "hardware/simgpu/gpu_model.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {

/// Work on a simulated GPU at one moment.
struct GpuActivity {
  double compute = 0;  ///< share of the model's compute power, [0, 1]
  double memory = 0;   ///< share of the model's memory power, [0, 1]
};

/// Power of a GPU, split by where its heat arises.
struct GpuPower {
  double die_w = 0;
  double elsewhere_w = 0;  ///< memory, links, regulators

  [[nodiscard]] double total_w() const { return die_w + elsewhere_w; }
};

/// Power of an awake GPU (estimating/power/gpu_power.h) at an SM clock, a die temperature and an activity.
[[nodiscard]] GpuPower working_power(const SimulatedGpuModel& model, double sm_clock_mhz, double die_c,
                                     GpuActivity activity);

/// A kernel as it runs. It is uniform: at any moment it computes for the share of time that its compute part takes.
/// Its power goes with its rate, so that sharing does not change its energy above that of an awake GPU.
struct RunningKernel {
  double compute_s = 0;  ///< at the highest SM clock
  double memory_s = 0;   ///< at the highest memory clock
  double compute_load = 0;
  double memory_load = 0;
  double width = 1;           ///< share of the SMs that it occupies, (0, 1]
  double done = 0;            ///< share of the kernel that is done, at GpuPhysicsState::step_ns
  std::int64_t start_ns = 0;  ///< of the kernel that runs, or of the last one
  std::int64_t end_ns = 0;    ///< at the present clocks; of the last kernel when none runs
  bool active = false;
};

/// Everything that changes on a simulated GPU, in one flat value: it lies in memory that processes share, byte by byte.
/// Times are nanoseconds since the machine was made.
///
/// Between two events (a point of the 5 ms grid, a clock change, the start or end of a kernel) power is constant.
/// Values hold at `step_ns`, the last event; reading at a later time extrapolates. So results do not depend on when the
/// state is read.
struct GpuPhysicsState {
  std::int64_t time_ns = 0;  ///< up to here the state is known
  std::int64_t step_ns = 0;
  std::uint64_t seed = 0;          ///< of this GPU's individual values
  std::uint64_t random_draws = 0;  ///< taken so far

  int sm_clock_mhz = 0;       ///< as it is
  int granted_clock_mhz = 0;  ///< by settings and idleness, before power and thermal limits
  int pending_clock_mhz = 0;  ///< clock from pending_ns on; 0: no change is under way
  std::int64_t pending_ns = 0;
  int locked_min_mhz = 0;  ///< 0: not locked
  int locked_max_mhz = 0;
  int memory_clock_mhz = 0;
  int memory_locked_max_mhz = 0;  ///< 0: not locked
  bool awake = false;             ///< at working clocks; asleep: the lowest clock, without a context
  int contexts = 0;
  std::int64_t idle_since_ns = 0;

  double power_limit_w = 0;
  int power_clock_mhz = 0;     ///< highest clock within the power limit
  int thermal_clock_mhz = 0;   ///< highest clock that the temperature allows
  double power_surplus_j = 0;  ///< energy left unused below the power limit of late
  std::int64_t power_capped_until_ns = 0;
  bool hardware_slowdown = false;
  double control_energy_j = 0;     ///< energy at the last control point
  GpuActivity control_activity_s;  ///< activity since then, integrated

  GpuPower power;
  double energy_j = 0;
  double die_rise_k = 0;      ///< die over package
  double package_rise_k = 0;  ///< package over air

  /// Largest number of kernels at the same time.
  static constexpr std::size_t kMaxKernels = kMaxConcurrentKernels;
  std::array<RunningKernel, kMaxKernels> kernels;
  KernelSharing sharing = KernelSharing::time_slicing;

  static constexpr int kMaxWindow = 64;
  std::int64_t energy_phase_ns = 0;
  std::int64_t power_phase_ns = 0;
  std::int64_t utilisation_phase_ns = 0;
  double energy_counter_j = 0;
  double instant_power_w = 0;
  double average_power_w = 0;
  double sample_start_j = 0;                  ///< energy at the start of the last power sample
  std::array<double, kMaxWindow> window_j{};  ///< energy at the last points of power refresh
  int window_next = 0;
  double busy_s = 0;  ///< within the utilisation period so far
  double memory_busy_s = 0;
  int gpu_utilisation_percent = 0;
  int memory_utilisation_percent = 0;
};
static_assert(std::is_trivially_copyable_v<GpuPhysicsState>);

/// NVML's bits of reasons for a clock (nvmlClocksEventReason*).
inline constexpr std::uint64_t kReasonIdle = 0x1;
inline constexpr std::uint64_t kReasonSoftwarePowerCap = 0x4;
inline constexpr std::uint64_t kReasonHardwareSlowdown = 0x8;
inline constexpr std::uint64_t kReasonSoftwareThermal = 0x20;
inline constexpr std::uint64_t kReasonHardwareThermal = 0x40;

/// Interval at which temperature, sensors and limits are evaluated.
inline constexpr std::int64_t kPhysicsGridNs = 5'000'000;
/// How often power and thermal limits are enforced. The traced H100 needs about 20 ms to leave its highest clock when a
/// matmul starts, which this reproduces.
inline constexpr std::int64_t kControlPeriodNs = 20'000'000;

/// An idle GPU in thermal equilibrium at time 0. The seed sets the phases of its sensors and its switch latencies.
[[nodiscard]] GpuPhysicsState idle_gpu(const SimulatedGpuModel& model, std::uint64_t seed);

/// Advances and changes the state of one GPU. Pure: time comes from the caller. Refers to both arguments.
class GpuPhysics {
 public:
  GpuPhysics(const SimulatedGpuModel& model, GpuPhysicsState& state) : model_(model), state_(state) {}

  /// Brings the state up to a time; does nothing when the state is further already.
  void advance_to(std::int64_t time_ns);
  /// Advances until the kernel in a slot is done, and returns that time.
  std::int64_t advance_to_kernel_end(std::size_t slot = 0);

  // Changes happen at the state's time.
  /// Starts a kernel in a slot without one, below GpuPhysicsState::kMaxKernels.
  void start_kernel(double compute_s, double memory_s, GpuActivity load, double width = 1, std::size_t slot = 0);
  void stop_kernel(std::size_t slot = 0);
  void set_sharing(KernelSharing sharing);
  void set_contexts(int contexts);
  void lock_sm_clocks(int min_mhz, int max_mhz);
  void reset_sm_clocks();
  /// 0 resets.
  void lock_memory_clock(int max_mhz);
  void set_power_limit(double power_limit_w);
  /// How long the next call that changes locked clocks blocks.
  [[nodiscard]] double draw_call_latency_s();

  [[nodiscard]] double energy_j() const;
  [[nodiscard]] double die_c() const;
  [[nodiscard]] std::uint64_t throttle_reasons() const;

 private:
  [[nodiscard]] std::int64_t next_event_ns() const;
  void handle_event();
  void integrate_to(std::int64_t time_ns);
  void skip_steady_state(std::int64_t until_ns);
  void finish_kernel(RunningKernel& kernel);
  void plan_kernel_ends();
  void handle_grid_point();
  void read_sensors();
  /// A sensor's reading of a power. Its noise follows from the time alone and does not depend on earlier readings.
  [[nodiscard]] double read_power(double power_w, double noise_w, std::uint64_t salt) const;
  void enforce_limits();
  void enforce_temperature();
  void wake();
  void fall_asleep_when_idle();
  void grant_clock_later(int clock_mhz);
  void settle();
  [[nodiscard]] int highest_clock_within(double power_w, GpuActivity activity) const;
  [[nodiscard]] bool any_kernel() const;
  /// Share of its own rate at which every kernel runs.
  [[nodiscard]] double kernel_rate() const;
  [[nodiscard]] double kernel_time_s(const RunningKernel& kernel) const;
  [[nodiscard]] double compute_share(const RunningKernel& kernel) const;
  [[nodiscard]] GpuActivity activity() const;
  [[nodiscard]] GpuPower power() const;
  [[nodiscard]] int working_clock_mhz() const;
  [[nodiscard]] double draw_normal();
  [[nodiscard]] double draw_transition_s(int clock_mhz);

  const SimulatedGpuModel& model_;
  GpuPhysicsState& state_;
};

}  // namespace lowgear::simgpu
