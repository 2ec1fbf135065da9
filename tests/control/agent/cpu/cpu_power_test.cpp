#include "control/agent/cpu/cpu_power.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "control/agent/cpu/rapl_cpu_meter.h"
#include "control/agent/fake_agent_service.h"

namespace lowgear::agent {
namespace {

constexpr std::int64_t kMillisecond_ns = 1'000'000;

class CpuPowerTest : public ::testing::Test {
 protected:
  /// Lets the CPUs draw power for a while.
  void pass(std::int64_t time_ms, double power_w) {
    now_ns += time_ms * kMillisecond_ns;
    meter.gained_uj += static_cast<std::uint64_t>(power_w * static_cast<double>(time_ms) * 1e3);
  }
  FakeCpuMeter meter;
  std::int64_t now_ns = 1;
  CpuPower power{&meter, [this] { return now_ns; }};
};

TEST_F(CpuPowerTest, NeedsTwoReadingsAHundredMillisecondsApart) {
  EXPECT_FALSE(power.power());
  pass(99, 50);
  EXPECT_FALSE(power.power());
  pass(1, 50);
  ASSERT_TRUE(power.power());
  EXPECT_DOUBLE_EQ(power.power()->at(0).package_w, 50);
  EXPECT_DOUBLE_EQ(*power.power()->at(0).dram_w, 25);
  EXPECT_FALSE(power.power()->at(1).dram_w);
}

TEST_F(CpuPowerTest, FollowsWhatIsDrawnNow) {
  (void)power.power();
  pass(100, 50);
  (void)power.power();
  pass(100, 80);
  EXPECT_DOUBLE_EQ(power.power()->at(0).package_w, 80);
}

TEST_F(CpuPowerTest, DoesNotTellWhatWasDrawnLongAgo) {
  (void)power.power();
  pass(100, 50);
  ASSERT_TRUE(power.power());
  pass(5000, 10);
  EXPECT_FALSE(power.power());
  pass(100, 70);
  EXPECT_DOUBLE_EQ(power.power()->at(0).package_w, 70);
}

TEST_F(CpuPowerTest, WithoutAMeterSaysWhy) {
  CpuPower none(nullptr, [] { return std::int64_t{1}; });
  EXPECT_TRUE(none.energy().empty());
  EXPECT_FALSE(none.problem().empty());
}

TEST(RaplCpuMeter, AMachineWithoutPowercapSaysWhy) {
  RaplCpuMeter meter(gpu::Rapl("/nonexistent/powercap"));
  EXPECT_TRUE(meter.read().empty());
  EXPECT_FALSE(meter.problem().empty());
}

}  // namespace
}  // namespace lowgear::agent
