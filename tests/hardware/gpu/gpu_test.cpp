#include "hardware/gpu/gpu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "hardware/gpu/fake_gpu.h"

namespace lowgear::gpu {

namespace {

TEST(GpuSensors, AreEachInTheTableOnce) {
  std::set<GpuFeature> features;
  std::set<std::string_view> names;
  std::set<std::string_view> metrics;
  std::size_t quantities = 0;
  for (const GpuSensor& sensor : gpu_sensors()) {
    EXPECT_TRUE(features.insert(sensor.feature).second) << name(sensor.feature);
    for (const GpuQuantity& quantity : sensor.quantities) {
      ++quantities;
      names.insert(quantity.name);
      metrics.insert(quantity.metric);
      EXPECT_TRUE(quantity.help.ends_with(".")) << quantity.name;
    }
  }
  EXPECT_EQ(names.size(), quantities);
  EXPECT_EQ(metrics.size(), quantities);
}

TEST(GpuSensors, StandInStraightAfterTheOneTheyReplace) {
  for (std::size_t i = 0; i < gpu_sensors().size(); ++i) {
    const GpuSensor& sensor = gpu_sensors()[i];
    if (sensor.stand_in_for) {
      EXPECT_EQ(gpu_sensors().at(i - 1).feature, sensor.stand_in_for) << name(sensor.feature);
    }
  }
}

TEST(GpuQuantity, IsEmptyWhereTheGpuDoesNotReportIt) {
  GpuValues values;
  values.temperature_c = 41;
  for (const GpuSensor& sensor : gpu_sensors()) {
    for (const GpuQuantity& quantity : sensor.quantities) {
      const std::optional<double> value = quantity.of(values);
      EXPECT_EQ(value.has_value(), quantity.name == "temperature_c") << quantity.name;
      EXPECT_EQ(value.value_or(41), 41) << quantity.name;
    }
  }
}

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(FindGpu, TakesUuidsAndPciAddressesInEveryForm) {
  FakeGpuSystem system(11);
  FakeGpu& last = system.fake(9);  // at 0000:0a:00.0
  for (const std::string& name : {last.identity().uuid, std::string("0000:0a:00.0"), std::string("0a:00.0"),
                                  std::string("0A:00.0"), std::string("00000000:0A:00.0")}) {
    EXPECT_EQ(&find_gpu(system, name), &last) << name;
  }
}

TEST(FindGpu, NamesThoseThereAreWhenThereIsNoSuch) {
  const FakeGpuSystem two(2);
  for (const char* name : {"", "0", "GPU-", ":::::", "00010000:01:00.0"}) {
    EXPECT_THAT([&] { (void)find_gpu(two, name); },
                ThrowsMessage<InputError>(AllOf(HasSubstr("0000:01:00.0"), HasSubstr("0000:02:00.0"))))
        << name;
  }
  const FakeGpuSystem none(0);
  EXPECT_THAT([&] { (void)find_gpu(none, "0000:01:00.0"); }, ThrowsMessage<InputError>(HasSubstr("has none")));
}

TEST(ThrottleReasons, AreTheBitsOfNvml) {
  EXPECT_EQ(to_string(ThrottleReasons{}), "none");
  EXPECT_EQ(to_string(ThrottleReasons{0x1}), "idle");
  EXPECT_EQ(to_string(ThrottleReasons{0x24}), "power cap, thermal");
  EXPECT_EQ(to_string(ThrottleReasons{0x10000000001}), "idle, other (0x10000000000)");
  EXPECT_FALSE(ThrottleReasons{0x1 | 0x2 | 0x10 | 0x100}.throttled()) << "idle, set, synchronised or display";
  for (const std::uint64_t bit : {0x4U, 0x8U, 0x20U, 0x40U, 0x80U})
    EXPECT_TRUE(ThrottleReasons{bit}.throttled()) << bit;
}

TEST(GpuNames, AreDistinct) {
  std::set<std::string_view> names;
  for (int i = 0; i < kGpuFeatureCount; ++i) names.insert(name(static_cast<GpuFeature>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kGpuFeatureCount));
  std::set<std::string_view> codes;
  for (int i = 0; i <= static_cast<int>(GpuErrorCode::driver_error); ++i) {
    codes.insert(name(static_cast<GpuErrorCode>(i)));
  }
  EXPECT_EQ(codes.size(), 7U);
}

// Other modules' tests stand on what the fake does.
TEST(FakeGpu, RecordsAndFailsAsScripted) {
  FakeGpuSystem system(1);
  FakeGpu& gpu = system.fake(0);
  const std::unique_ptr<GpuControl> control = system.control(gpu.identity().uuid);
  control->apply(LockSmClocks{345, 1005});
  EXPECT_EQ(read(gpu, GpuFeature::sm_clock).sm_clock_mhz, 1005);
  gpu.fail("reset SM clocks", GpuErrorCode::timeout);
  EXPECT_THROW(control->apply(ResetSmClocks{}), GpuError);
  EXPECT_EQ(gpu.settings().max_sm_clock_mhz, 1005);
  control->apply(ResetSmClocks{});
  EXPECT_EQ(gpu.settings(), FakeSettings{});
  EXPECT_THAT(gpu.control_calls(), ElementsAre("lock SM clocks to 345-1005 MHz", "reset SM clocks", "reset SM clocks"));
}

TEST(Gpu, IsNamedOnceInAMessage) {
  EXPECT_EQ(without_gpu_name("GPU-1: energy counter: lost", "GPU-1"), "energy counter: lost");
  EXPECT_EQ(without_gpu_name("GPU-12: energy counter: lost", "GPU-1"), "GPU-12: energy counter: lost");
}

TEST(Gpu, IsFoundByItsUuidInAnyCase) {
  GpuIdentity identity;
  identity.uuid = "GPU-0a1b2c3d";
  EXPECT_TRUE(is_called(identity, "GPU-0A1B2C3D"));
  EXPECT_TRUE(is_called(identity, "gpu-0a1b2c3d"));
  EXPECT_FALSE(is_called(identity, "GPU-0a1b2c3e"));
}

}  // namespace

}  // namespace lowgear::gpu
