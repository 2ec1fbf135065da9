#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/simgpu/physics.h"
#include "hardware/simgpu/shared_state.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {

/// The time of a simulated machine, in which its GPUs run.
class MachineClock {
 public:
  /// Refers to the state.
  explicit MachineClock(const SharedState& state) : state_(&state) {}

  [[nodiscard]] bool is_virtual() const { return state_->header().constant.clock == SimulatedClock::virtual_; }
  [[nodiscard]] std::int64_t now_ns() const { return state_->now_ns(); }
  /// Sleeps until `time_ns` in real time; advances virtual time to it.
  void wait_until(std::int64_t time_ns) const;
  /// Throws InputError when the time is negative or above kMaxAdvanceS.
  void wait(double time_s) const;
  /// Throws SharedStateCutOff.
  void require_whole_machine() const { state_->require_whole(); }

 private:
  const SharedState* state_;
};

/// One GPU of a mapped machine.
class MappedGpu final : public SimulatedGpu, private SimulatedGpuControl, private SimulatedGpuFaults {
 public:
  MappedGpu(SharedGpu& shared, MachineClock clock);

 private:
  const SimulatedGpuModel& model() const override { return shared_.constant.model; }
  const std::string& uuid() const override { return uuid_; }
  const std::string& pci_address() const override { return pci_address_; }

  SimulatedReadings readings() override;
  std::vector<std::uint32_t> context_pids() override;
  SimulatedGpuControl& control() override { return *this; }
  SimulatedGpuFaults& faults() override { return *this; }
  double true_energy_j() override;
  std::optional<LockedClocks> locked_sm_clocks() override;
  std::uint64_t writes() override;
  double run(const SimulatedKernel& kernel) override;
  void share_kernels(KernelSharing sharing) override;
  KernelSharing kernel_sharing() override;
  void attach_context() override;
  void detach_context() override;
  void slow_down(double factor) override;
  double slowdown() override;

  void lock_sm_clocks(int min_mhz, int max_mhz) override;
  void reset_sm_clocks() override;
  void lock_memory_clocks(int min_mhz, int max_mhz) override;
  void reset_memory_clocks() override;
  void set_power_limit_w(double power_limit_w) override;
  void set_persistence_mode(bool enabled) override;
  void request_power_profiles(PowerProfileMask profiles) override;
  void set_power_smoothing(bool enabled) override;
  void activate_power_smoothing_preset(int preset) override;

  void inject(const SimulatedFault& fault) override;
  void clear() override;
  std::vector<SimulatedFault> all() override;
  SimulatedFault next(std::string_view call) override;

  /// Brings the physics up to the machine's time, then makes one change (change_shared_state).
  template <typename Change>
  auto update(Change&& change);
  /// Stops the kernels and ends the contexts of processes that have ended.
  void reap_contexts(SharedGpuState& state, GpuPhysics& physics);
  void ask_for_sm_clocks(int min_mhz, int max_mhz);
  void start(const SimulatedKernel& kernel, std::size_t slot);
  double finish_in_virtual_time(std::size_t slot);
  double finish_in_real_time(std::size_t slot);

  SharedGpu& shared_;
  MachineClock clock_;
  std::string uuid_;
  std::string pci_address_;
};

}  // namespace lowgear::simgpu
