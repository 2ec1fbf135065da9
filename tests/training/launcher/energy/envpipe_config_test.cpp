#include "training/launcher/energy/envpipe_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "training/launcher/four_rank_job.h"

namespace lowgear::launcher {
namespace {

using planner::EnvPipeOptions;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& settings) {
  return error_of([&] { (void)four_rank_job(settings); });
}

TEST(EnvPipeConfig, HasEnvPipesDefaults) {
  const TrainConfig config = four_rank_job({"energy.policy=envpipe"});
  ASSERT_TRUE(config.envpipe);
  EXPECT_EQ(config.envpipe->options.type, EnvPipeOptions::Type::envelope);
  EXPECT_EQ(config.envpipe->options.order, EnvPipeOptions::Order::own);
  EXPECT_EQ(config.envpipe->options.reconfiguration, EnvPipeOptions::Reconfiguration::balanced);
  EXPECT_FALSE(config.envpipe->profile);
  EXPECT_FALSE(four_rank_job({}).envpipe);
}

TEST(EnvPipeConfig, IsReadAsGiven) {
  const TrainConfig job =
      four_rank_job({"energy.policy=envpipe", "energy.envpipe.type=uniform", "energy.envpipe.reconfig=greedy",
                     "energy.envpipe.start_clock=1350", "energy.envpipe.transfer_ms=0.5",
                     "energy.envpipe.memory_limit=8,8,6,4", "energy.envpipe.log=log.jsonl"});
  const EnvPipeConfig& config = job.envpipe.value();
  EXPECT_EQ(config.options.type, EnvPipeOptions::Type::uniform);
  EXPECT_EQ(config.options.reconfiguration, EnvPipeOptions::Reconfiguration::greedy);
  EXPECT_EQ(config.options.start_clock_mhz, 1350);
  EXPECT_DOUBLE_EQ(config.options.transfer_s, 5e-4);
  EXPECT_THAT(job.envpipe_memory.extra_activations, ElementsAre(4, 5, 4, 3));
  EXPECT_EQ(config.log, "/jobs/log.jsonl");
}

TEST(EnvPipeConfig, RefusesWhatItCannotFollow) {
  EXPECT_THAT(refusal({"energy.policy=perseus"}), HasSubstr("is not followed in a running job"));
  EXPECT_THAT(refusal({"energy.envpipe.type=uniform"}), HasSubstr("add policy: envpipe"));
  EXPECT_THAT(refusal({"schedule=envpipe", "energy.envpipe.type=uniform"}), HasSubstr("add policy: envpipe"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "energy.plan=p.json"}), HasSubstr("energy.plan sets clocks"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "adapt.freeze.blocks=2"}), HasSubstr("adapt.freeze sets clocks"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "parallel.pp=1"}), HasSubstr("set parallel.pp to 2"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "energy.envpipe.type=all"}),
              HasSubstr("write one of baseline, uniform, envelope"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "energy.envpipe.profile=p.csv"}), HasSubstr("go together"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "energy.envpipe.start_clock=900", "energy.envpipe.lowest_clock=1000"}),
              HasSubstr("energy.envpipe.lowest_clock"));
  EXPECT_THAT(refusal({"energy.policy=envpipe", "energy.envpipe.profile_step=45", "server.address=unix:/s"}),
              HasSubstr("the server has a sweep of its own"));
}

TEST(EnvPipeConfig, TakesClocksAndStepsOfAnyGpu) {
  const TemporaryFolder folder;
  const std::string file = (folder / "ds.json").string();
  write_file_atomically(
      file, R"({"envpipe": {"type": "envelope", "scheduling": "ours", "reconfig": "balanced", "gpu": "b300"}})");
  const std::string config = "energy.envpipe.config=" + file;
  EXPECT_THAT(refusal({"energy.policy=envpipe", config}), HasSubstr("lists no clocks of the GPU \"b300\""));
  const TrainConfig job = four_rank_job({"energy.policy=envpipe", config, "energy.envpipe.start_clock=1920",
                                         "energy.envpipe.lowest_clock=960", "energy.envpipe.profile_step=45",
                                         "energy.envpipe.raise_step=15"});
  EXPECT_EQ(job.envpipe->options.start_clock_mhz, 1920);
  EXPECT_EQ(job.envpipe->options.lowest_clock_mhz, 960);
  EXPECT_EQ(job.envpipe->options.profile_step_mhz, 45);
  EXPECT_EQ(job.envpipe->options.raise_step_mhz, 15);
}

}  // namespace
}  // namespace lowgear::launcher
