#include "training/launcher/energy/envpipe_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/profile/columns/stage_columns.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "training/launcher/server/server_job.h"
#include "training/launcher/train_config.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::launcher {
namespace {

using planner::EnvPipeOptions;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kJob =
    "model: {vocabulary: 256, hidden: 64, layers: 4, heads: 4}\n"
    "data: {synthetic_tokens: 1000, sequence_length: 32}\n"
    "parallel: {pp: 4}\n"
    "microbatches: 8\n"
    "steps: 10\n";

TrainConfig parse_with(const std::vector<std::string>& settings, const std::string& folder = "/jobs") {
  return parse_train_config(kJob, "train.yaml", folder, settings);
}
std::string error_when(const std::vector<std::string>& settings) {
  return error_of([&] { (void)parse_with(settings); });
}

/// Four stages whose backward takes 2 s at 1400 MHz and whose forward 1.3 s at 1000, where it uses least energy.
void write_profile(const std::filesystem::path& path) {
  std::ofstream file(path);
  file << "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 4; ++stage) {
    file << stage << ",forward,1400,1.0,300\n" << stage << ",forward,1000,1.3,100\n";
    file << stage << ",backward,1400,2.0,600\n" << stage << ",backward,1000,2.6,200\n";
  }
}

TEST(EnvPipeConfig, HasEnvPipesDefaults) {
  const TrainConfig config = parse_with({"energy.policy=envpipe"});
  ASSERT_TRUE(config.envpipe);
  EXPECT_EQ(config.envpipe->options.type, EnvPipeOptions::Type::envelope);
  EXPECT_EQ(config.envpipe->options.order, EnvPipeOptions::Order::own);
  EXPECT_EQ(config.envpipe->options.reconfiguration, EnvPipeOptions::Reconfiguration::balanced);
  EXPECT_FALSE(config.envpipe->profile);
  EXPECT_FALSE(parse_with({}).envpipe);
}

TEST(EnvPipeConfig, IsReadAsGiven) {
  const EnvPipeConfig config =
      *parse_with({"energy.policy=envpipe", "energy.envpipe.type=uniform", "energy.envpipe.reconfig=greedy",
                   "energy.envpipe.start_clock=1350", "energy.envpipe.transfer_ms=0.5",
                   "energy.envpipe.memory_limit=8,8,6,4", "energy.envpipe.log=log.jsonl"})
           .envpipe;
  EXPECT_EQ(config.options.type, EnvPipeOptions::Type::uniform);
  EXPECT_EQ(config.options.reconfiguration, EnvPipeOptions::Reconfiguration::greedy);
  EXPECT_EQ(config.options.start_clock_mhz, 1350);
  EXPECT_DOUBLE_EQ(config.options.transfer_s, 5e-4);
  EXPECT_THAT(config.options.extra_activations, ElementsAre(4, 5, 4, 3));
  EXPECT_EQ(config.log, "/jobs/log.jsonl");
}

TEST(EnvPipeConfig, RefusesWhatItCannotFollow) {
  EXPECT_THAT(error_when({"energy.policy=perseus"}), HasSubstr("is not followed in a running job"));
  EXPECT_THAT(error_when({"energy.envpipe.type=uniform"}), HasSubstr("add policy: envpipe"));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "energy.plan=p.json"}), HasSubstr("energy.plan sets clocks"));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "adapt.freeze.blocks=2"}), HasSubstr("adapt.freeze sets clocks"));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "parallel.pp=1"}), HasSubstr("set parallel.pp to 2"));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "energy.envpipe.type=all"}),
              HasSubstr("write one of baseline, uniform, envelope"));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "energy.envpipe.memory_limit=3"}),
              HasSubstr("rank 0 holds 4 activations under 1F1B"));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "energy.envpipe.profile=p.csv"}), HasSubstr("go together"));
  EXPECT_THAT(
      error_when({"energy.policy=envpipe", "energy.envpipe.start_clock=900", "energy.envpipe.lowest_clock=1000"}),
      HasSubstr("energy.envpipe.lowest_clock"));
}

TEST(EnvPipeConfig, OrdersByTheProfilesOwnTimes) {
  const TemporaryFolder folder;
  write_profile(folder / "profile.csv");
  const TrainConfig config =
      parse_with({"energy.policy=envpipe", "energy.envpipe.profile=profile.csv", "energy.envpipe.blocking_power=75",
                  "energy.envpipe.memory_limit=8", "schedule=envpipe", "server.address=unix:/s"},
                 (folder / "").string());
  // floor(2 * 3 / 1.3), floor(2 * 2 / 1.3), floor(2 / 1.3); the last stage stays at 1400 MHz.
  EXPECT_THAT(envpipe_forwards(config), ElementsAre(4, 3, 1, 0));
  const Json said = Json::parse(server_job_json(config));
  EXPECT_EQ(said["early_forwards"], Json({4, 3, 1, 0}));
  EXPECT_EQ(said["policy"], "envpipe");
  EXPECT_EQ(training_schedule(config).ranks[0].size(), training_schedule(parse_with({})).ranks[0].size());
}

TEST(EnvPipeConfig, DividesBytesOfMemoryByWhatActivationsTake) {
  const EnvPipeConfig config = *parse_with({"energy.policy=envpipe", "energy.envpipe.memory_limit=8 MB"}).envpipe;
  EXPECT_THAT(config.options.extra_activations, testing::IsEmpty()) << "not known yet";
  // 1F1B holds 4, 3, 2 and 1 of at most 8.
  EXPECT_THAT(extra_activations(config, std::vector<double>{1e6, 2e6, 4e6, 8e6}, 4, 8), ElementsAre(4, 1, 0, 0));
  EXPECT_THAT(error_of([&] { (void)extra_activations(config, {}, 4, 8); }), HasSubstr("is measured in the steps"));
  EXPECT_THAT(error_of([&] { (void)extra_activations(config, std::vector<double>(4, 4e6), 4, 8); }),
              HasSubstr("rank 0 holds 4 activations under 1F1B"));
  const EnvPipeConfig held = *parse_with({"energy.policy=envpipe", "energy.envpipe.memory_limit=1f1b"}).envpipe;
  EXPECT_THAT(held.options.extra_activations, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(held.memory_bytes, testing::IsEmpty());
  EXPECT_THAT(error_when({"energy.policy=envpipe", "energy.envpipe.memory_limit=1GiB,1GiB"}),
              testing::AllOf(HasSubstr("energy.envpipe.memory_limit"), HasSubstr("2 amounts for 4 ranks")));
  EXPECT_THAT(error_when({"energy.policy=envpipe", "energy.envpipe.memory_limit=1XB"}), HasSubstr("not an amount"));
}

TEST(EnvPipeConfig, TakesWhatActivationsTakeFromTheProfileThatItNames) {
  const TemporaryFolder folder;
  write_profile(folder / "profile.csv");
  std::vector<std::string> settings{"energy.policy=envpipe", "energy.envpipe.profile=profile.csv",
                                    "energy.envpipe.blocking_power=75", "energy.envpipe.memory_limit=5MB",
                                    "schedule=envpipe"};
  const auto forwards = [&] { return envpipe_forwards(parse_with(settings, (folder / "").string())); };
  EXPECT_THAT(error_of([&] { (void)forwards(); }), HasSubstr("has no column activation_bytes"));
  const profile::StageColumns columns{.activation_bytes = std::vector<double>(4, 1e6), .transfer_s = {}};
  write_file_atomically(folder / "profile.csv", with_stage_columns(read_file(folder / "profile.csv"), columns));
  // Its rule asks for 4, 3 and 1; five activations fit, and 1F1B holds 4, 3 and 2 of them.
  EXPECT_THAT(forwards(), ElementsAre(1, 1, 1, 0));
}

TEST(EnvPipeConfig, AssumesTwiceTheTimeOfAForwardOnlyWithoutAProfile) {
  EXPECT_THAT(envpipe_forwards(parse_with({"schedule=envpipe"})), ElementsAre(4, 4, 2, 0));
  EXPECT_EQ(Json::parse(server_job_json(parse_with({"schedule=envpipe", "server.address=unix:/s"})))["early_forwards"],
            Json({4, 4, 2, 0}));
}

TEST(EnvPipeConfig, KeepsAStatedLimitOfMemoryWithoutAProfile) {
  EXPECT_THAT(envpipe_forwards(parse_with({"schedule=envpipe", "energy.policy=envpipe"})), ElementsAre(4, 4, 2, 0));
  EXPECT_THAT(envpipe_forwards(
                  parse_with({"schedule=envpipe", "energy.policy=envpipe", "energy.envpipe.memory_limit=6,5,3,1"})),
              ElementsAre(2, 2, 1, 0));
  // What a microbatch's activations take is not known yet.
  EXPECT_THAT(
      envpipe_forwards(parse_with({"schedule=envpipe", "energy.policy=envpipe", "energy.envpipe.memory_limit=12GiB"})),
      ElementsAre(0, 0, 0, 0));
}

TEST(EnvPipeConfig, RunsTheEarlyForwardsThatAreStated) {
  const TrainConfig config = parse_with({"schedule=envpipe", "early_forwards=[3,1,1,0]", "server.address=unix:/s"});
  EXPECT_THAT(envpipe_forwards(config), ElementsAre(3, 1, 1, 0));
  EXPECT_EQ(Json::parse(server_job_json(config))["early_forwards"], Json({3, 1, 1, 0}));
  EXPECT_EQ(without_communication(training_schedule(config)).ranks,
            schedule::envpipe_schedule(8, std::vector<int>{3, 1, 1, 0}).ranks);
  EXPECT_THAT(error_when({"early_forwards=[0,0,0,0]"}), HasSubstr("they are of the schedule envpipe"));
  EXPECT_THAT(error_when({"schedule=envpipe", "early_forwards=[1,0]"}), HasSubstr("2 numbers for 4 pipeline ranks"));
  EXPECT_THAT(error_when({"schedule=envpipe", "early_forwards=[1,2,0,0]"}), HasSubstr("early_forwards"));
}

}  // namespace
}  // namespace lowgear::launcher
