#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/core/error.h"
#include "hardware/simgpu/nvml/abi.h"
#include "hardware/simgpu/simgpu_fixture.h"

namespace lowgear::simgpu {
namespace {

using nvml::Device;
using nvml::Return;

/// Loads the library as NVML's clients do, and looks at the same machine from beside.
class NvmlCallsTest : public SimulatedMachineTest {
 protected:
  void SetUp() override {
    machine_ = SimulatedMachine::create(
        file(), {.gpus = gpu_models_from_text("2xH100"), .clock = SimulatedClock::virtual_, .root_required = false});
    open_library();
  }
  void open_library() {
    ASSERT_EQ(::setenv("LOWGEAR_SIMGPU", file().c_str(), 1), 0);
    library_ = ::dlopen(LOWGEAR_SIMULATED_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << ::dlerror();
    ASSERT_EQ(call("nvmlInit_v2"), Return::success);
    ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 0U, &device_), Return::success);
  }
  void TearDown() override {
    if (library_ != nullptr) {
      while (call("nvmlShutdown") == Return::success) {
      }
    }
    ::unsetenv("LOWGEAR_SIMGPU");
  }

  template <typename... Arguments>
  Return call(const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<Return (*)(Arguments...)>(::dlsym(library_, name));
    if (function == nullptr) ADD_FAILURE() << name << " is not exported";
    return function != nullptr ? function(arguments...) : Return::function_not_found;
  }
  Return lock(unsigned min_mhz, unsigned max_mhz) {
    return call("nvmlDeviceSetGpuLockedClocks", device_, min_mhz, max_mhz);
  }
  SimulatedGpu& gpu() { return machine_->gpu(0); }

  std::unique_ptr<SimulatedMachine> machine_;
  void* library_ = nullptr;
  Device device_ = nullptr;
};

MATCHER_P2(LockedTo, min_mhz, max_mhz, "") {
  return arg.has_value() && arg->min_mhz == min_mhz && arg->max_mhz == max_mhz;
}

TEST_F(NvmlCallsTest, LocksTheClockThatTheGpuHasWithinTheRange) {
  EXPECT_EQ(lock(1200, 1200), Return::success);
  EXPECT_THAT(gpu().locked_sm_clocks(), LockedTo(1200, 1200));
  EXPECT_EQ(lock(1201, 1214), Return::success);  // no clock in between: the one below
  EXPECT_THAT(gpu().locked_sm_clocks(), LockedTo(1200, 1200));
  EXPECT_EQ(lock(0, 900'000), Return::success);
  EXPECT_THAT(gpu().locked_sm_clocks(), LockedTo(345, 1980));
  EXPECT_EQ(call("nvmlDeviceResetGpuLockedClocks", device_), Return::success);
  EXPECT_EQ(gpu().locked_sm_clocks(), std::nullopt);
}

TEST_F(NvmlCallsTest, RefusesRangesThatAreNoneAndChangesNothing) {
  ASSERT_EQ(lock(900, 900), Return::success);
  const std::uint64_t writes = gpu().writes();
  EXPECT_EQ(lock(1200, 900), Return::invalid_argument);
  EXPECT_EQ(lock(900, ~0U), Return::invalid_argument);
  EXPECT_EQ(lock(900, nvml::kClockLimitTdp), Return::invalid_argument);
  EXPECT_EQ(call("nvmlDeviceSetPowerManagementLimit", device_, 0U), Return::invalid_argument);
  EXPECT_EQ(call("nvmlDeviceSetPowerManagementLimit", device_, ~0U), Return::invalid_argument);
  EXPECT_EQ(call("nvmlDeviceSetPersistenceMode", device_, 2U), Return::invalid_argument);
  EXPECT_THAT(gpu().locked_sm_clocks(), LockedTo(900, 900));
  EXPECT_EQ(gpu().writes(), writes);
}

TEST_F(NvmlCallsTest, NamesOfLimitsStandForClocks) {
  EXPECT_EQ(lock(nvml::kClockLimitTdp, nvml::kClockLimitUnlimited), Return::success);
  EXPECT_THAT(gpu().locked_sm_clocks(), LockedTo(345, 1980));
  EXPECT_EQ(lock(nvml::kClockLimitUnlimited, nvml::kClockLimitUnlimited), Return::success);
  EXPECT_EQ(gpu().locked_sm_clocks(), std::nullopt);
}

TEST_F(NvmlCallsTest, ReadsWhatTheMachineHas) {
  machine_->advance(60);
  unsigned long long energy_mj = 0;
  ASSERT_EQ(call("nvmlDeviceGetTotalEnergyConsumption", device_, &energy_mj), Return::success);
  EXPECT_NEAR(static_cast<double>(energy_mj) * 1e-3, gpu().readings().energy_counter_j, 1e-3);
  EXPECT_GT(energy_mj, 60 * 50'000U);
  ASSERT_EQ(call("nvmlDeviceSetPowerManagementLimit", device_, 400'000U), Return::success);
  unsigned limit_mw = 0;
  ASSERT_EQ(call("nvmlDeviceGetPowerManagementLimit", device_, &limit_mw), Return::success);
  EXPECT_EQ(limit_mw, 400'000U);
  EXPECT_DOUBLE_EQ(gpu().readings().power_limit_w, 400);
}

TEST_F(NvmlCallsTest, FaultsStrikeTheCallTheyName) {
  constexpr double kDelayS = 2;
  const auto timeout = static_cast<std::uint32_t>(Return::timeout);
  gpu().faults().inject({.call = "DeviceSetGpuLockedClocks", .return_code = timeout, .delay_s = kDelayS, .count = 1});
  const double before_s = machine_->now_s();
  EXPECT_EQ(lock(900, 900), Return::timeout);
  EXPECT_GE(machine_->now_s() - before_s, kDelayS);
  EXPECT_EQ(gpu().locked_sm_clocks(), std::nullopt);
  EXPECT_EQ(lock(900, 900), Return::success);
}

TEST_F(NvmlCallsTest, LostGpuAnswersNothingAndLeavesTheOthers) {
  gpu().faults().inject({.lost = true});
  unsigned power_mw = 0;
  EXPECT_EQ(call("nvmlDeviceGetPowerUsage", device_, &power_mw), Return::gpu_is_lost);
  EXPECT_EQ(lock(900, 900), Return::gpu_is_lost);
  Device other = nullptr;
  ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 1U, &other), Return::success);
  EXPECT_EQ(call("nvmlDeviceGetPowerUsage", other, &power_mw), Return::success);
  gpu().faults().clear();
  EXPECT_EQ(call("nvmlDeviceGetPowerUsage", device_, &power_mw), Return::success);
}

TEST_F(NvmlCallsTest, GpusBeforeBlackwellHaveNoPowerFeatures) {
  nvml::WorkloadPowerProfilesCurrentV1 now{};
  now.version = nvml::struct_version<nvml::WorkloadPowerProfilesCurrentV1>(1);
  nvml::WorkloadPowerProfileUpdateV1 update{.operation = nvml::kReplaceWorkloadPowerProfiles, .profiles = {}};
  nvml::PowerSmoothingStateV1 state{.version = nvml::struct_version<nvml::PowerSmoothingStateV1>(1), .state = 1};
  EXPECT_EQ(call("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles", device_, &now), Return::not_supported);
  EXPECT_EQ(call("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1", device_, &update), Return::not_supported);
  EXPECT_EQ(call("nvmlDevicePowerSmoothingSetState", device_, &state), Return::not_supported);
  nvml::FieldValue field{};
  field.field_id = nvml::kFieldSmoothingEnabled;
  ASSERT_EQ(call("nvmlDeviceGetFieldValues", device_, 1, &field), Return::success);
  EXPECT_EQ(field.result, Return::not_supported);
  EXPECT_EQ(gpu().writes(), 0U);
}

/// The first GPU has power features.
class PowerFeatureCallsTest : public NvmlCallsTest {
 protected:
  void SetUp() override {
    machine_ = SimulatedMachine::create(
        file(),
        {.gpus = gpu_models_from_text("h100+power,H100"), .clock = SimulatedClock::virtual_, .root_required = false});
    open_library();
  }

  Return update(std::uint32_t operation, std::uint32_t profiles) {
    nvml::WorkloadPowerProfileUpdateV1 update{.operation = operation, .profiles = {}};
    update.profiles.words[0] = profiles;
    return call("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1", device_, &update);
  }
  double field(std::uint32_t id, std::uint32_t scope = 0) {
    nvml::FieldValue field{};
    field.field_id = id;
    field.scope_id = scope;
    EXPECT_EQ(call("nvmlDeviceGetFieldValues", device_, 1, &field), Return::success);
    EXPECT_EQ(field.result, Return::success) << id;
    return field.value.unsigned_integer;
  }
  void expect_profiles(std::uint32_t requested, std::uint32_t enforced) {
    nvml::WorkloadPowerProfilesCurrentV1 now{};
    now.version = nvml::struct_version<nvml::WorkloadPowerProfilesCurrentV1>(1);
    ASSERT_EQ(call("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles", device_, &now), Return::success);
    EXPECT_EQ(now.supported.words[0], gpu().model().power_features.profiles);
    EXPECT_EQ(now.requested.words[0], requested);
    EXPECT_EQ(now.enforced.words[0], enforced);
  }
};

TEST_F(PowerFeatureCallsTest, ProfilesAreAddedRemovedAndReplaced) {
  EXPECT_EQ(update(nvml::kAddWorkloadPowerProfiles, 0b0010), Return::success);
  EXPECT_EQ(update(nvml::kAddWorkloadPowerProfiles, 0b1000'0000), Return::success);
  expect_profiles(0b1000'0010, 0b1000'0010);
  EXPECT_EQ(update(nvml::kRemoveWorkloadPowerProfiles, 0b0011), Return::success);
  expect_profiles(0b1000'0000, 0b1000'0000);
  EXPECT_EQ(update(nvml::kReplaceWorkloadPowerProfiles, 0b0100), Return::success);
  expect_profiles(0b0100, 0b0100);
  nvml::WorkloadPowerProfileRequestV1 request{.version = nvml::struct_version<nvml::WorkloadPowerProfileRequestV1>(1),
                                              .requested = {}};
  request.requested.words[0] = 0b0010;
  EXPECT_EQ(call("nvmlDeviceWorkloadPowerProfileSetRequestedProfiles", device_, &request), Return::success);
  expect_profiles(0b0110, 0b0110);
  EXPECT_EQ(call("nvmlDeviceWorkloadPowerProfileClearRequestedProfiles", device_, &request), Return::success);
  expect_profiles(0b0100, 0b0100);
}

TEST_F(PowerFeatureCallsTest, OfProfilesThatConflictTheFirstIsEnforced) {
  EXPECT_EQ(update(nvml::kReplaceWorkloadPowerProfiles, 0b0011), Return::success);
  expect_profiles(0b0011, 0b0001);
}

TEST_F(PowerFeatureCallsTest, WhatDoesNotExistIsRefusedAndChangesNothing) {
  const std::uint64_t writes = gpu().writes();
  EXPECT_EQ(update(nvml::kReplaceWorkloadPowerProfiles, 1U << 14U), Return::invalid_argument);
  EXPECT_EQ(update(3, 0b1), Return::invalid_argument);
  nvml::WorkloadPowerProfilesCurrentV1 now{};
  EXPECT_EQ(call("nvmlDeviceWorkloadPowerProfileGetCurrentProfiles", device_, &now), Return::argument_version_mismatch);
  nvml::PowerSmoothingProfileV1 profile{.version = nvml::struct_version<nvml::PowerSmoothingProfileV1>(1),
                                        .profile_id = 3,
                                        .parameter_id = 0,
                                        .value = 0};
  EXPECT_EQ(call("nvmlDevicePowerSmoothingActivatePresetProfile", device_, &profile), Return::invalid_argument);
  EXPECT_EQ(gpu().writes(), writes);
}

TEST_F(PowerFeatureCallsTest, SmoothingIsSwitchedAndItsPresetsRead) {
  EXPECT_EQ(field(nvml::kFieldSmoothingEnabled), 0);
  nvml::PowerSmoothingStateV1 state{.version = nvml::struct_version<nvml::PowerSmoothingStateV1>(1), .state = 1};
  EXPECT_EQ(call("nvmlDevicePowerSmoothingSetState", device_, &state), Return::success);
  nvml::PowerSmoothingProfileV1 profile{.version = nvml::struct_version<nvml::PowerSmoothingProfileV1>(1),
                                        .profile_id = 2,
                                        .parameter_id = 0,
                                        .value = 0};
  EXPECT_EQ(call("nvmlDevicePowerSmoothingActivatePresetProfile", device_, &profile), Return::success);
  EXPECT_EQ(field(nvml::kFieldSmoothingEnabled), 1);
  EXPECT_EQ(field(nvml::kFieldSmoothingActivePreset), 2);
  EXPECT_EQ(field(nvml::kFieldSmoothingPresets), 3);
  EXPECT_GT(field(nvml::kFieldSmoothingPresetRampUp, 2), field(nvml::kFieldSmoothingPresetRampUp, 0));
}

TEST_F(PowerFeatureCallsTest, NothingOfItChangesTimeOrPower) {
  const auto other = SimulatedMachine::create(
      file().parent_path() / "other", {.gpus = gpu_models_from_text("2xH100"), .clock = SimulatedClock::virtual_});
  ASSERT_EQ(update(nvml::kReplaceWorkloadPowerProfiles, 0b0010), Return::success);
  nvml::PowerSmoothingStateV1 state{.version = nvml::struct_version<nvml::PowerSmoothingStateV1>(1), .state = 1};
  ASSERT_EQ(call("nvmlDevicePowerSmoothingSetState", device_, &state), Return::success);
  const SimulatedKernel kernel{.compute_s = 0.5, .memory_s = 0.2};
  EXPECT_EQ(gpu().run(kernel), other->gpu(0).run(kernel));
  EXPECT_EQ(gpu().true_energy_j(), other->gpu(0).true_energy_j());
}

TEST_F(NvmlCallsTest, SetsOnlyForRootWhereTheMachineSaysSo) {
  const auto path = file().parent_path() / "strict";
  const auto strict = SimulatedMachine::create(
      path, {.gpus = gpu_models_from_text("H100"), .clock = SimulatedClock::virtual_, .root_required = true});
  while (call("nvmlShutdown") == Return::success) {
  }
  ASSERT_EQ(::setenv("LOWGEAR_SIMGPU", path.c_str(), 1), 0);
  ASSERT_EQ(call("nvmlInit_v2"), Return::success);
  ASSERT_EQ(call("nvmlDeviceGetHandleByIndex_v2", 0U, &device_), Return::success);
  ChildProcess child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) throw Error("cannot become another user");
    if (lock(900, 900) != Return::no_permission) throw Error("not refused");
  });
  EXPECT_TRUE(child.succeeded());
  EXPECT_EQ(strict->gpu(0).writes(), 0U);
}

TEST_F(NvmlCallsTest, AMachineThatThisUserMayNotWriteToIsAMatterOfPermission) {
  namespace fs = std::filesystem;
  fs::permissions(file().parent_path(), fs::perms{0755});
  const auto init_as_nobody = [&](Return expected, std::string_view words) {
    while (call("nvmlShutdown") == Return::success) {
    }
    ChildProcess child([&] {
      if (::geteuid() == 0 && ::seteuid(65534) != 0) throw Error("cannot become another user");
      testing::internal::CaptureStderr();
      const Return code = call("nvmlInit_v2");
      const std::string said = testing::internal::GetCapturedStderr();
      if (code != expected || said.find(words) == std::string::npos) throw Error(said);
    });
    EXPECT_TRUE(child.succeeded()) << words;
  };
  init_as_nobody(Return::success, "");  // the machine is for every user
  fs::permissions(file(), fs::perms{0644});
  if (::geteuid() == 0) init_as_nobody(Return::no_permission, "chmod 0666");
  fs::permissions(file(), fs::perms{0444});
  if (::geteuid() != 0) init_as_nobody(Return::no_permission, "chmod 0666");
}

TEST_F(NvmlCallsTest, PowerIsThatOfTheGpuAndOfNothingElse) {
  struct Expected {
    std::uint32_t field;
    std::uint32_t scope;
    Return result;
  };
  // Answers of driver 580.159.04 on an H200; the power of the memory is not simulated.
  for (const auto& [field, scope, result] : std::initializer_list<Expected>{{185, 0, Return::success},
                                                                            {185, 1, Return::not_supported},
                                                                            {185, 2, Return::not_supported},
                                                                            {185, 3, Return::invalid_argument},
                                                                            {186, 0, Return::success},
                                                                            {186, 1, Return::not_supported},
                                                                            {186, 2, Return::not_supported},
                                                                            {186, 3, Return::invalid_argument},
                                                                            {187, 1, Return::not_supported},
                                                                            {190, 0, Return::success},
                                                                            {190, 2, Return::invalid_argument},
                                                                            {191, 0, Return::success},
                                                                            {191, 2, Return::not_supported},
                                                                            {191, 7, Return::not_supported},
                                                                            {192, 1, Return::not_supported},
                                                                            {83, 0, Return::success},
                                                                            {83, 2, Return::success}}) {
    nvml::FieldValue value{};
    value.field_id = field;
    value.scope_id = scope;
    ASSERT_EQ(call("nvmlDeviceGetFieldValues", device_, 1, &value), Return::success);
    EXPECT_EQ(value.result, result) << field << " in scope " << scope;
    const bool has_value = value.value.unsigned_long != 0;
    EXPECT_TRUE(result == Return::success || !has_value) << field << " in scope " << scope;
  }
}

TEST_F(NvmlCallsTest, HandsOutTheTableThatNvidiaSmiAsksFor) {
  const unsigned char id[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
  const unsigned char other[16] = {};
  const void* table = &id;
  EXPECT_EQ(call("nvmlInternalGetExportTable", &table, static_cast<const void*>(other)), Return::invalid_argument);
  EXPECT_EQ(table, nullptr);
  ASSERT_EQ(call("nvmlInternalGetExportTable", &table, static_cast<const void*>(id)), Return::success);
  using Slot = Return (*)(void*, void*, void*, void*);
  const auto* slots = static_cast<const Slot*>(table);
  Device found = nullptr;
  EXPECT_EQ(slots[81](nullptr, static_cast<void*>(&found), nullptr, nullptr), Return::success);
  EXPECT_EQ(found, device_);
  std::uint32_t processes = 250;
  char entry = 'x';
  EXPECT_EQ(slots[213](device_, &processes, &entry, nullptr), Return::success);
  EXPECT_EQ(processes, 0U);
  EXPECT_EQ(entry, 'x');
}

}  // namespace
}  // namespace lowgear::simgpu
