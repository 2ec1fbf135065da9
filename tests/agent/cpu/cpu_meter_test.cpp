#include "agent/cpu/cpu_meter.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/fake_agent_service.h"
#include "base/core/temporary_folder.h"

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
  EXPECT_DOUBLE_EQ(*power.power()->at(0).package_w, 50);
  EXPECT_DOUBLE_EQ(*power.power()->at(0).dram_w, 25);
  EXPECT_FALSE(power.power()->at(1).dram_w);
}

TEST_F(CpuPowerTest, FollowsWhatIsDrawnNow) {
  (void)power.power();
  pass(100, 50);
  (void)power.power();
  pass(100, 80);
  EXPECT_DOUBLE_EQ(*power.power()->at(0).package_w, 80);
}

TEST_F(CpuPowerTest, DoesNotTellWhatWasDrawnLongAgo) {
  (void)power.power();
  pass(100, 50);
  ASSERT_TRUE(power.power());
  pass(5000, 10);
  EXPECT_FALSE(power.power());
  pass(100, 70);
  EXPECT_DOUBLE_EQ(*power.power()->at(0).package_w, 70);
}

TEST_F(CpuPowerTest, WithoutAMeterSaysWhy) {
  CpuPower none(nullptr, [] { return std::int64_t{1}; });
  EXPECT_TRUE(none.energy().empty());
  EXPECT_FALSE(none.problem().empty());
}

TEST_F(CpuPowerTest, HasNoPowerOfACounterThatDoesNotTell) {
  (void)power.power();
  pass(100, 0);
  EXPECT_FALSE(power.power()->at(0).package_w) << "no CPU draws nothing";
  pass(100, 50);
  EXPECT_TRUE(power.power()->at(0).package_w);
  meter.set_aside = 1;
  pass(100, 50);
  EXPECT_FALSE(power.power()->at(0).package_w) << "a jump in between";
  EXPECT_FALSE(power.power()->at(0).dram_w);
}

/// Packages as powercap shows them, on a clock that only tests advance.
class RaplCpuMeterTest : public ::testing::Test {
 protected:
  void zone(const std::string& path, const std::string& name, long energy_uj) {
    std::filesystem::create_directories(folder.path() / path);
    std::ofstream(folder.path() / path / "name") << name << '\n';
    std::ofstream(folder.path() / path / "energy_uj") << energy_uj << '\n';
  }
  TemporaryFolder folder;
  double now_s = 10;
};

TEST_F(RaplCpuMeterTest, HasNoEnergyOfACounterThatStandsStill) {
  zone("intel-rapl:0", "package-0", 5'000'000);
  zone("intel-rapl:0/intel-rapl:0:0", "dram", 0);
  RaplCpuMeter meter(gpu::Rapl(folder.path(), [this] { return now_s; }));
  now_s += 1;
  zone("intel-rapl:0", "package-0", 65'000'000);
  const CpuEnergy energy = meter.read().at(0);
  EXPECT_EQ(energy.package_uj, 60'000'000);
  EXPECT_FALSE(energy.dram_uj) << "not 0";
  EXPECT_NE(energy.problem.find("shows no energy"), std::string::npos) << energy.problem;
  EXPECT_EQ(energy.dram_set_aside, 1);
}

TEST_F(RaplCpuMeterTest, HasNoEnergyOfAPackageWithADieThatCannotBeRead) {
  zone("intel-rapl:0", "package-0-die-0", 0);
  zone("intel-rapl:1", "package-0-die-1", 0);
  RaplCpuMeter meter(gpu::Rapl(folder.path(), [this] { return now_s; }));
  now_s += 1;
  zone("intel-rapl:0", "package-0-die-0", 1'000'000);
  zone("intel-rapl:1", "package-0-die-1", 2'000'000);
  EXPECT_EQ(meter.read().at(0).package_uj, 3'000'000);
  std::filesystem::remove(folder.path() / "intel-rapl:1/energy_uj");
  const CpuEnergy energy = meter.read().at(0);
  EXPECT_FALSE(energy.package_uj);
  EXPECT_NE(energy.problem.find("cannot be read"), std::string::npos) << energy.problem;
}

TEST(RaplCpuMeter, AMachineWithoutPowercapSaysWhy) {
  RaplCpuMeter meter(gpu::Rapl("/nonexistent/powercap"));
  EXPECT_TRUE(meter.read().empty());
  EXPECT_FALSE(meter.problem().empty());
}

}  // namespace
}  // namespace lowgear::agent
