#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::operations {
namespace {

using cli::ProgramResult;
using cli::run_lowgear;
using ::testing::HasSubstr;

class SimgpuCommand : public ::testing::Test {
 protected:
  /// `lowgear simgpu ACTION --state FILE` and the others.
  [[nodiscard]] ProgramResult simgpu(const std::string& action, const std::vector<std::string>& others = {}) const {
    std::vector<std::string> command{"simgpu", action, "--state", state()};
    command.insert(command.end(), others.begin(), others.end());
    return run_lowgear(std::move(command));
  }
  [[nodiscard]] Json json(const std::string& action, std::vector<std::string> others = {}) const {
    others.emplace_back("--json");
    const ProgramResult result = simgpu(action, others);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    Json parsed = parse_json(result.out, "stdout");
    EXPECT_EQ(parsed["simulated"], true);
    return parsed;
  }
  [[nodiscard]] std::string state() const { return folder_ / "machine"; }

 private:
  TemporaryFolder folder_;
};

TEST_F(SimgpuCommand, CreatesShowsAndLoadsAMachine) {
  const Json made = json("create", {"--gpus", "2xH100,A40", "--virtual-time", "--any-user"});
  ASSERT_EQ(made["gpus"].size(), 3U);
  EXPECT_EQ(made["clock"], "virtual");
  EXPECT_EQ(made["root_required"], false);
  EXPECT_EQ(made["gpus"][2]["name"], "NVIDIA A40");

  const Json ran = json("run", {"--gpu", "1", "--time", "20", "--load", "1"});
  EXPECT_NEAR(ran["time_s"], 20, 0.1);
  EXPECT_NEAR(ran["mean_power_w"], 700, 15);
  EXPECT_EQ(ran["throttle_reasons"], 4);

  const Json shown = json("show");
  EXPECT_NEAR(shown["gpus"][1]["true_energy_j"], ran["true_energy_j"], 1e-6);
  EXPECT_NEAR(shown["gpus"][0]["average_power_w"], 68.4, 1);
  EXPECT_EQ(shown["gpus"][0]["writes"], 0);
  EXPECT_TRUE(shown["gpus"][0]["locked_sm_clocks_mhz"].is_null());
}

TEST_F(SimgpuCommand, TextSaysSimulated) {
  EXPECT_THAT(simgpu("create").out, HasSubstr("Simulated machine"));
  EXPECT_THAT(simgpu("show").out, HasSubstr("simulated"));
  EXPECT_THAT(simgpu("run", {"--time", "0.02"}).out, HasSubstr("Simulated GPU 0 ran"));
}

TEST_F(SimgpuCommand, SlowsKernelsDown) {
  (void)json("create", {"--gpus", "2xH100", "--virtual-time"});
  const Json slow = json("slow", {"--gpu", "1", "--factor", "1.25"});
  EXPECT_EQ(slow["gpus"][0]["slowdown"], 1);
  EXPECT_EQ(slow["gpus"][1]["slowdown"], 1.25);
  const int usual = json("run", {"--gpu", "0", "--time", "1"})["kernels"];
  const int slower = json("run", {"--gpu", "1", "--time", "1"})["kernels"];
  EXPECT_NEAR(static_cast<double>(usual) / slower, 1.25, 0.03);
  EXPECT_EQ(json("reset")["gpus"][1]["slowdown"], 1);
  EXPECT_NE(simgpu("slow", {"--gpu", "1"}).exit_code, 0) << "by how much?";
  EXPECT_NE(simgpu("slow", {"--factor", "0.5"}).exit_code, 0);
}

TEST_F(SimgpuCommand, SharesAGpuAndRunsLoadsWithPauses) {
  (void)json("create", {"--gpus", "2xH100", "--virtual-time"});
  const Json shared = json("share", {"--gpu", "1", "--by", "mps"});
  EXPECT_EQ(shared["gpus"][0]["sharing"], "time-slicing");
  EXPECT_EQ(shared["gpus"][1]["sharing"], "mps");
  const auto kernels = [this](const std::string& busy) -> int {
    return json("run", {"--gpu", "1", "--time", "1", "--load", "0.1", "--busy", busy, "--sm-share", "0.3"})["kernels"];
  };
  (void)kernels("1");  // wakes the GPU
  const int busy = kernels("1");
  const int half = kernels("0.5");
  EXPECT_NEAR(static_cast<double>(busy) / half, 2, 0.1);
  EXPECT_EQ(json("reset")["gpus"][1]["sharing"], "time-slicing");
  EXPECT_NE(simgpu("share", {"--gpu", "1"}).exit_code, 0) << "how?";
  EXPECT_NE(simgpu("share", {"--by", "mig"}).exit_code, 0);
  EXPECT_NE(simgpu("run", {"--time", "1", "--busy", "0"}).exit_code, 0);
}

TEST_F(SimgpuCommand, InjectsFaultsAndResets) {
  (void)json("create", {"--gpus", "2xA100", "--virtual-time"});
  const Json broken = json("inject", {"--gpu", "1", "--call", "DeviceSetGpuLockedClocks", "--return-code", "15",
                                      "--count", "3", "--delay", "0.5"});
  EXPECT_EQ(broken["gpus"][0]["faults"].size(), 0U);
  const Json& fault = broken["gpus"][1]["faults"][0];
  EXPECT_EQ(fault["call"], "DeviceSetGpuLockedClocks");
  EXPECT_EQ(fault["return_code"], 15);
  EXPECT_EQ(fault["count"], 3);
  EXPECT_EQ(fault["delay_s"], 0.5);
  EXPECT_EQ(json("inject", {"--stuck"})["gpus"][0]["faults"][0]["clock_stuck"], true);
  const Json reset = json("reset");
  EXPECT_EQ(reset["gpus"][0]["faults"].size() + reset["gpus"][1]["faults"].size(), 0U);
  EXPECT_GT(reset["gpus"][1]["writes"], 0);
}

TEST_F(SimgpuCommand, EndsWithTheVariablesThatNameTheMachine) {
  const ProgramResult made = simgpu("create");
  EXPECT_EQ(made.exit_code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("\n  export LOWGEAR_SIMGPU=" + state() + "\n"));
  const std::size_t begin = made.out.find("export LOWGEAR_NVML=") + 20;
  EXPECT_TRUE(std::filesystem::exists(made.out.substr(begin, made.out.find('\n', begin) - begin))) << made.out;
  EXPECT_THAT(simgpu("show").out, testing::Not(HasSubstr("export")));
}

TEST_F(SimgpuCommand, TakesTheStateFromTheEnvironment) {
  (void)json("create");
  const std::string file = state();
  const ProgramResult shown = run_lowgear({"simgpu", "show"}, [&file] { ::setenv("LOWGEAR_SIMGPU", file.c_str(), 1); });
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(refusal_of(run_lowgear({"simgpu", "show"}, [] { ::unsetenv("LOWGEAR_SIMGPU"); })),
              HasSubstr("--state FILE"));
}

TEST_F(SimgpuCommand, RefusesWhatMakesNoSense) {
  const auto refused = [&](const std::string& action, const std::vector<std::string>& others, const char* why) {
    const ProgramResult result = simgpu(action, others);
    EXPECT_EQ(result.exit_code, 2) << action;
    EXPECT_THAT(result.err, HasSubstr(why));
    EXPECT_EQ(result.out, "");
  };
  refused("show", {}, "cannot be opened");
  refused("create", {"--gpus", "3xP100"}, "\"P100\"");
  EXPECT_FALSE(std::filesystem::exists(state()));
  (void)json("create");
  refused("create", {}, "exists already: a simulated machine of 1 GPU; use it (lowgear simgpu show --state ");
  refused("create", {}, "name another file with --state FILE, or remove it first: rm ");
  refused("explode", {}, "create or show");
  refused("show", {"--time", "3"}, "--time does not go with `simgpu show`");
  refused("run", {}, "--time is missing");
  refused("run", {"--time", "1", "--gpu", "1"}, "no simulated GPU 1");
  refused("run", {"--time", "-1"}, "--time");
  refused("run", {"--time", "1", "--load", "nan"}, "--load");
  refused("inject", {}, "has no effect");
  refused("inject", {"--lost", "--call", std::string(100, 'x')}, "characters");
  refused("inject", {"--return-code", "0"}, "--return-code");
}

}  // namespace
}  // namespace lowgear::operations
