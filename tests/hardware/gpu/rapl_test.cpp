#include "hardware/gpu/rapl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lowgear::gpu {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

/// A folder that looks like /sys/class/powercap.
class RaplTest : public testing::Test {
 protected:
  RaplTest() : root_(fs::temp_directory_path() / ("lowgear-rapl-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~RaplTest() override { fs::remove_all(root_); }

  void zone(const std::string& path, const std::string& name, const std::string& energy_uj,
            const std::string& range_uj = "1000000000") {
    fs::create_directories(root_ / path);
    std::ofstream(root_ / path / "name") << name << '\n';
    std::ofstream(root_ / path / "energy_uj") << energy_uj << '\n';
    std::ofstream(root_ / path / "max_energy_range_uj") << range_uj << '\n';
  }
  /// A second later.
  void advance(const std::string& path, const std::string& energy_uj) {
    now_s_ += 1;
    std::ofstream(root_ / path / "energy_uj") << energy_uj << '\n';
  }
  [[nodiscard]] Rapl open() {
    return Rapl(root_, [this] { return now_s_; });
  }

  fs::path root_;
  double now_s_ = 100;
};

TEST_F(RaplTest, ReadsPackagesAndTheirMemory) {
  zone("intel-rapl:0", "package-0", "5000000");
  zone("intel-rapl:0/intel-rapl:0:0", "core", "1000000");
  zone("intel-rapl:0/intel-rapl:0:1", "dram", "7000000");
  zone("intel-rapl:1", "package-1", "0");
  Rapl rapl = open();
  advance("intel-rapl:0", "8000000");
  advance("intel-rapl:0/intel-rapl:0:0", "2000000");
  advance("intel-rapl:0/intel-rapl:0:1", "7500000");
  const std::vector<RaplReading> readings = rapl.read();
  ASSERT_EQ(readings.size(), 3U) << "cores are part of their package";
  EXPECT_EQ(readings[0].zone, "package-0");
  EXPECT_DOUBLE_EQ(readings[0].energy_j, 3);
  EXPECT_EQ(readings[1].zone, "package-0/dram");
  EXPECT_TRUE(readings[1].dram);
  EXPECT_DOUBLE_EQ(readings[1].energy_j, 0.5);
  EXPECT_EQ(readings[2].package, 1);
  EXPECT_EQ(readings[0].problem, "");
  EXPECT_THAT(readings[2].problem, HasSubstr("intel-rapl:1/energy_uj: the counter shows no energy for 3 s"));
  EXPECT_TRUE(rapl.problem().empty());
}

TEST_F(RaplTest, MakesUpForWrapAround) {
  zone("intel-rapl:0", "package-0", "999000000", "1000000000");
  Rapl rapl = open();
  advance("intel-rapl:0", "1500000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 2.5);
  advance("intel-rapl:0", "2500000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 3.5);
  EXPECT_EQ(rapl.read()[0].set_aside, 0);
}

TEST_F(RaplTest, TakesNoFallForAWrapAroundThatCannotBe) {
  zone("intel-rapl:0", "package-0", "5000000000", "262143328850");
  Rapl rapl = open();
  advance("intel-rapl:0", "5080000000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 80);
  advance("intel-rapl:0", "1000000");  // the module was loaded anew: not 257 kJ in a second
  EXPECT_NEAR(rapl.read()[0].energy_j, 160, 1) << "the power of before";
  EXPECT_EQ(rapl.read()[0].set_aside, 1);
  advance("intel-rapl:0", "61000000");
  EXPECT_NEAR(rapl.read()[0].energy_j, 220, 1);
  EXPECT_EQ(rapl.read()[0].problem, "");
}

TEST_F(RaplTest, SetsAJumpAside) {
  zone("intel-rapl:0", "package-0", "0", "262143328850");
  Rapl rapl = open();
  advance("intel-rapl:0", "80000000");
  (void)rapl.read();
  advance("intel-rapl:0", "80080000000");
  EXPECT_NEAR(rapl.read()[0].energy_j, 160, 1);
  EXPECT_EQ(rapl.read()[0].set_aside, 1);
}

TEST_F(RaplTest, SaysThatACounterStandsStill) {
  zone("intel-rapl:0", "package-0", "5000000");
  zone("intel-rapl:0/intel-rapl:0:0", "dram", "0");
  Rapl rapl = open();
  EXPECT_THAT(rapl.read()[1].problem, HasSubstr("has not moved yet"));
  advance("intel-rapl:0", "8000000");
  EXPECT_EQ(rapl.read()[0].problem, "");
  EXPECT_THAT(rapl.read()[1].problem, HasSubstr("shows no energy for 1 s"));
  now_s_ += 1;
  EXPECT_THAT(rapl.read()[0].problem, HasSubstr("shows no energy for 1 s"));
  advance("intel-rapl:0", "9000000");
  EXPECT_EQ(rapl.read()[0].problem, "");
  EXPECT_EQ(rapl.read()[0].set_aside, 1) << "whether it lost some is not known";
}

TEST_F(RaplTest, LeavesOutWhatCountsTwice) {
  zone("intel-rapl:0", "package-0", "0");
  zone("intel-rapl:1", "psys", "0");
  zone("intel-rapl-mmio:0", "package-0", "0");
  EXPECT_EQ(open().read().size(), 1U);
}

TEST_F(RaplTest, ReadsEachDieOfAPackage) {
  zone("intel-rapl:0", "package-1-die-0", "1000000");
  zone("intel-rapl:1", "package-1-die-1", "2000000");
  const std::vector<RaplReading> readings = open().read();
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings[0].zone, "package-1-die-0");
  EXPECT_EQ(readings[0].package, 1);
  EXPECT_EQ(readings[1].package, 1);
}

TEST_F(RaplTest, SaysWhyThereIsNothing) {
  EXPECT_THAT(open().problem(), HasSubstr("no CPU energy counters"));
  EXPECT_THAT(Rapl(root_ / "absent").problem(), HasSubstr("absent"));
}

TEST_F(RaplTest, LeavesOutGarbage) {
  zone("intel-rapl:0", "package-0", "not a number");
  zone("intel-rapl:1", "package-x", "5");
  Rapl rapl = open();
  EXPECT_TRUE(rapl.read().empty());
  EXPECT_THAT(rapl.problem(), HasSubstr("energy_uj: cannot be read"));
}

TEST_F(RaplTest, SaysThatAZoneWentAway) {
  zone("intel-rapl:0", "package-0", "0");
  Rapl rapl = open();
  advance("intel-rapl:0", "4000000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 4);
  EXPECT_EQ(rapl.read()[0].problem, "");
  fs::remove_all(root_ / "intel-rapl:0");
  EXPECT_THAT(rapl.read()[0].problem, HasSubstr("energy_uj: cannot be read"));
}

TEST_F(RaplTest, SaysThatOnlyRootMayRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  zone("intel-rapl:0", "package-0", "0");
  fs::permissions(root_ / "intel-rapl:0/energy_uj", fs::perms::none);
  EXPECT_THAT(open().problem(), HasSubstr("CVE-2020-8694"));
}

}  // namespace
}  // namespace lowgear::gpu
