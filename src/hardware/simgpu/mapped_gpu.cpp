#include "hardware/simgpu/mapped_gpu.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <memory>

#include "base/core/error.h"
#include "base/core/monotonic_clock.h"

namespace lowgear::simgpu {
namespace {

constexpr double kNanosecondsPerSecond = 1e9;
/// While a kernel runs in real time, its process looks this often whether the clock has changed. Should it be killed,
/// its kernel ends this late at most.
constexpr std::int64_t kRunSliceNs = 1'000'000;
/// How often dead processes are looked for.
constexpr std::int64_t kReapPeriodNs = 100'000'000;

void sleep_until(std::int64_t monotonic_time_ns) {
  const timespec time{.tv_sec = monotonic_time_ns / 1'000'000'000, .tv_nsec = monotonic_time_ns % 1'000'000'000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

void check(const SimulatedKernel& kernel) {
  const auto in = [](double value, double high) { return value >= 0 && value <= high; };  // false for NaN
  if (!in(kernel.compute_s, kMaxKernelS) || !in(kernel.memory_s, kMaxKernelS) ||
      !in(kernel.compute_s + kernel.memory_s, kMaxKernelS)) {
    throw InputError(fmt::format("a simulated kernel takes 0 to {} s, not {} s of compute and {} s of memory",
                                 kMaxKernelS, kernel.compute_s, kernel.memory_s));
  }
  if (!in(kernel.compute_load, 1) || !in(kernel.memory_load, 1)) {
    throw InputError(fmt::format("loads of a simulated kernel are in [0, 1], not {} and {}", kernel.compute_load,
                                 kernel.memory_load));
  }
  if (!in(kernel.sm_share, 1) || kernel.sm_share == 0) {
    throw InputError(
        fmt::format("a simulated kernel occupies a share of the SMs above 0 and up to 1, not {}", kernel.sm_share));
  }
}

double elapsed_s(const RunningKernel& kernel) {
  return static_cast<double>(kernel.end_ns - kernel.start_ns) / kNanosecondsPerSecond;
}

bool matches(const SharedFault& fault, std::string_view call) {
  return !fault.call.empty() && (fault.call == "*" || fault.call == call);
}

bool is_spent(const SharedFault& fault) { return fault.count == 0 && !fault.clock_stuck && !fault.lost; }

bool is_lost(const SharedGpuState& state) {
  return std::any_of(state.faults.begin(), state.faults.end(), [](const SharedFault& fault) { return fault.lost; });
}

bool is_stuck(const SharedGpuState& state) {
  return std::any_of(state.faults.begin(), state.faults.end(),
                     [](const SharedFault& fault) { return fault.clock_stuck; });
}

/// Of those that conflict the one with the lowest number.
PowerProfileMask enforced(PowerProfileMask requested, const PowerFeatureModel& features) {
  PowerProfileMask mask = 0;
  for (std::size_t profile = 0; profile < features.conflicts.size(); ++profile) {
    const PowerProfileMask bit = 1U << profile;
    if ((requested & bit) != 0 && (features.conflicts.at(profile) & mask) == 0) mask |= bit;
  }
  return mask;
}

/// The place of a running kernel, held as long as this lives.
class KernelSlot {
 public:
  /// One of the first `slots` that is free; waits for the first one where none is.
  KernelSlot(SharedGpu& gpu, std::size_t slots) {
    for (index_ = 0; index_ < slots; ++index_) {
      lock_ = RobustLock::try_to_hold(gpu.kernel_mutexes.at(index_));
      if (lock_) return;
    }
    index_ = 0;
    lock_ = std::make_unique<RobustLock>(gpu.kernel_mutexes[index_]);
  }
  [[nodiscard]] std::size_t index() const { return index_; }

 private:
  std::size_t index_ = 0;
  std::unique_ptr<RobustLock> lock_;
};

int count_contexts(const SharedGpuState& state) {
  return static_cast<int>(std::count_if(state.contexts.begin(), state.contexts.end(),
                                        [](const SharedContext& context) { return context.pid != 0; }));
}

}  // namespace

void MachineClock::wait_until(std::int64_t time_ns) const {
  if (!is_virtual()) return sleep_until(state_->header().constant.epoch_ns + time_ns);
  std::atomic<std::int64_t>& now_ns = state_->header().virtual_now_ns;
  std::int64_t seen_ns = now_ns.load(std::memory_order_acquire);
  while (seen_ns < time_ns && !now_ns.compare_exchange_weak(seen_ns, time_ns, std::memory_order_acq_rel)) {
  }
}

void MachineClock::wait(double time_s) const {
  if (!(time_s >= 0 && time_s <= kMaxAdvanceS)) {
    throw InputError(fmt::format("simulated time can pass by 0 to {} s, not {}", kMaxAdvanceS, time_s));
  }
  wait_until(now_ns() + static_cast<std::int64_t>(std::llround(time_s * kNanosecondsPerSecond)));
}

MappedGpu::MappedGpu(SharedGpu& shared, MachineClock clock)
    : shared_(shared),
      clock_(clock),
      uuid_(shared.constant.uuid.view()),
      pci_address_(shared.constant.pci_address.view()) {}

template <typename Change>
auto MappedGpu::update(Change&& change) {
  clock_.require_whole_machine();
  return change_shared_state(shared_, [&](SharedGpuState& state) {
    GpuPhysics physics(shared_.constant.model, state.physics);
    // First, at the time of the last look: they may have died at any time since.
    reap_contexts(state, physics);
    physics.advance_to(clock_.now_ns());
    clock_.require_whole_machine();
    return change(state, physics);
  });
}

SimulatedReadings MappedGpu::readings() {
  return update([this](SharedGpuState& state, GpuPhysics& physics) {
    const GpuPhysicsState& now = state.physics;
    return SimulatedReadings{.energy_counter_j = now.energy_counter_j,
                             .average_power_w = now.average_power_w,
                             .instant_power_w = now.instant_power_w,
                             .sm_clock_mhz = now.sm_clock_mhz,
                             .memory_clock_mhz = now.memory_clock_mhz,
                             .temperature_c = static_cast<int>(std::lround(physics.die_c())),
                             .throttle_reasons = physics.throttle_reasons(),
                             .gpu_utilisation_percent = now.gpu_utilisation_percent,
                             .memory_utilisation_percent = now.memory_utilisation_percent,
                             .power_limit_w = now.power_limit_w,
                             .persistence_mode = state.persistence_mode,
                             .requested_power_profiles = state.power_profiles,
                             .enforced_power_profiles = enforced(state.power_profiles, model().power_features),
                             .power_smoothing = state.power_smoothing,
                             .power_smoothing_preset = state.power_smoothing_preset};
  });
}

double MappedGpu::true_energy_j() {
  return update([](SharedGpuState&, GpuPhysics& physics) { return physics.energy_j(); });
}

std::uint64_t MappedGpu::writes() {
  return update([](SharedGpuState& state, GpuPhysics&) { return state.writes; });
}

void MappedGpu::reap_contexts(SharedGpuState& state, GpuPhysics& physics) {
  for (std::size_t slot = 0; slot < GpuPhysicsState::kMaxKernels; ++slot) {
    const bool active = state.physics.kernels.at(slot).active;
    if (active && is_free(shared_.kernel_mutexes.at(slot))) physics.stop_kernel(slot);
  }
  const std::int64_t now_ns = monotonic_ns();
  if (now_ns < state.next_reap_ns) return;
  state.next_reap_ns = now_ns + kReapPeriodNs;
  for (SharedContext& context : state.contexts) {
    if (context.pid != 0 && has_ended(context)) context = {};
  }
  physics.set_contexts(count_contexts(state));
}

std::optional<SimulatedGpu::LockedClocks> MappedGpu::locked_sm_clocks() {
  return update([](SharedGpuState& state, GpuPhysics&) -> std::optional<LockedClocks> {
    if (state.asked_max_mhz == 0) return std::nullopt;
    return LockedClocks{.min_mhz = state.asked_min_mhz, .max_mhz = state.asked_max_mhz};
  });
}

std::vector<std::uint32_t> MappedGpu::context_pids() {
  return update([](SharedGpuState& state, GpuPhysics&) {
    std::vector<std::uint32_t> pids;
    for (const SharedContext& context : state.contexts) {
      if (context.pid != 0) pids.push_back(context.pid);
    }
    return pids;
  });
}

void MappedGpu::lock_sm_clocks(int min_mhz, int max_mhz) {
  if (min_mhz <= 0 || max_mhz < min_mhz) {
    throw InputError(fmt::format("{} to {} MHz is not a range of clocks", min_mhz, max_mhz));
  }
  ask_for_sm_clocks(min_mhz, max_mhz);
}

void MappedGpu::reset_sm_clocks() { ask_for_sm_clocks(0, 0); }

void MappedGpu::ask_for_sm_clocks(int min_mhz, int max_mhz) {
  // Outside the lock: a driver that works on one call answers others.
  const double latency_s = update([](SharedGpuState&, GpuPhysics& physics) { return physics.draw_call_latency_s(); });
  clock_.wait(latency_s);
  update([&](SharedGpuState& state, GpuPhysics& physics) {
    ++state.writes;
    state.asked_min_mhz = min_mhz;
    state.asked_max_mhz = max_mhz;
    if (!is_stuck(state)) physics.lock_sm_clocks(min_mhz, max_mhz);
  });
}

void MappedGpu::lock_memory_clocks(int min_mhz, int max_mhz) {
  const auto supported = model().supported_memory_clocks_mhz();
  const auto chosen =
      std::find_if(supported.begin(), supported.end(), [&](int clock_mhz) { return clock_mhz <= max_mhz; });
  if (min_mhz <= 0 || max_mhz < min_mhz || chosen == supported.end()) {
    throw InputError(fmt::format("{} to {} MHz is not a range of memory clocks of this GPU", min_mhz, max_mhz));
  }
  update([&](SharedGpuState& state, GpuPhysics& physics) {
    ++state.writes;
    physics.lock_memory_clock(*chosen);
  });
}

void MappedGpu::reset_memory_clocks() {
  update([](SharedGpuState& state, GpuPhysics& physics) {
    ++state.writes;
    physics.lock_memory_clock(0);
  });
}

void MappedGpu::set_power_limit_w(double power_limit_w) {
  if (!(power_limit_w >= model().power_limit_min_w && power_limit_w <= model().power_limit_max_w)) {
    throw InputError(fmt::format("a power limit of {} W is outside {} to {} W", power_limit_w,
                                 model().power_limit_min_w, model().power_limit_max_w));
  }
  update([&](SharedGpuState& state, GpuPhysics& physics) {
    ++state.writes;
    physics.set_power_limit(power_limit_w);
  });
}

void MappedGpu::set_persistence_mode(bool enabled) {
  update([enabled](SharedGpuState& state, GpuPhysics&) {
    ++state.writes;
    state.persistence_mode = enabled;
  });
}

void MappedGpu::request_power_profiles(PowerProfileMask profiles) {
  if ((profiles & ~model().power_features.profiles) != 0) {
    throw InputError(fmt::format("0x{:x} has workload power profiles that this GPU lacks", profiles));
  }
  update([profiles](SharedGpuState& state, GpuPhysics&) {
    ++state.writes;
    state.power_profiles = profiles;
  });
}

void MappedGpu::set_power_smoothing(bool enabled) {
  update([enabled](SharedGpuState& state, GpuPhysics&) {
    ++state.writes;
    state.power_smoothing = enabled;
  });
}

void MappedGpu::activate_power_smoothing_preset(int preset) {
  if (preset < 0 || preset >= model().power_features.smoothing_presets) {
    throw InputError(fmt::format("this GPU has no preset {} of power smoothing", preset));
  }
  update([preset](SharedGpuState& state, GpuPhysics&) {
    ++state.writes;
    state.power_smoothing_preset = preset;
  });
}

double MappedGpu::run(const SimulatedKernel& kernel) {
  check(kernel);
  if (kernel.compute_s + kernel.memory_s == 0) return 0;
  const bool concurrent = kernel_sharing() == KernelSharing::concurrent;
  const KernelSlot slot(shared_, concurrent ? GpuPhysicsState::kMaxKernels : 1);
  start(kernel, slot.index());
  return clock_.is_virtual() ? finish_in_virtual_time(slot.index()) : finish_in_real_time(slot.index());
}

void MappedGpu::share_kernels(KernelSharing sharing) {
  update([sharing](SharedGpuState&, GpuPhysics& physics) { physics.set_sharing(sharing); });
}

KernelSharing MappedGpu::kernel_sharing() {
  return update([](SharedGpuState& state, GpuPhysics&) { return state.physics.sharing; });
}

void MappedGpu::start(const SimulatedKernel& kernel, std::size_t slot) {
  update([&](SharedGpuState& state, GpuPhysics& physics) {
    if (is_lost(state)) throw Error(fmt::format("simulated GPU {}: lost", uuid_));
    physics.stop_kernel(slot);  // of a process that died, whose mutex was taken over
    physics.start_kernel(kernel.compute_s * state.slowdown, kernel.memory_s * state.slowdown,
                         {.compute = kernel.compute_load, .memory = kernel.memory_load}, kernel.sm_share, slot);
  });
}

double MappedGpu::finish_in_virtual_time(std::size_t slot) {
  const RunningKernel done = update([slot](SharedGpuState& state, GpuPhysics& physics) {
    physics.advance_to_kernel_end(slot);
    return state.physics.kernels.at(slot);
  });
  clock_.wait_until(done.end_ns);
  return elapsed_s(done);
}

double MappedGpu::finish_in_real_time(std::size_t slot) {
  for (;;) {
    struct Look {
      RunningKernel kernel;
      bool lost = false;
    };
    const Look look = update([slot](SharedGpuState& state, GpuPhysics& physics) {
      const bool lost = is_lost(state);
      if (lost) physics.stop_kernel(slot);
      return Look{.kernel = state.physics.kernels.at(slot), .lost = lost};
    });
    if (look.lost) throw Error(fmt::format("simulated GPU {}: lost", uuid_));
    if (!look.kernel.active) return elapsed_s(look.kernel);
    // Its end moves when the clock changes, so it is looked at again and again.
    clock_.wait_until(std::min(look.kernel.end_ns, clock_.now_ns() + kRunSliceNs));
  }
}

void MappedGpu::attach_context() {
  const SharedContext self = this_process();
  update([&](SharedGpuState& state, GpuPhysics& physics) {
    const auto is = [&](std::uint32_t pid) {
      return [pid](const SharedContext& context) { return context.pid == pid; };
    };
    auto place = std::find_if(state.contexts.begin(), state.contexts.end(), is(self.pid));
    if (place == state.contexts.end()) place = std::find_if(state.contexts.begin(), state.contexts.end(), is(0));
    if (place == state.contexts.end()) {
      throw Error(fmt::format("simulated GPU {}: {} processes have a context, more are not kept", uuid_,
                              SharedGpuState::kMaxContexts));
    }
    const std::uint32_t count = place->count;
    *place = self;
    place->count = count + 1;
    physics.set_contexts(count_contexts(state));
  });
}

void MappedGpu::detach_context() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  update([&](SharedGpuState& state, GpuPhysics& physics) {
    for (SharedContext& context : state.contexts) {
      if (context.pid == pid && --context.count == 0) context = {};
    }
    physics.set_contexts(count_contexts(state));
  });
}

void MappedGpu::slow_down(double factor) {
  if (!(factor >= 1 && factor <= kMaxSlowdown)) {
    throw InputError(fmt::format("a GPU can be slowed down by a factor of 1 to {}, not {}", kMaxSlowdown, factor));
  }
  update([factor](SharedGpuState& state, GpuPhysics&) { state.slowdown = factor; });
}

double MappedGpu::slowdown() {
  return update([](SharedGpuState& state, GpuPhysics&) { return state.slowdown; });
}

void MappedGpu::inject(const SimulatedFault& fault) {
  constexpr std::size_t kMaxName = 63;
  if (fault.call.empty() || fault.call.size() > kMaxName) {
    throw InputError(fmt::format("the call {} of a fault has no name, or one of more than {} characters",
                                 quote(fault.call), kMaxName));
  }
  if (!(fault.delay_s >= 0 && fault.delay_s <= kMaxAdvanceS)) {
    throw InputError(fmt::format("a fault cannot delay a call by {} s", fault.delay_s));
  }
  update([&](SharedGpuState& state, GpuPhysics&) {
    const auto place = std::find_if(state.faults.begin(), state.faults.end(),
                                    [](const SharedFault& shared) { return shared.call.empty(); });
    if (place == state.faults.end()) {
      throw InputError(fmt::format("{} faults are set already; clear them first", kMaxSimulatedFaults));
    }
    *place = {.call = FixedText<64>(fault.call),
              .return_code = fault.return_code,
              .count = fault.count,
              .delay_s = fault.delay_s,
              .clock_stuck = fault.clock_stuck,
              .lost = fault.lost};
    if (is_spent(*place)) *place = {};
  });
}

void MappedGpu::clear() {
  update([](SharedGpuState& state, GpuPhysics& physics) {
    const bool was_stuck = is_stuck(state);
    state.faults = {};
    if (was_stuck) physics.lock_sm_clocks(state.asked_min_mhz, state.asked_max_mhz);
  });
}

std::vector<SimulatedFault> MappedGpu::all() {
  return update([](SharedGpuState& state, GpuPhysics&) {
    std::vector<SimulatedFault> faults;
    for (const SharedFault& shared : state.faults) {
      if (shared.call.empty()) continue;
      faults.push_back({.call = std::string(shared.call.view()),
                        .return_code = shared.return_code,
                        .delay_s = shared.delay_s,
                        .count = shared.count,
                        .clock_stuck = shared.clock_stuck,
                        .lost = shared.lost});
    }
    return faults;
  });
}

SimulatedFault MappedGpu::next(std::string_view call) {
  return update([call](SharedGpuState& state, GpuPhysics&) {
    SimulatedFault answer{.call = std::string(call), .count = 1};
    for (SharedFault& fault : state.faults) {
      if (!matches(fault, call)) continue;
      answer.clock_stuck = answer.clock_stuck || fault.clock_stuck;
      answer.lost = answer.lost || fault.lost;
      if (fault.count == 0) continue;
      answer.delay_s += fault.delay_s;
      if (answer.return_code == 0) answer.return_code = fault.return_code;
      if (fault.count != UINT32_MAX) --fault.count;
      if (is_spent(fault)) fault = {};
    }
    return answer;
  });
}

}  // namespace lowgear::simgpu
