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
  void advance(const std::string& path, const std::string& energy_uj) {
    std::ofstream(root_ / path / "energy_uj") << energy_uj << '\n';
  }

  fs::path root_;
};

TEST_F(RaplTest, ReadsPackagesAndTheirMemory) {
  zone("intel-rapl:0", "package-0", "5000000");
  zone("intel-rapl:0/intel-rapl:0:0", "core", "1000000");
  zone("intel-rapl:0/intel-rapl:0:1", "dram", "7000000");
  zone("intel-rapl:1", "package-1", "0");
  Rapl rapl(root_);
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
  EXPECT_DOUBLE_EQ(readings[2].energy_j, 0);
  EXPECT_TRUE(rapl.problem().empty());
}

TEST_F(RaplTest, MakesUpForWrapAround) {
  zone("intel-rapl:0", "package-0", "999000000", "1000000000");
  Rapl rapl(root_);
  advance("intel-rapl:0", "1500000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 2.5);
  advance("intel-rapl:0", "2500000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 3.5);
}

TEST_F(RaplTest, LeavesOutWhatCountsTwice) {
  zone("intel-rapl:0", "package-0", "0");
  zone("intel-rapl:1", "psys", "0");
  zone("intel-rapl-mmio:0", "package-0", "0");
  EXPECT_EQ(Rapl(root_).read().size(), 1U);
}

TEST_F(RaplTest, ReadsEachDieOfAPackage) {
  zone("intel-rapl:0", "package-1-die-0", "1000000");
  zone("intel-rapl:1", "package-1-die-1", "2000000");
  const std::vector<RaplReading> readings = Rapl(root_).read();
  ASSERT_EQ(readings.size(), 2U);
  EXPECT_EQ(readings[0].zone, "package-1-die-0");
  EXPECT_EQ(readings[0].package, 1);
  EXPECT_EQ(readings[1].package, 1);
}

TEST_F(RaplTest, SaysWhyThereIsNothing) {
  EXPECT_THAT(Rapl(root_).problem(), HasSubstr("no CPU energy counters"));
  EXPECT_THAT(Rapl(root_ / "absent").problem(), HasSubstr("absent"));
}

TEST_F(RaplTest, LeavesOutGarbage) {
  zone("intel-rapl:0", "package-0", "not a number");
  zone("intel-rapl:1", "package-x", "5");
  Rapl rapl(root_);
  EXPECT_TRUE(rapl.read().empty());
  EXPECT_THAT(rapl.problem(), HasSubstr("energy_uj: cannot be read"));
}

TEST_F(RaplTest, KeepsTheLastReadingOfAZoneThatGoesAway) {
  zone("intel-rapl:0", "package-0", "0");
  Rapl rapl(root_);
  advance("intel-rapl:0", "4000000");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 4);
  fs::remove_all(root_ / "intel-rapl:0");
  EXPECT_DOUBLE_EQ(rapl.read()[0].energy_j, 4);
}

TEST_F(RaplTest, SaysThatOnlyRootMayRead) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  zone("intel-rapl:0", "package-0", "0");
  fs::permissions(root_ / "intel-rapl:0/energy_uj", fs::perms::none);
  EXPECT_THAT(Rapl(root_).problem(), HasSubstr("CVE-2020-8694"));
}

}  // namespace
}  // namespace lowgear::gpu
