#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>

#include "base/core/error.h"
#include "hardware/simgpu/gpu_model.h"
#include "hardware/simgpu/guarded_mapping.h"
#include "hardware/simgpu/physics.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {

/// A process that has a context on a GPU. The start time tells it from a later process of the same number, the
/// namespace says where the number means something.
struct SharedContext {
  std::uint32_t pid = 0;  ///< 0: unused
  std::uint32_t count = 0;
  std::uint64_t start_ticks = 0;    ///< of the process (proc(5), field 22 of stat)
  std::uint64_t pid_namespace = 0;  ///< inode of /proc/self/ns/pid
};

/// SimulatedFault as it stands in shared memory; unused when `call` is empty.
struct SharedFault {
  FixedText<64> call;
  std::uint32_t return_code = 0;
  std::uint32_t count = 0;
  double delay_s = 0;
  bool clock_stuck = false;
  bool lost = false;
};

/// The state of one GPU that processes share and may change.
struct SharedGpuState {
  static constexpr int kMaxContexts = 64;

  GpuPhysicsState physics;
  std::int64_t next_reap_ns = 0;  ///< CLOCK_MONOTONIC; when to look for dead processes again
  std::uint64_t writes = 0;
  int asked_min_mhz = 0;  ///< the range that was asked for; differs from the physics' while a clock is stuck
  int asked_max_mhz = 0;
  bool persistence_mode = true;
  PowerProfileMask power_profiles = 0;  ///< requested
  bool power_smoothing = false;
  int power_smoothing_preset = 0;
  double slowdown = 1;  ///< of kernels that start from now on
  std::array<SharedContext, kMaxContexts> contexts{};
  std::array<SharedFault, kMaxSimulatedFaults> faults{};
};
static_assert(std::is_trivially_copyable_v<SharedGpuState>);

/// One GPU in the shared file. The file has its state twice: a change is made to the unpublished copy, and then
/// published by one store. A process that dies in between leaves the published copy unchanged, and the next one gets
/// the mutex (EOWNERDEAD).
struct SharedGpu {
  struct Constant {
    SimulatedGpuModel model;
    FixedText<48> uuid;
    FixedText<16> pci_address;
  };
  Constant constant;
  std::uint64_t constant_checksum;
  pthread_mutex_t state_mutex;
  /// Each held by the thread whose kernel runs in the slot, for as long as it runs: so others wait, and its death is
  /// noticed.
  std::array<pthread_mutex_t, GpuPhysicsState::kMaxKernels> kernel_mutexes;
  std::atomic<std::uint32_t> published;
  std::array<SharedGpuState, 2> copies;
  std::array<std::uint64_t, 2> checksums;  ///< of the copies, to detect a damaged file
};

/// The start of the shared file; SharedGpu follow at `kSharedGpuOffset`.
struct SharedHeader {
  struct Constant {
    std::array<char, 8> magic;
    std::uint32_t version;
    std::uint32_t gpu_bytes;  ///< sizeof(SharedGpu) of the program that made it
    std::uint32_t gpu_count;
    SimulatedClock clock;
    std::uint64_t seed;
    std::uint64_t root_required;
    std::int64_t epoch_ns;  ///< CLOCK_MONOTONIC when it was made
    FixedText<40> boot_id;
  };
  Constant constant;
  std::uint64_t constant_checksum;
  std::atomic<std::int64_t> virtual_now_ns;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

inline constexpr std::size_t kSharedGpuOffset = 4096;
inline constexpr std::uint32_t kSharedStateVersion = 6;

/// This process may not read, write or make a simulated machine's file.
class SharedStateDenied : public InputError {
 public:
  using InputError::InputError;
};

/// The file was cut off while it was open.
class SharedStateCutOff : public Error {
 public:
  using Error::Error;
};

/// The file of a simulated machine, mapped. Movable; unmaps when destroyed.
class SharedState {
 public:
  /// Makes the file whole or not at all. Throws as SimulatedMachine::create; SharedStateDenied for lack of permission.
  static SharedState create(const std::filesystem::path& path, const SimulatedMachineConfig& config);
  /// Throws as SimulatedMachine::open; SharedStateDenied for lack of permission.
  static SharedState open(const std::filesystem::path& path);

  [[nodiscard]] SharedHeader& header() const;
  [[nodiscard]] std::span<SharedGpu> gpus() const;
  /// The machine's time.
  [[nodiscard]] std::int64_t now_ns() const;

  /// Throws SharedStateCutOff when the file was cut off: the state is then private to this process, as it was at first.
  void require_whole() const;

 private:
  SharedState(int file, std::size_t bytes, const std::filesystem::path& path);
  /// Keeps the state usable, though no longer shared, when the file is cut off.
  void guard(int file, const std::filesystem::path& path);

  GuardedMapping mapping_;
};

/// Holds a robust process-shared mutex. One whose holder died is taken over.
class RobustLock {
 public:
  /// Waits. Throws Error when the mutex is unusable.
  explicit RobustLock(pthread_mutex_t& mutex);
  /// Null when another thread holds the mutex.
  [[nodiscard]] static std::unique_ptr<RobustLock> try_to_hold(pthread_mutex_t& mutex);
  ~RobustLock();
  RobustLock(const RobustLock&) = delete;
  RobustLock& operator=(const RobustLock&) = delete;

 private:
  RobustLock(pthread_mutex_t& mutex, std::adopt_lock_t) : mutex_(mutex) {}

  pthread_mutex_t& mutex_;
};

/// Whether no living thread holds the mutex.
[[nodiscard]] bool is_free(pthread_mutex_t& mutex);

/// Checksum of the bytes of a value in memory, padding included.
[[nodiscard]] std::uint64_t checksum(std::span<const std::byte> bytes);
template <typename Value>
[[nodiscard]] std::uint64_t checksum_of(const Value& value) {
  static_assert(std::is_trivially_copyable_v<Value>);
  return checksum(std::as_bytes(std::span(&value, 1)));
}

/// Publishes the copy that is not published yet. The caller holds the state's mutex.
inline void publish_other_copy(SharedGpu& gpu) {
  const std::uint32_t other = 1 - (gpu.published.load(std::memory_order_relaxed) & 1U);
  gpu.checksums[other] = checksum_of(gpu.copies[other]);
  gpu.published.store(other, std::memory_order_release);
}

/// Makes one change to the shared state of a GPU: `change(state)` on a private copy, published when it returns and
/// dropped when it throws. Returns its result.
template <typename Change>
auto change_shared_state(SharedGpu& gpu, Change&& change) {
  const RobustLock lock(gpu.state_mutex);
  const std::uint32_t published = gpu.published.load(std::memory_order_relaxed) & 1U;
  SharedGpuState& next = gpu.copies[1 - published];
  next = gpu.copies[published];
  if constexpr (std::is_void_v<decltype(change(next))>) {
    change(next);
    publish_other_copy(gpu);
  } else {
    auto answer = change(next);
    publish_other_copy(gpu);
    return answer;
  }
}

/// The calling process as an entry of the table of contexts.
[[nodiscard]] SharedContext this_process();
/// Whether the process of the entry has ended. One of another pid namespace counts as living.
[[nodiscard]] bool has_ended(const SharedContext& context);

}  // namespace lowgear::simgpu
