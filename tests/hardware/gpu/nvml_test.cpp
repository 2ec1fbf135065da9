#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "hardware/gpu/gpu_control.h"
#include "hardware/gpu/nvml_abi.h"
#include "hardware/gpu/nvml_library.h"
#include "hardware/gpu/nvml_survey.h"

namespace lowgear::gpu {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A library of fake_nvml/, which `open_nvml` loads from now on.
class FakeNvml {
 public:
  explicit FakeNvml(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) { use(path); }
  ~FakeNvml() {
    dlclose(handle_);
    for (const char* name : {"LOWGEAR_NVML", "FAKE_NVML_FAIL", "FAKE_NVML_NAME", "FAKE_NVML_SAME"}) unsetenv(name);
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  static void use(const char* path) { setenv("LOWGEAR_NVML", path, 1); }
  /// `nvmlInit_v2=18`: from now on these calls return these codes.
  static void fail(const std::string& script) { setenv("FAKE_NVML_FAIL", script.c_str(), 1); }
  static void give_all_the_same(const char* what) { setenv("FAKE_NVML_SAME", what, 1); }
  static void name_gpus(const std::string& name) { setenv("FAKE_NVML_NAME", name.c_str(), 1); }

  [[nodiscard]] int open_count() const { return symbol<int()>("fake_nvml_open_count")(); }
  [[nodiscard]] std::string setter_calls() const { return symbol<const char*()>("fake_nvml_setter_calls")(); }

 private:
  template <typename Function>
  [[nodiscard]] Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

  void* handle_;
};

/// What opening throws.
template <typename Open>
GpuError error_of_opening(Open&& open) {
  try {
    (void)open();
  } catch (const GpuError& error) {
    return error;
  }
  return {GpuErrorCode::driver_error, "nothing was thrown"};
}

TEST(Nvml, ReadsEverythingOfARecentDriver) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuSystem> system = open_nvml();
  ASSERT_EQ(system->gpus().size(), 2U);
  EXPECT_THAT(system->problems(), IsEmpty());
  EXPECT_FALSE(system->simulated());
  EXPECT_EQ(system->driver_version(), "470.256.02");
  Gpu& gpu = *system->gpus()[0];
  EXPECT_EQ(gpu.identity().uuid, "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(gpu.identity().pci_address, "0000:10:00.0");
  EXPECT_EQ(gpu.identity().name, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(system->gpus()[1]->identity().index, 1);
  for (int i = 0; i < kGpuFeatureCount; ++i) {
    const auto feature = static_cast<GpuFeature>(i);
    EXPECT_TRUE(works(gpu, feature)) << name(feature) << ": " << gpu.features()[static_cast<std::size_t>(i)].reason;
  }
  EXPECT_DOUBLE_EQ(read(gpu, GpuFeature::energy_counter).energy_j.value(), 5'000'000'000.5);
  EXPECT_DOUBLE_EQ(read(gpu, GpuFeature::average_power).power_w.value(), 71.5);
  EXPECT_DOUBLE_EQ(read(gpu, GpuFeature::instant_power).power_w.value(), 99.25) << "32 bits of the field's value";
  EXPECT_EQ(read(gpu, GpuFeature::sm_clock).sm_clock_mhz, 1410);
  EXPECT_EQ(read(gpu, GpuFeature::memory_clock).memory_clock_mhz, 1593);
  EXPECT_EQ(read(gpu, GpuFeature::temperature).temperature_c, 42);
  EXPECT_TRUE(read(gpu, GpuFeature::throttle_reasons).throttle_reasons.value().power_cap());
  EXPECT_EQ(read(gpu, GpuFeature::utilisation).gpu_utilisation_percent, 90);
  EXPECT_EQ(read(gpu, GpuFeature::utilisation).memory_utilisation_percent, 40);
  EXPECT_THAT(gpu.supported_sm_clocks_mhz(), ElementsAre(1410, 1395, 210));
  const PowerLimits limits = gpu.power_limits();
  EXPECT_DOUBLE_EQ(limits.min_w, 100);
  EXPECT_DOUBLE_EQ(limits.max_w, 400);
  EXPECT_DOUBLE_EQ(limits.default_w, 400);
  EXPECT_DOUBLE_EQ(limits.current_w, 350);
  EXPECT_DOUBLE_EQ(limits.enforced_w, 300);
}

TEST(Nvml, AMissingSymbolDisablesOneFeatureWithAReason) {
  const FakeNvml fake(FAKE_NVML_OLD);
  const std::unique_ptr<GpuSystem> system = open_nvml();
  Gpu& gpu = *system->gpus().at(0);
  const auto reason = [&](GpuFeature feature) { return gpu.features()[static_cast<std::size_t>(feature)].reason; };
  EXPECT_THAT(reason(GpuFeature::energy_counter), AllOf(HasSubstr("nvmlDeviceGetTotalEnergyConsumption"),
                                                        HasSubstr("driver 470.256.02"), HasSubstr("energy counter")));
  EXPECT_THAT(reason(GpuFeature::instant_power), HasSubstr("nvmlDeviceGetFieldValues"));
  EXPECT_THAT(reason(GpuFeature::clock_control), HasSubstr("nvmlDeviceSetGpuLockedClocks"));
  EXPECT_FALSE(works(gpu, GpuFeature::energy_counter));
  EXPECT_TRUE(works(gpu, GpuFeature::average_power));
  EXPECT_TRUE(works(gpu, GpuFeature::power_control));
  EXPECT_FALSE(gpu.identity().mig_enabled) << "a driver without MIG";
  EXPECT_EQ(error_of_opening([&] { return read(gpu, GpuFeature::energy_counter); }).code(),
            GpuErrorCode::not_supported);
}

TEST(Nvml, FallsBackToOlderNames) {
  const FakeNvml fake(FAKE_NVML_OLD);
  const std::unique_ptr<GpuSystem> system = open_nvml();
  EXPECT_TRUE(read(*system->gpus().at(0), GpuFeature::throttle_reasons).throttle_reasons.value().thermal());
}

TEST(Nvml, TakesTheOlderCallWhereADriverDoesNotKnowTheFormOfTheNewerOne) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  const std::unique_ptr<GpuControl> control = system->control("0000:11:00.0");
  for (const char* code : {"3", "13", "25"}) {
    FakeNvml::fail(fmt::format("nvmlDeviceGetTemperatureV={0} nvmlDeviceSetPowerManagementLimit_v2={0}", code));
    EXPECT_EQ(read(control->gpu(), GpuFeature::temperature).temperature_c, 41) << code;
    const std::string before = fake.setter_calls();
    control->apply(SetPowerLimit{250});
    EXPECT_EQ(fake.setter_calls().substr(before.size()), "power limit 250000\n") << code;
  }
  const std::string before = fake.setter_calls();
  FakeNvml::fail("nvmlDeviceSetPowerManagementLimit_v2=4");
  EXPECT_THROW(control->apply(SetPowerLimit{250}), GpuError);
  EXPECT_EQ(fake.setter_calls(), before) << "what is refused for another reason is not asked for again";
}

TEST(Nvml, UsesTheOlderCallOfADriverThatHasOnlyThat) {
  const FakeNvml fake(FAKE_NVML_OLD);
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  const std::unique_ptr<GpuControl> control = system->control("0000:10:00.0");
  EXPECT_EQ(read(control->gpu(), GpuFeature::temperature).temperature_c, 41);
  const std::string before = fake.setter_calls();
  control->apply(SetPowerLimit{250});
  EXPECT_EQ(fake.setter_calls().substr(before.size()), "power limit 250000\n");
}

TEST(Nvml, KnowsTheSimulation) {
  const FakeNvml fake(FAKE_NVML_SIMULATED);
  EXPECT_TRUE(open_nvml()->simulated());
}

TEST(Nvml, RecognisesMigAndCountersOfWholeModules) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  EXPECT_FALSE(open_nvml()->gpus().at(0)->identity().mig_enabled);
  EXPECT_TRUE(open_nvml()->gpus().at(1)->identity().mig_enabled);
  EXPECT_FALSE(open_nvml()->gpus().at(0)->identity().counts_whole_module);
  FakeNvml::name_gpus("NVIDIA GH200 480GB");
  EXPECT_TRUE(open_nvml()->gpus().at(0)->identity().counts_whole_module);
}

TEST(Nvml, AGpuThatIsListedTwiceCountsOnce) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  FakeNvml::give_all_the_same("uuid pci");
  const std::unique_ptr<GpuSystem> system = open_nvml();
  ASSERT_EQ(system->gpus().size(), 1U);
  EXPECT_EQ(system->gpus()[0]->identity().index, 0);
  EXPECT_THAT(system->problems(), ElementsAre(AllOf(HasSubstr("GPU number 1"), HasSubstr("counted once"))));
}

TEST(Nvml, GpusThatCannotBeToldApartAreNotUsed) {
  for (const char* what : {"uuid", "pci"}) {
    const FakeNvml fake(FAKE_NVML_RECENT);
    FakeNvml::give_all_the_same(what);
    const std::unique_ptr<GpuSystem> system = open_nvml();
    EXPECT_TRUE(system->gpus().empty()) << what;
    EXPECT_THAT(system->problems(), ElementsAre(HasSubstr("none of them is used"))) << what;
  }
}

TEST(Nvml, FeaturesThatTheDriverRefusesSayWhy) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  FakeNvml::fail("field=3 nvmlDeviceGetTemperatureV=999");
  const std::unique_ptr<GpuSystem> system = open_nvml();
  const Gpu& gpu = *system->gpus().at(0);
  EXPECT_FALSE(works(gpu, GpuFeature::instant_power));
  const GpuFeatureStatus& temperature = gpu.features()[static_cast<std::size_t>(GpuFeature::temperature)];
  EXPECT_EQ(temperature.code, GpuErrorCode::driver_error);
  EXPECT_THAT(temperature.reason, AllOf(HasSubstr(gpu.identity().uuid), HasSubstr("temperature")));
  EXPECT_TRUE(works(gpu, GpuFeature::energy_counter));
}

TEST(Nvml, ALostGpuDoesNotHideTheOthers) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  FakeNvml::fail("nvmlDeviceGetHandleByIndex_v2:0=15");
  const std::unique_ptr<GpuSystem> system = open_nvml();
  ASSERT_EQ(system->gpus().size(), 1U);
  EXPECT_EQ(system->gpus()[0]->identity().index, 1);
  EXPECT_THAT(system->problems(),
              ElementsAre(AllOf(HasSubstr("number 0"), HasSubstr("GPU is lost"), HasSubstr("Xid"))));
}

TEST(Nvml, ErrorsBecomeWhatTheyMean) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuSystem> system = open_nvml();
  Gpu& gpu = *system->gpus().at(0);
  const std::pair<int, GpuErrorCode> expected[] = {
      {1, GpuErrorCode::driver_missing}, {2, GpuErrorCode::invalid_value},   {3, GpuErrorCode::not_supported},
      {4, GpuErrorCode::no_permission},  {9, GpuErrorCode::driver_missing},  {10, GpuErrorCode::timeout},
      {13, GpuErrorCode::not_supported}, {15, GpuErrorCode::gpu_lost},       {16, GpuErrorCode::gpu_lost},
      {17, GpuErrorCode::no_permission}, {19, GpuErrorCode::driver_error},   {25, GpuErrorCode::not_supported},
      {999, GpuErrorCode::driver_error}, {12345, GpuErrorCode::driver_error}};
  for (const auto& [code, kind] : expected) {
    FakeNvml::fail("nvmlDeviceGetPowerUsage=" + std::to_string(code));
    EXPECT_EQ(error_of_opening([&] { return read(gpu, GpuFeature::average_power); }).code(), kind) << code;
  }
}

TEST(Nvml, AdvisesAboutReadingsWhereAReadingIsNotPermitted) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuSystem> system = open_nvml();
  FakeNvml::fail("nvmlDeviceGetPowerUsage=4");
  const std::string message =
      error_of_opening([&] { return read(*system->gpus().at(0), GpuFeature::average_power); }).what();
  EXPECT_THAT(message, HasSubstr("this user may not read it"));
  EXPECT_THAT(message, testing::Not(HasSubstr("clocks")));
}

TEST(Nvml, SaysWhyItCannotBeOpened) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  FakeNvml::fail("nvmlInit_v2=18");
  EXPECT_THAT(error_of_opening(open_nvml).what(), AllOf(HasSubstr("nvmlInit"), HasSubstr("reboot")));
  FakeNvml::fail("nvmlInit_v2=9");
  EXPECT_EQ(error_of_opening(open_nvml).code(), GpuErrorCode::driver_missing);
  EXPECT_EQ(fake.open_count(), 0) << "what was never initialised is not shut down";
  FakeNvml::use(FAKE_NVML_NOT_NVML);
  EXPECT_THAT(error_of_opening(open_nvml).what(), HasSubstr("not an NVML library"));
  FakeNvml::use("/nowhere/libnvidia-ml.so.1");
  const GpuError absent = error_of_opening(open_nvml);
  EXPECT_EQ(absent.code(), GpuErrorCode::driver_missing);
  EXPECT_THAT(absent.what(), AllOf(HasSubstr("/nowhere/libnvidia-ml.so.1: cannot open"), HasSubstr("LOWGEAR_NVML")));
}

TEST(Nvml, IsInitialisedPerOpeningAndShutDown) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  {
    const std::unique_ptr<GpuSystem> first = open_nvml();
    const std::unique_ptr<GpuControlSystem> second = open_nvml_control();
    EXPECT_EQ(fake.open_count(), 2);
  }
  EXPECT_EQ(fake.open_count(), 0);
  FakeNvml::fail("nvmlDeviceGetCount_v2=999");
  EXPECT_THROW((void)open_nvml(), GpuError);
  EXPECT_EQ(fake.open_count(), 0) << "also when opening fails halfway";
}

TEST(Nvml, AForkedChildOpensItsOwnAndLeavesItsParents) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  std::unique_ptr<GpuSystem> system = open_nvml();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    system.reset();
    if (fake.open_count() != 1) _exit(1);
    const std::unique_ptr<GpuSystem> own = open_nvml();
    _exit(fake.open_count() == 2 && read(*own->gpus().at(0), GpuFeature::temperature).temperature_c == 42 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(NvmlControl, ReachesTheSettersInNvmlsUnits) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  const std::unique_ptr<GpuControl> control = system->control("0000:11:00.0");
  EXPECT_EQ(control->gpu().identity().index, 1);
  const std::string before = fake.setter_calls();
  control->apply(LockSmClocks{210, 1395});
  control->apply(ResetSmClocks{});
  control->apply(LockMemoryClocks{810, 1593});
  control->apply(ResetMemoryClocks{});
  control->apply(SetPowerLimit{250.5});
  control->apply(SetPersistenceMode{true});
  EXPECT_EQ(fake.setter_calls().substr(before.size()),
            "SM clocks 210 1395\nSM clocks reset\nmemory clocks 810 1593\nmemory clocks reset\n"
            "power limit 250500 of scope 0\npersistence mode 1\n");
  EXPECT_FALSE(control->gpu().persistence_mode());
  EXPECT_THROW((void)system->control("GPU-none"), InputError);
}

TEST(NvmlControl, DoesNotHandOnWhatCannotBeMeant) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  const std::unique_ptr<GpuControl> control = system->control("0000:10:00.0");
  const std::string before = fake.setter_calls();
  // -256 as an unsigned number is a special value of NVML (nvmlClockLimitId_t).
  for (const int clock_mhz : {-256, -1, 0, std::numeric_limits<int>::max()}) {
    EXPECT_EQ(error_of_opening([&] {
                return control->apply(LockSmClocks{clock_mhz, 1410}), 0;
              }).code(),
              GpuErrorCode::invalid_value);
    EXPECT_THROW(control->apply(LockMemoryClocks{810, clock_mhz}), GpuError);
  }
  for (const double power_w : {-1.0, 0.0, 1e9, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(control->apply(SetPowerLimit{power_w}), GpuError) << power_w;
  }
  EXPECT_EQ(fake.setter_calls(), before);
}

TEST(NvmlControl, SaysThatClocksNeedRoot) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  FakeNvml::fail("nvmlDeviceSetGpuLockedClocks=4");
  const GpuError error = error_of_opening([&] {
    return system->control("10:00.0")->apply(LockSmClocks{210, 1410}), 0;
  });
  EXPECT_EQ(error.code(), GpuErrorCode::no_permission);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("lock SM clocks"), HasSubstr("lowgear agent"), HasSubstr("root")));
}

class PowerFeatures : public testing::Test {
 protected:
  explicit PowerFeatures(const char* library = FAKE_NVML_RECENT) : fake_(library) {}

  /// What applying has called of the driver.
  std::string calls_of(const GpuSetting& setting) {
    const std::string before = fake_.setter_calls();
    control_->apply(setting);
    return fake_.setter_calls().substr(before.size());
  }
  GpuError error_of(const GpuSetting& setting) {
    return error_of_opening([&] { return control_->apply(setting), 0; });
  }

  FakeNvml fake_;
  std::unique_ptr<GpuControlSystem> system_ = open_nvml_control();
  std::unique_ptr<GpuControl> control_ = system_->control("0000:10:00.0");
};

constexpr unsigned kMaxP = 0b1;
constexpr unsigned kMaxQ = 0b10;
constexpr unsigned kLlmTraining = 0b1000'0000;

TEST_F(PowerFeatures, ProfilesAreReadAsTheDriverHasThem) {
  const WorkloadPowerProfiles profiles = control_->gpu().workload_power_profiles();
  EXPECT_EQ(profiles.supported, WorkloadPowerProfileSet(kMaxP | kMaxQ | kLlmTraining));
  EXPECT_EQ(profiles.enforced, WorkloadPowerProfileSet(kMaxP));
}

TEST_F(PowerFeatures, ProfilesAreAddedAndRemovedBeforeCuda131) {
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{kMaxQ | kLlmTraining}), "profiles added 1 7\n");
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{kMaxP | kLlmTraining}), "profiles removed 1\nprofiles added 0\n");
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{kMaxP | kLlmTraining}), "");
  EXPECT_EQ(control_->gpu().workload_power_profiles().requested, WorkloadPowerProfileSet(kMaxP | kLlmTraining));
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{}), "profiles removed 0 7\n");
}

class NewestPowerFeatures : public PowerFeatures {
 protected:
  NewestPowerFeatures() : PowerFeatures(FAKE_NVML_NEWEST) {}
};

TEST_F(NewestPowerFeatures, ProfilesAreReplacedInOneCall) {
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{kMaxQ | kLlmTraining}), "profiles update 2 to 130\n");
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{}), "profiles update 2 to 0\n");
}

TEST_F(NewestPowerFeatures, ProfilesAreAddedWhereADriverHasTheNewerCallAndDoesNotKnowIt) {
  FakeNvml::fail("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1=13");
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{kMaxQ}), "profiles added 1\n");
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{}), "profiles removed 1\n");
  FakeNvml::fail("nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1=4");
  EXPECT_EQ(error_of(RequestWorkloadPowerProfiles{kMaxQ}).code(), GpuErrorCode::no_permission);
}

TEST_F(NewestPowerFeatures, ProfilesThatCannotBeAreRefusedAndNothingIsSet) {
  const std::string before = fake_.setter_calls();
  const GpuError lacking = error_of(RequestWorkloadPowerProfiles{0b100 | kMaxQ});
  EXPECT_EQ(lacking.code(), GpuErrorCode::invalid_value);
  EXPECT_THAT(lacking.what(), AllOf(HasSubstr("no compute"), HasSubstr("max_p, max_q, llm_training")));
  const GpuError conflicting = error_of(RequestWorkloadPowerProfiles{kMaxP | kMaxQ | kLlmTraining});
  EXPECT_EQ(conflicting.code(), GpuErrorCode::invalid_value);
  EXPECT_THAT(conflicting.what(), HasSubstr("max_p conflicts with max_q"));
  EXPECT_EQ(fake_.setter_calls(), before);
  EXPECT_EQ(calls_of(RequestWorkloadPowerProfiles{.profiles = kMaxP | kMaxQ, .allow_conflicts = true}),
            "profiles update 2 to 3\n")
      << "as another program has requested it before";
  FakeNvml::fail("renumbered=1");
  EXPECT_THAT(error_of(RequestWorkloadPowerProfiles{kLlmTraining}).what(), HasSubstr("in another way"));
}

TEST_F(PowerFeatures, AVersionThatTheDriverDoesNotAcceptIsNotSupported) {
  FakeNvml::fail(
      "nvmlDeviceWorkloadPowerProfileGetProfilesInfo=25 nvmlDeviceWorkloadPowerProfileGetCurrentProfiles=25 "
      "nvmlDevicePowerSmoothingSetState=25");
  for (const GpuSetting& setting :
       {GpuSetting(RequestWorkloadPowerProfiles{kMaxQ}), GpuSetting(RequestWorkloadPowerProfiles{}),
        GpuSetting(SetPowerSmoothing{true, {}})}) {
    const GpuError error = error_of(setting);
    EXPECT_EQ(error.code(), GpuErrorCode::not_supported) << to_string(setting);
    EXPECT_THAT(error.what(), HasSubstr("does not accept Lowgear's version")) << to_string(setting);
  }
  EXPECT_FALSE(works(*open_nvml()->gpus().at(0), GpuFeature::workload_power_profiles));
}

TEST(Nvml, PowerFeaturesThatCannotBeReadCannotBeSet) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  FakeNvml::fail("smoothing=2 nvmlDeviceWorkloadPowerProfileGetCurrentProfiles=2");
  const std::unique_ptr<GpuControlSystem> system = open_nvml_control();
  const std::unique_ptr<GpuControl> control = system->control("0000:10:00.0");
  const std::string before = fake.setter_calls();
  for (const GpuSetting& setting :
       {GpuSetting(RequestWorkloadPowerProfiles{}), GpuSetting(SetPowerSmoothing{.enabled = false, .preset = {}})}) {
    EXPECT_EQ(error_of_opening([&] { return control->apply(setting), 0; }).code(), GpuErrorCode::not_supported);
  }
  EXPECT_EQ(fake.setter_calls(), before);
}

class OldPowerFeatures : public PowerFeatures {
 protected:
  OldPowerFeatures() : PowerFeatures(FAKE_NVML_OLD) {}
};

TEST_F(OldPowerFeatures, AreNotSupportedByTheDriverWhichIsNamed) {
  for (const GpuSetting& setting :
       {GpuSetting(RequestWorkloadPowerProfiles{kMaxQ}), GpuSetting(RequestWorkloadPowerProfiles{}),
        GpuSetting(SetPowerSmoothing{true, {}}), GpuSetting(SetPowerSmoothing{true, 1})}) {
    const GpuError error = error_of(setting);
    EXPECT_EQ(error.code(), GpuErrorCode::not_supported) << to_string(setting);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("driver 470.256.02"), HasSubstr("has no nvmlDevice")));
  }
  EXPECT_FALSE(works(control_->gpu(), GpuFeature::workload_power_profiles));
  EXPECT_FALSE(works(control_->gpu(), GpuFeature::power_smoothing));
}

TEST_F(PowerFeatures, SmoothingIsReadInWattsPerSecond) {
  const PowerSmoothing smoothing = control_->gpu().power_smoothing();
  EXPECT_TRUE(smoothing.enabled);
  EXPECT_EQ(smoothing.active_preset, 1);
  EXPECT_EQ(smoothing.presets, 5);
  EXPECT_EQ(smoothing.ceiling_w, 1000);
  EXPECT_EQ(smoothing.lifetime_left_percent, 97);
  EXPECT_EQ(smoothing.ramp_up_w_per_s, 250) << "of the active preset, which the driver reports in mW/s";
  EXPECT_EQ(smoothing.floor_w, std::nullopt) << "the driver has no such field";
}

TEST_F(PowerFeatures, SmoothingIsSetWithItsPresetFirst) {
  EXPECT_EQ(calls_of(SetPowerSmoothing{true, 4}), "preset 4\npower smoothing 1\n");
  EXPECT_EQ(calls_of(SetPowerSmoothing{false, {}}), "power smoothing 0\n");
  const std::string before = fake_.setter_calls();
  for (const int preset : {-1, 5}) {
    EXPECT_EQ(error_of(SetPowerSmoothing{true, preset}).code(), GpuErrorCode::invalid_value) << preset;
  }
  FakeNvml::fail("preset=3");
  EXPECT_EQ(error_of(SetPowerSmoothing{true, 1}).code(), GpuErrorCode::not_supported) << "it could not be restored";
  EXPECT_EQ(control_->gpu().power_smoothing().ramp_up_w_per_s, std::nullopt) << "of which preset is not known";
  EXPECT_EQ(fake_.setter_calls(), before);
}

TEST(NvmlSurvey, ReadsAndNeverSets) {
  const FakeNvml fake(FAKE_NVML_RECENT);
  const std::string before = fake.setter_calls();
  FakeNvml::fail("nvmlDeviceGetHandleByIndex_v2:0=15 nvmlDeviceGetEnforcedPowerLimit=3");
  const NvmlSurvey survey = survey_nvml();
  EXPECT_EQ(fake.setter_calls(), before);
  EXPECT_EQ(survey.library_path, FAKE_NVML_RECENT);
  EXPECT_EQ(survey.problems.size(), 1U);
  ASSERT_EQ(survey.gpus.size(), 1U);
  EXPECT_EQ(survey.gpus[0].persistence_mode, false);
  EXPECT_EQ(survey.gpus[0].compute_mode, ComputeMode::exclusive_process);
  EXPECT_FALSE(survey.gpus[0].power_limits.has_value());
  EXPECT_THAT(survey.gpus[0].supported_sm_clocks_mhz, ElementsAre(1410, 1395, 210));
  EXPECT_EQ(fake.open_count(), 0);
}

TEST(NvmlSurvey, LeavesTheComputeModeEmptyWhereTheDriverDoesNotTell) {
  const FakeNvml fake(FAKE_NVML_OLD);
  EXPECT_FALSE(survey_nvml().gpus.at(0).compute_mode.has_value());
}

}  // namespace
}  // namespace lowgear::gpu
