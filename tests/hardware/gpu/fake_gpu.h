#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "hardware/gpu/gpu_control.h"

namespace lowgear::gpu {

/// What a fake GPU reports; `power_w` is the instant one.
struct FakeReadings : GpuValues {
  FakeReadings() {
    energy_j = 0;
    power_w = 70;
    sm_clock_mhz = 1980;
    memory_clock_mhz = 2619;
    temperature_c = 30;
    gpu_utilisation_percent = 0;
    memory_utilisation_percent = 0;
    throttle_reasons = ThrottleReasons{};
  }

  double average_power_w = 70;
  std::vector<int> supported_sm_clocks_mhz = {1980, 1965, 1950, 1500, 1005, 345};  ///< highest first
  WorkloadPowerProfileSet supported_power_profiles = 0b1100'1111;  ///< max_p to memory_bound, both of language models
  PowerLimits power_limits = {.min_w = 200, .max_w = 700, .default_w = 700, .current_w = 700, .enforced_w = 700};
};

/// What has been set on a fake GPU; 0 where a clock is not locked.
struct FakeSettings {
  int min_sm_clock_mhz = 0;
  int max_sm_clock_mhz = 0;
  int min_memory_clock_mhz = 0;
  int max_memory_clock_mhz = 0;
  double power_limit_w = 700;
  bool persistence_mode = true;
  WorkloadPowerProfileSet power_profiles;
  bool power_smoothing = false;
  int power_smoothing_preset = 0;

  bool operator==(const FakeSettings&) const = default;
};

/// A scripted GPU. Locked SM clocks show in `sm_clock_mhz` at once, unless `stuck`. May be used from any thread.
class FakeGpu final : public Gpu {
 public:
  explicit FakeGpu(int index = 0, std::string uuid = "") {
    identity_.index = index;
    identity_.uuid = uuid.empty() ? fmt::format("GPU-00000000-0000-0000-0000-{:012}", index) : std::move(uuid);
    identity_.pci_address = fmt::format("0000:{:02x}:00.0", index + 1);
    identity_.name = "Fake GPU";
    for (GpuFeatureStatus& status : features_) status.works = true;
  }

  // Before use only.
  void set_identity(GpuIdentity identity) { identity_ = std::move(identity); }
  void disable(GpuFeature feature, GpuErrorCode code, std::string reason) {
    features_[static_cast<std::size_t>(feature)] = {.works = false, .code = code, .reason = std::move(reason)};
  }

  /// Changes what it reports: `gpu.change([](FakeReadings& now) { now.energy_j = 5; });`
  template <typename Change>
  void change(Change&& change) {
    const std::lock_guard lock(mutex_);
    std::forward<Change>(change)(readings_);
  }
  /// The next `times` calls of this name (of the sensor, method or setting: `reset SM clocks`) throw; negative: all
  /// from now on.
  void fail(const std::string& call, GpuErrorCode code, int times = 1) {
    const std::lock_guard lock(mutex_);
    failures_[call] = {code, times};
  }
  void stop_failing() {
    const std::lock_guard lock(mutex_);
    failures_.clear();
  }
  /// Locked clocks no longer show in the clock that it runs at.
  void stick() {
    const std::lock_guard lock(mutex_);
    stuck_ = true;
  }
  /// Settings in the order in which they were applied, also those that failed: `lock SM clocks to 345-1005 MHz`.
  [[nodiscard]] std::vector<std::string> control_calls() const {
    const std::lock_guard lock(mutex_);
    return control_calls_;
  }
  [[nodiscard]] FakeSettings settings() const {
    const std::lock_guard lock(mutex_);
    return settings_;
  }

  [[nodiscard]] const GpuIdentity& identity() const override { return identity_; }
  [[nodiscard]] const GpuFeatures& features() const override { return features_; }
  void read(GpuFeature sensor, GpuValues& values) override {
    const std::lock_guard lock(mutex_);
    maybe_fail(std::string(name(sensor)));
    for (const GpuQuantity& quantity : std::ranges::find(gpu_sensors(), sensor, &GpuSensor::feature)->quantities) {
      std::visit([&](const auto member) { values.*member = readings_.*member; }, quantity.value);
    }
    if (sensor == GpuFeature::average_power) values.power_w = readings_.average_power_w;
    if (sensor == GpuFeature::throttle_reasons) values.throttle_reasons = readings_.throttle_reasons;
  }
  [[nodiscard]] std::vector<int> supported_sm_clocks_mhz() override {
    return tell("supported_sm_clocks_mhz", &FakeReadings::supported_sm_clocks_mhz);
  }
  [[nodiscard]] PowerLimits power_limits() override { return tell("power_limits", &FakeReadings::power_limits); }
  [[nodiscard]] bool persistence_mode() override {
    const std::lock_guard lock(mutex_);
    maybe_fail("persistence_mode");
    return settings_.persistence_mode;
  }
  /// Enforces what is requested, whatever it is.
  [[nodiscard]] WorkloadPowerProfiles workload_power_profiles() override {
    const std::lock_guard lock(mutex_);
    maybe_fail("workload_power_profiles");
    return {.supported = readings_.supported_power_profiles,
            .requested = settings_.power_profiles,
            .enforced = settings_.power_profiles};
  }
  [[nodiscard]] PowerSmoothing power_smoothing() override {
    const std::lock_guard lock(mutex_);
    maybe_fail("power_smoothing");
    PowerSmoothing now;
    now.enabled = settings_.power_smoothing;
    now.active_preset = settings_.power_smoothing_preset;
    return now;
  }

 private:
  friend class FakeGpuControl;

  struct Failure {
    GpuErrorCode code;
    int times;
  };

  template <typename Value>
  Value tell(const char* call, Value FakeReadings::*reading) {
    const std::lock_guard lock(mutex_);
    maybe_fail(call);
    return readings_.*reading;
  }

  /// Records a setting and applies it unless it is to fail.
  void set(const GpuSetting& setting) {
    const std::lock_guard lock(mutex_);
    control_calls_.push_back(to_string(setting));
    maybe_fail(std::string(name(setting)));
    std::visit([this](const auto& each) { take(each); }, setting);
  }

  void take(const LockSmClocks& clocks) {
    settings_.min_sm_clock_mhz = clocks.min_mhz;
    settings_.max_sm_clock_mhz = clocks.max_mhz;
    if (!stuck_) readings_.sm_clock_mhz = clocks.max_mhz;
  }
  void take(const ResetSmClocks&) {
    settings_.min_sm_clock_mhz = settings_.max_sm_clock_mhz = 0;
    if (!stuck_) readings_.sm_clock_mhz = readings_.supported_sm_clocks_mhz.front();
  }
  void take(const LockMemoryClocks& clocks) {
    settings_.min_memory_clock_mhz = clocks.min_mhz;
    settings_.max_memory_clock_mhz = clocks.max_mhz;
  }
  void take(const ResetMemoryClocks&) { settings_.min_memory_clock_mhz = settings_.max_memory_clock_mhz = 0; }
  void take(const SetPowerLimit& power) {
    settings_.power_limit_w = power.limit_w;
    readings_.power_limits.current_w = readings_.power_limits.enforced_w = power.limit_w;
  }
  void take(const SetPersistenceMode& mode) { settings_.persistence_mode = mode.enabled; }
  void take(const RequestWorkloadPowerProfiles& request) { settings_.power_profiles = request.profiles; }
  void take(const SetPowerSmoothing& smoothing) {
    settings_.power_smoothing = smoothing.enabled;
    if (smoothing.preset) settings_.power_smoothing_preset = *smoothing.preset;
  }

  void maybe_fail(const std::string& call) {
    const auto failure = failures_.find(call);
    if (failure == failures_.end() || failure->second.times == 0) return;
    if (failure->second.times > 0) --failure->second.times;
    throw GpuError(failure->second.code, fmt::format("GPU {}: {}: scripted failure", identity_.uuid, call));
  }

  GpuIdentity identity_;
  GpuFeatures features_;
  mutable std::mutex mutex_;  ///< guards what follows
  FakeReadings readings_;
  FakeSettings settings_;
  std::map<std::string, Failure> failures_;
  std::vector<std::string> control_calls_;
  bool stuck_ = false;
};

/// Control of a FakeGpu, which must outlive it.
class FakeGpuControl final : public GpuControl {
 public:
  explicit FakeGpuControl(FakeGpu& gpu) : gpu_(&gpu) {}

  [[nodiscard]] Gpu& gpu() override { return *gpu_; }
  void apply(const GpuSetting& setting) override { gpu_->set(setting); }

 private:
  FakeGpu* gpu_;
};

/// A machine of fake GPUs. Declare it before what uses it.
class FakeGpuSystem final : public GpuControlSystem {
 public:
  explicit FakeGpuSystem(int count) {
    for (int index = 0; index < count; ++index) gpus_.push_back(std::make_unique<FakeGpu>(index));
  }

  /// What it says of GPUs that it counts and does not list.
  void set_problems(std::vector<std::string> problems) { problems_ = std::move(problems); }
  /// A GPU has fallen off the bus before this process looked: the driver counts it and shows no more of it.
  void lose(int index) {
    problems_.push_back(fmt::format("GPU number {}: handle: GPU is lost", index));
    std::erase_if(gpus_, [index](const auto& gpu) { return gpu->identity().index == index; });
  }

  [[nodiscard]] FakeGpu& fake(int index) { return static_cast<FakeGpu&>(*gpus_.at(static_cast<std::size_t>(index))); }

  [[nodiscard]] const std::vector<std::unique_ptr<Gpu>>& gpus() const override { return gpus_; }
  [[nodiscard]] const std::string& driver_version() const override { return driver_version_; }
  [[nodiscard]] bool simulated() const override { return false; }
  [[nodiscard]] std::vector<std::string> problems() const override { return problems_; }
  [[nodiscard]] std::unique_ptr<GpuControl> control(std::string_view uuid_or_pci_address) override {
    return std::make_unique<FakeGpuControl>(static_cast<FakeGpu&>(find_gpu(*this, uuid_or_pci_address)));
  }

 private:
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::string driver_version_ = "580.159.04";
  std::vector<std::string> problems_;
};

}  // namespace lowgear::gpu
