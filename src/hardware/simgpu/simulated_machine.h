#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/simgpu/gpu_model.h"

namespace lowgear::simgpu {

/// How concurrent kernels share the SMs.
enum class KernelSharing : unsigned char {
  /// Kernels take turns. SimulatedGpu::run starts a kernel when the previous one is done; GpuPhysics divides the time
  /// into short turns, in which each of n kernels runs at 1/n of its rate (processor sharing).
  time_slicing,
  /// As under NVIDIA's Multi-Process Service: concurrently at full rate while their widths sum to 1 at most, above it
  /// each at 1 / sum of its rate.
  concurrent,
};

/// Kernels of one GPU that run at the same time.
inline constexpr std::size_t kMaxConcurrentKernels = 4;

/// Work for a simulated GPU: its time consists of a part that scales with the SM clock and one that does not (memory,
/// links).
///
/// Both parts are spread evenly over the kernel, which so takes `compute_s · highest clock / clock + memory_s`.
struct SimulatedKernel {
  double compute_s = 0;     ///< at the model's highest SM clock
  double memory_s = 0;      ///< at any SM clock
  double compute_load = 1;  ///< share of the model's compute power that the compute part draws, [0, 1]
  double memory_load = 1;   ///< share of the model's memory power that the memory part draws, [0, 1]
  double sm_share = 1;      ///< share of the SMs that it occupies, (0, 1]; the loads are those of all SMs
};
/// Longest kernel that is accepted.
inline constexpr double kMaxKernelS = 86'400;

inline constexpr int kMaxSimulatedGpus = 64;
/// Longest step of virtual time.
inline constexpr double kMaxAdvanceS = 1e8;

/// How the simulated machine tells the time.
enum class SimulatedClock : std::uint32_t {
  real,  ///< CLOCK_MONOTONIC; kernels block until they are done
  // NOLINTNEXTLINE(readability-identifier-naming): without the underscore it is a keyword
  virtual_  ///< only `advance` and kernels advance it: deterministic tests
};

struct SimulatedMachineConfig {
  std::vector<SimulatedGpuModel> gpus;  ///< 1 to kMaxSimulatedGpus
  SimulatedClock clock = SimulatedClock::real;
  std::uint64_t seed = 1;  ///< of switch latencies, UUIDs and noise
  /// Callers other than root get NVML_ERROR_NO_PERMISSION from setters, as on a real machine. Off lets everybody set.
  bool root_required = true;
};

/// A fault that a test, an environment variable or `lowgear simgpu inject` sets on one simulated GPU.
struct SimulatedFault {
  std::string call = "*";            ///< NVML function without prefix (`DeviceSetGpuLockedClocks`), or `*`
  std::uint32_t return_code = 0;     ///< nvmlReturn_t to answer with; 0: answer normally
  double delay_s = 0;                ///< before answering, on the machine's clock
  std::uint32_t count = UINT32_MAX;  ///< number of calls that get the return code and the delay; UINT32_MAX: all
  bool clock_stuck = false;          ///< setters succeed and the SM clock does not follow, until faults are cleared
  bool lost = false;  ///< fallen off the bus: calls answer NVML_ERROR_GPU_IS_LOST until faults are cleared
};

inline constexpr int kMaxSimulatedFaults = 16;
/// Largest factor of SimulatedGpu::slow_down.
inline constexpr double kMaxSlowdown = 10;

/// NVML's readings of a simulated GPU, at one time.
struct SimulatedReadings {
  double energy_counter_j = 0;  ///< steps of the model's counter period
  double average_power_w = 0;   ///< moving average over the model's window
  double instant_power_w = 0;   ///< sampled over a part of each period
  int sm_clock_mhz = 0;
  int memory_clock_mhz = 0;
  int temperature_c = 0;
  std::uint64_t throttle_reasons = 0;  ///< NVML's bits: idle, power cap, thermal
  int gpu_utilisation_percent = 0;
  int memory_utilisation_percent = 0;
  double power_limit_w = 0;
  bool persistence_mode = false;
  PowerProfileMask requested_power_profiles = 0;
  PowerProfileMask enforced_power_profiles = 0;  ///< requested, without conflicts with a lower one
  bool power_smoothing = false;
  int power_smoothing_preset = 0;
};

/// NVML's setters of a simulated GPU. The caller checks values against the model; senseless values throw InputError.
/// Changing the locked SM clocks blocks for the model's call latency; the clock follows after its transition.
class SimulatedGpuControl {
 public:
  virtual ~SimulatedGpuControl() = default;

  virtual void lock_sm_clocks(int min_mhz, int max_mhz) = 0;
  virtual void reset_sm_clocks() = 0;
  virtual void lock_memory_clocks(int min_mhz, int max_mhz) = 0;
  virtual void reset_memory_clocks() = 0;
  virtual void set_power_limit_w(double power_limit_w) = 0;
  virtual void set_persistence_mode(bool enabled) = 0;
  /// Requests exactly these profiles. Throws InputError for a profile that the model lacks.
  virtual void request_power_profiles(PowerProfileMask profiles) = 0;
  virtual void set_power_smoothing(bool enabled) = 0;
  virtual void activate_power_smoothing_preset(int preset) = 0;
};

/// The faults of a simulated GPU.
class SimulatedGpuFaults {
 public:
  virtual ~SimulatedGpuFaults() = default;

  /// Throws InputError when the name of the call is longer than 63 characters, or kMaxSimulatedFaults are set.
  virtual void inject(const SimulatedFault& fault) = 0;
  virtual void clear() = 0;
  /// The remaining faults.
  [[nodiscard]] virtual std::vector<SimulatedFault> all() = 0;
  /// For the NVML surface: the fault of the next call of this name. Counts the call. Delays and stuck clocks of
  /// several faults add up; the first return code that is not 0 counts.
  [[nodiscard]] virtual SimulatedFault next(std::string_view call) = 0;
};

/// One GPU of a simulated machine, as every process of the machine sees it. Every read first brings the physics up to
/// the machine's time. Safe from any thread and process; a process killed within a call leaves the state whole.
class SimulatedGpu {
 public:
  virtual ~SimulatedGpu() = default;

  [[nodiscard]] virtual const SimulatedGpuModel& model() const = 0;
  [[nodiscard]] virtual const std::string& uuid() const = 0;
  [[nodiscard]] virtual const std::string& pci_address() const = 0;

  [[nodiscard]] virtual SimulatedReadings readings() = 0;
  /// Processes that have a context, in the order in which they attached.
  [[nodiscard]] virtual std::vector<std::uint32_t> context_pids() = 0;
  [[nodiscard]] virtual SimulatedGpuControl& control() = 0;
  [[nodiscard]] virtual SimulatedGpuFaults& faults() = 0;

  // Known to a simulation only.
  /// Energy drawn until now without the counter's steps.
  [[nodiscard]] virtual double true_energy_j() = 0;
  struct LockedClocks {
    int min_mhz = 0;
    int max_mhz = 0;
  };
  /// The range asked for by the last setter; empty when reset. Real NVML has no such call.
  [[nodiscard]] virtual std::optional<LockedClocks> locked_sm_clocks() = 0;
  /// How often a setter changed this GPU since the machine was made.
  [[nodiscard]] virtual std::uint64_t writes() = 0;

  /// Runs the kernel until it is done, and returns its time in seconds. Clock changes, throttling and latency during
  /// the run count. One kernel at a time, while others wait; under KernelSharing::concurrent up to
  /// kMaxConcurrentKernels run at the same time. When the process dies, the GPU falls idle. Throws InputError when a
  /// value of the kernel is invalid, and Error when the GPU is lost (SimulatedFault::lost).
  virtual double run(const SimulatedKernel& kernel) = 0;
  /// Sets how kernels of several processes or threads share the GPU; holds for kernels that start from now on.
  virtual void share_kernels(KernelSharing sharing) = 0;
  [[nodiscard]] virtual KernelSharing kernel_sharing() = 0;
  /// A process that has a context raises an idle GPU to its working clock, as CUDA does.
  virtual void attach_context() = 0;
  virtual void detach_context() = 0;

  /// Kernels that start from now on take `factor` times as long at the same power, as on a GPU that something slows
  /// down without any sensor saying so: a straggler. 1 ends it. Throws InputError outside of 1 to kMaxSlowdown.
  virtual void slow_down(double factor) = 0;
  [[nodiscard]] virtual double slowdown() = 0;
};

/// A simulated machine in a file that its processes map (best on a tmpfs such as /dev/shm).
class SimulatedMachine {
 public:
  virtual ~SimulatedMachine() = default;

  /// Makes the file; every user may write to it where the configuration requires no root. Throws InputError when it
  /// exists or the configuration is invalid, Error when it cannot be written.
  static std::unique_ptr<SimulatedMachine> create(const std::filesystem::path& path,
                                                  const SimulatedMachineConfig& config);
  /// Maps a file that `create` made. Throws InputError when the file is missing, not writable for this process, of
  /// another version, damaged, or from before the last reboot.
  static std::unique_ptr<SimulatedMachine> open(const std::filesystem::path& path);
  /// The file that LOWGEAR_SIMGPU names. Throws InputError when it is unset.
  static std::filesystem::path path_from_environment();
  /// The machine that the environment names: LOWGEAR_SIMGPU=FILE, made on first use as LOWGEAR_SIMGPU_GPUS says
  /// (`2xH100`, `A100,H200`; one H100 when unset). Safe when several processes do so at once. Throws InputError when
  /// LOWGEAR_SIMGPU is unset.
  static std::unique_ptr<SimulatedMachine> from_environment();

  [[nodiscard]] virtual int gpus() const = 0;
  [[nodiscard]] virtual SimulatedGpu& gpu(int index) = 0;
  [[nodiscard]] virtual bool root_required() const = 0;
  [[nodiscard]] virtual SimulatedClock clock() const = 0;
  [[nodiscard]] virtual double now_s() = 0;  ///< since the machine was made
  /// Moves virtual time on. Throws Error when the machine runs in real time, InputError when the time is negative or
  /// above kMaxAdvanceS.
  virtual void advance(double time_s) = 0;
  /// Lets `time_s` pass for the caller: sleeps in real time, advances virtual time. Bounded as `advance`.
  virtual void wait(double time_s) = 0;
};

/// The GPUs that a text such as `2xH100` or `A100,H200` names; `H100+power` has power features (with_power_features).
/// Throws InputError.
[[nodiscard]] std::vector<SimulatedGpuModel> gpu_models_from_text(std::string_view text);

}  // namespace lowgear::simgpu
