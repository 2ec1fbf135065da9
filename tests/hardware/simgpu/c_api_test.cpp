#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/core/temporary_folder.h"
#include "hardware/simgpu/lowgear_simgpu.h"
#include "hardware/simgpu/simulated_machine.h"

namespace lowgear::simgpu {
namespace {

using testing::HasSubstr;

class Environment {
 public:
  Environment() { ::unsetenv("LOWGEAR_SIMGPU"); }
  ~Environment() { ::unsetenv("LOWGEAR_SIMGPU"); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

/// One test: the machine stays open until the process ends.
TEST(SimgpuCApi, RunsKernelsOnTheMachineOfTheEnvironment) {
  const Environment environment;
  int count = 0;
  EXPECT_EQ(lowgear_simgpu_count(&count), LOWGEAR_SIMGPU_FAILED);
  EXPECT_THAT(lowgear_simgpu_error(), HasSubstr("LOWGEAR_SIMGPU is not set"));

  const TemporaryFolder folder;
  const std::string file = folder / "machine";
  const auto machine =
      SimulatedMachine::create(file, {.gpus = gpu_models_from_text("2xH100"), .clock = SimulatedClock::virtual_});
  ::setenv("LOWGEAR_SIMGPU", file.c_str(), 1);
  EXPECT_EQ(lowgear_simgpu_version(), LOWGEAR_SIMGPU_VERSION);
  ASSERT_EQ(lowgear_simgpu_count(&count), LOWGEAR_SIMGPU_OK) << lowgear_simgpu_error();
  EXPECT_STREQ(lowgear_simgpu_error(), "");
  EXPECT_EQ(count, 2);
  int index = 0;
  EXPECT_EQ(lowgear_simgpu_find(machine->gpu(1).uuid().c_str(), &index), LOWGEAR_SIMGPU_OK);
  EXPECT_EQ(index, 1);

  EXPECT_EQ(lowgear_simgpu_attach(1), LOWGEAR_SIMGPU_OK);
  EXPECT_EQ(lowgear_simgpu_advance(1), LOWGEAR_SIMGPU_OK);
  double elapsed_s = 0;
  EXPECT_EQ(lowgear_simgpu_run_kernel(1, 0.5, 0.5, 0.1, 0.1, &elapsed_s), LOWGEAR_SIMGPU_OK);
  EXPECT_NEAR(elapsed_s, 1, 1e-6);
  EXPECT_EQ(lowgear_simgpu_run_kernel(1, 0.5, 0.5, 0.1, 0.1, nullptr), LOWGEAR_SIMGPU_OK);
  double now_s = 0;
  EXPECT_EQ(lowgear_simgpu_now_s(&now_s), LOWGEAR_SIMGPU_OK);
  EXPECT_NEAR(now_s, 3, 1e-6);
  double energy_j = 0;
  EXPECT_EQ(lowgear_simgpu_true_energy_j(1, &energy_j), LOWGEAR_SIMGPU_OK);
  EXPECT_EQ(energy_j, machine->gpu(1).true_energy_j());

  machine->gpu(1).control().lock_sm_clocks(345, 900);
  uint64_t writes = 0;
  int min_mhz = 0;
  int max_mhz = 0;
  EXPECT_EQ(lowgear_simgpu_writes(1, &writes), LOWGEAR_SIMGPU_OK);
  EXPECT_EQ(writes, 1U);
  EXPECT_EQ(lowgear_simgpu_locked_sm_clocks(1, &min_mhz, &max_mhz), LOWGEAR_SIMGPU_OK);
  EXPECT_EQ(min_mhz, 345);
  EXPECT_EQ(max_mhz, 900);
  EXPECT_EQ(lowgear_simgpu_locked_sm_clocks(0, &min_mhz, &max_mhz), LOWGEAR_SIMGPU_OK);
  EXPECT_EQ(max_mhz, 0);
  EXPECT_EQ(lowgear_simgpu_detach(1), LOWGEAR_SIMGPU_OK);

  EXPECT_EQ(lowgear_simgpu_attach(2), LOWGEAR_SIMGPU_INVALID);
  EXPECT_THAT(lowgear_simgpu_error(), HasSubstr("no simulated GPU 2"));
  EXPECT_EQ(lowgear_simgpu_count(nullptr), LOWGEAR_SIMGPU_INVALID);
  EXPECT_EQ(lowgear_simgpu_find(nullptr, &index), LOWGEAR_SIMGPU_INVALID);
  EXPECT_EQ(lowgear_simgpu_find("GPU-none", &index), LOWGEAR_SIMGPU_INVALID);
  EXPECT_EQ(lowgear_simgpu_run_kernel(0, -1, 0, 1, 1, nullptr), LOWGEAR_SIMGPU_INVALID);
  EXPECT_EQ(lowgear_simgpu_advance(-1), LOWGEAR_SIMGPU_INVALID);
}

}  // namespace
}  // namespace lowgear::simgpu
