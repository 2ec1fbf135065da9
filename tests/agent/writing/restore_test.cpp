#include "agent/writing/restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/config/config.h"
#include "agent/damaged_journal.h"
#include "base/core/error.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Restore, ContinuesWhenAStepFails) {
  gpu::FakeGpu gpu;
  gpu::FakeGpuControl control(gpu);
  const OriginalGpuState original = original_state(control);
  control.apply(gpu::LockSmClocks{345, 1005});
  control.apply(gpu::LockMemoryClocks{1593, 1593});
  control.apply(gpu::SetPowerLimit{300});
  gpu.fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  EXPECT_THROW(restore_gpu(control, original), gpu::GpuError);
  EXPECT_EQ(gpu.settings().max_memory_clock_mhz, 0);
  EXPECT_EQ(gpu.settings().power_limit_w, 700);
}

TEST(Restore, TakesWhatIsNotSupportedForRestored) {
  gpu::FakeGpu gpu;
  gpu::FakeGpuControl control(gpu);
  gpu.fail("reset memory clocks", gpu::GpuErrorCode::not_supported);
  EXPECT_NO_THROW(restore_gpu(control, original_state(control)));
}

TEST(Restore, PowerFeaturesAreAsTheyWere) {
  gpu::FakeGpu gpu;
  gpu::FakeGpuControl control(gpu);
  control.apply(gpu::RequestWorkloadPowerProfiles{0b10});
  control.apply(gpu::SetPowerSmoothing{.enabled = true, .preset = 1});
  const gpu::FakeSettings before = gpu.settings();
  const OriginalGpuState original = original_state(control);
  control.apply(gpu::RequestWorkloadPowerProfiles{0b1000'0000});
  control.apply(gpu::SetPowerSmoothing{.enabled = false, .preset = 2});
  restore_gpu(control, original);
  EXPECT_EQ(gpu.settings(), before);
  const std::size_t calls = gpu.control_calls().size();
  restore_gpu(control, original);
  EXPECT_EQ(gpu.control_calls().size(), calls + 2) << "only the clocks, which cannot be read, are reset again";
}

TEST(Restore, AGpuWithoutPowerFeaturesHasNoneToRestore) {
  gpu::FakeGpu gpu;
  for (const auto feature : {gpu::GpuFeature::workload_power_profiles, gpu::GpuFeature::power_smoothing}) {
    gpu.disable(feature, gpu::GpuErrorCode::driver_error, "why");
    gpu.fail(std::string(name(feature)), gpu::GpuErrorCode::driver_error, -1);
  }
  gpu::FakeGpuControl control(gpu);
  const OriginalGpuState original = original_state(control);
  EXPECT_FALSE(original.workload_power_profiles);
  EXPECT_FALSE(original.power_smoothing);
  EXPECT_NO_THROW(restore_gpu(control, original));
}

/// A journal that names the GPU 1, which is locked to 345-1005 MHz.
class RecoverTest : public testing::Test {
 protected:
  RecoverTest() {
    gpu::FakeGpuControl control(system_.fake(1));
    journal_.record_change(original_state(control));
    control.apply(gpu::LockSmClocks{345, 1005});
  }

  [[nodiscard]] std::vector<std::string> recover(gpu::GpuControlSystem& system) {
    return lowgear::agent::recover(journal_, system, Config{},
                                   [this](std::string_view text) { notes_.emplace_back(text); });
  }
  [[nodiscard]] std::string uuid() { return system_.fake(1).identity().uuid; }

  gpu::FakeGpuSystem system_{2};
  Journal journal_{discarding_journal()};
  std::vector<std::string> notes_;
};

TEST_F(RecoverTest, SaysWhatItIsAtAndWhatItHasDone) {
  EXPECT_THAT(recover(system_), IsEmpty());
  EXPECT_THAT(notes_,
              ElementsAre("GPU " + uuid() + ": was left changed; restoring it", "GPU " + uuid() + ": restored"));
  EXPECT_EQ(system_.fake(1).settings(), gpu::FakeSettings{});
  EXPECT_THAT(journal_.changed(), IsEmpty());
}

TEST_F(RecoverTest, DoesNotSayThatAGpuIsRestoredThatRefuses) {
  system_.fake(1).fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  EXPECT_THAT(recover(system_), ElementsAre(HasSubstr("reset SM clocks")));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("restoring it")));
  EXPECT_TRUE(journal_.changed(uuid()));
}

TEST_F(RecoverTest, KeepsAGpuThatDoesNotAnswer) {
  gpu::FakeGpuSystem without(1);
  without.set_problems({"GPU number 1: handle: GPU is lost"});
  EXPECT_THAT(recover(without), ElementsAre(HasSubstr("number 1: handle: GPU is lost")));
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("restoring it")));
  EXPECT_TRUE(journal_.changed(uuid()));
}

TEST_F(RecoverTest, StrikesOutAGpuThatIsNotInTheMachine) {
  gpu::FakeGpuSystem without(1);
  EXPECT_THAT(recover(without), IsEmpty());
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("restoring it"), HasSubstr("no longer in this machine")));
  EXPECT_FALSE(journal_.changed(uuid()));
}

/// A damaged journal, and the GPU 1 has another power limit.
class RecoverFromDamageTest : public testing::Test {
 protected:
  RecoverFromDamageTest() { gpu::FakeGpuControl(system_.fake(1)).apply(gpu::SetPowerLimit{300}); }

  [[nodiscard]] std::vector<std::string> recover(const Config& config) {
    return lowgear::agent::recover(*journal_, system_, config,
                                   [this](std::string_view text) { notes_.emplace_back(text); });
  }
  [[nodiscard]] static Config config_of(std::vector<std::string> gpus) {
    Config config;
    config.gpus = std::move(gpus);
    return config;
  }
  [[nodiscard]] static Config config_of_all() {
    Config config;
    config.all_gpus = true;
    return config;
  }
  [[nodiscard]] std::string uuid() { return system_.fake(1).identity().uuid; }
  [[nodiscard]] double power_limit_w() { return system_.fake(1).settings().power_limit_w; }

  gpu::FakeGpuSystem system_{2};
  std::unique_ptr<Journal> journal_ = std::make_unique<Journal>(damaged_journal());
  std::vector<std::string> notes_;
};

TEST_F(RecoverFromDamageTest, RestoresEveryGpuOfTheConfigurationThatIsInTheMachine) {
  EXPECT_THAT(recover(config_of({uuid(), "0000:99:00.0"})), IsEmpty());
  EXPECT_EQ(power_limit_w(), 700);
  EXPECT_THAT(notes_, Contains(HasSubstr(system_.fake(0).identity().uuid + ": left as it is")));
  gpu::FakeGpuControl control(system_.fake(1));
  EXPECT_NO_THROW(journal_->record_change(original_state(control)));
}

TEST_F(RecoverFromDamageTest, TurnsPersistenceModeOffWhereARuleAllowsSettingIt) {
  Config config = config_of({uuid()});
  config.allow.emplace_back();
  EXPECT_THAT(recover(config), IsEmpty());
  EXPECT_TRUE(system_.fake(1).settings().persistence_mode) << "no user could have set it";
  journal_ = std::make_unique<Journal>(damaged_journal());
  config.allow.back().persistence = true;
  EXPECT_THAT(recover(config), IsEmpty());
  EXPECT_FALSE(system_.fake(1).settings().persistence_mode);
}

TEST_F(RecoverFromDamageTest, TurnsPowerFeaturesOffWhereARuleAllowsSettingThem) {
  gpu::FakeGpuControl control(system_.fake(1));
  control.apply(gpu::RequestWorkloadPowerProfiles{0b10});
  control.apply(gpu::SetPowerSmoothing{.enabled = true, .preset = {}});
  Config config = config_of({uuid()});
  config.allow.emplace_back();
  EXPECT_THAT(recover(config), IsEmpty());
  EXPECT_TRUE(system_.fake(1).settings().power_profiles.any()) << "no user could have set them";
  EXPECT_TRUE(system_.fake(1).settings().power_smoothing) << "no user could have set it";
  journal_ = std::make_unique<Journal>(damaged_journal());
  config.allow.back().workload_power_profiles = config.allow.back().power_smoothing = true;
  EXPECT_THAT(recover(config), IsEmpty());
  EXPECT_TRUE(system_.fake(1).settings().power_profiles.none());
  EXPECT_FALSE(system_.fake(1).settings().power_smoothing);
}

TEST_F(RecoverFromDamageTest, StaysDamagedWhileAGpuRefuses) {
  system_.fake(1).fail("reset SM clocks", gpu::GpuErrorCode::driver_error);
  EXPECT_THAT(recover(config_of({uuid()})), ElementsAre(HasSubstr("reset SM clocks")));
  EXPECT_TRUE(journal_->damaged());
}

TEST_F(RecoverFromDamageTest, StaysDamagedWhileAGpuOfTheConfigurationMayBeSilent) {
  system_.set_problems({"GPU number 2: handle: GPU is lost"});
  EXPECT_THAT(recover(config_of({uuid(), "GPU-2"})), ElementsAre(HasSubstr("GPU GPU-2: may be changed")));
  EXPECT_THAT(recover(config_of_all()), ElementsAre(HasSubstr("number 2: handle: GPU is lost")));
  EXPECT_EQ(power_limit_w(), 700) << "the others are restored";
  gpu::FakeGpuControl control(system_.fake(1));
  EXPECT_THROW(journal_->record_change(original_state(control)), Error);
  EXPECT_THAT(recover(config_of({uuid()})), IsEmpty()) << "the silent one is none of the configuration's";
  EXPECT_FALSE(journal_->damaged());
}

}  // namespace
}  // namespace lowgear::agent
