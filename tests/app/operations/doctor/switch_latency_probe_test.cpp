#include "app/operations/doctor/switch_latency_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <vector>

#include "base/core/error.h"

namespace lowgear::operations::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> h100_clocks_mhz() {
  std::vector<int> clocks_mhz;
  for (int mhz = 1980; mhz >= 345; mhz -= 15) clocks_mhz.push_back(mhz);
  return clocks_mhz;
}

TEST(ProbeClocks, LieFarApartWithinWhatIsAllowed) {
  EXPECT_THAT(probe_clocks_mhz(h100_clocks_mhz(), {345, 1980}), ElementsAre(1980, 1485, 1095));
  EXPECT_THAT(probe_clocks_mhz(h100_clocks_mhz(), {1200, 1500}), ElementsAre(1500, 1200));
  EXPECT_THAT(probe_clocks_mhz({1400}, {0, 2000}), ElementsAre(1400)) << "nothing to change to";
  EXPECT_THAT(probe_clocks_mhz(h100_clocks_mhz(), {2000, 2100}), IsEmpty());
}

TEST(GpuLoad, NeedsItsGpu) {
  ::unsetenv("LOWGEAR_SIMGPU");
  EXPECT_THROW((void)simulated_gpu_load("GPU-0"), InputError);
  EXPECT_THROW((void)cuda_gpu_load("0000:ff:1f.0"), Error) << "neither library nor GPU";
}

}  // namespace
}  // namespace lowgear::operations::doctor
