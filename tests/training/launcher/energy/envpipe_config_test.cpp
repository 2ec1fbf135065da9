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

using policies::EnvPipeOptions;
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

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainConfig with_limit(const std::string& limit) {
  return four_rank_job({"energy.policy=envpipe", "energy.envpipe.memory_limit=" + limit});
}

TEST(EnvPipeMemory, IsOfThePolicyAndOfTheSchedule) {
  // 1F1B holds 4, 3, 2 and 1 of at most 8.
  EXPECT_THAT(with_limit("6,5,3,1").envpipe_memory.extra_activations, ElementsAre(2, 2, 1, 0));
  const TrainConfig scheduled = four_rank_job({"schedule=envpipe", "energy.envpipe.memory_limit=6,5,3,1"});
  EXPECT_THAT(scheduled.envpipe_memory.extra_activations, ElementsAre(2, 2, 1, 0));
  EXPECT_FALSE(scheduled.envpipe) << "no policy changes clocks";
  EXPECT_FALSE(four_rank_job({"schedule=envpipe"}).envpipe_memory.is_stated());
  EXPECT_TRUE(with_limit("1f1b").envpipe_memory.is_stated());
}

TEST(EnvPipeMemory, DividesBytesByWhatActivationsTake) {
  const EnvPipeMemory memory = with_limit("8 MB").envpipe_memory;
  EXPECT_THAT(memory.extra_activations, IsEmpty()) << "not known yet";
  EXPECT_THAT(extra_activations(memory, std::vector<double>{1e6, 2e6, 4e6, 8e6}, 4, 8), ElementsAre(4, 1, 0, 0));
  EXPECT_THAT(error_of([&] { (void)extra_activations(memory, {}, 4, 8); }), HasSubstr("measures it in the steps"));
  EXPECT_THAT(error_of([&] { (void)extra_activations(memory, std::vector<double>(4, 4e6), 4, 8); }),
              HasSubstr("rank 0 holds 4 activations under 1F1B"));
  const EnvPipeMemory held = with_limit("1f1b").envpipe_memory;
  EXPECT_THAT(held.extra_activations, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(held.bytes, IsEmpty());
}

TEST(EnvPipeMemory, RefusesWhatIsNoLimitOfTheJob) {
  const auto error_of_limit = [](const std::string& limit) { return error_of([&] { (void)with_limit(limit); }); };
  EXPECT_THAT(error_of_limit("1GiB,1GiB"), AllOf(HasSubstr("energy.envpipe.memory_limit"), HasSubstr("4 ranks")));
  EXPECT_THAT(error_of_limit("1XB"), HasSubstr("not an amount"));
  EXPECT_THAT(error_of_limit("3"), HasSubstr("rank 0 holds 4 activations under 1F1B"));
  const auto error_when = [](const std::vector<std::string>& settings) {
    return error_of([&] { (void)four_rank_job(settings); });
  };
  EXPECT_THAT(error_when({"energy.envpipe.memory_limit=8"}), HasSubstr("add policy: envpipe"));
  EXPECT_THAT(error_when({"schedule=envpipe", "energy.envpipe.memory_limit=8", "energy.envpipe.type=uniform"}),
              HasSubstr("it is of the policy"));
}

}  // namespace

}  // namespace lowgear::launcher
