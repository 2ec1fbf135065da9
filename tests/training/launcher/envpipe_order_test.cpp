#include "training/launcher/envpipe_order.h"

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
#include "training/launcher/four_rank_job.h"
#include "training/launcher/server/server_job.h"
#include "training/launcher/training_schedule.h"

namespace lowgear::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Four stages whose backward takes 2 s at 1400 MHz and whose forward 1.3 s at 1000, where it uses least energy.
void write_profile(const std::filesystem::path& path) {
  std::ofstream file(path);
  file << "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 4; ++stage) {
    file << stage << ",forward,1400,1.0,300\n" << stage << ",forward,1000,1.3,100\n";
    file << stage << ",backward,1400,2.0,600\n" << stage << ",backward,1000,2.6,200\n";
  }
}

planner::EnvPipeOrder order_with(std::vector<std::string> settings, const std::string& folder = "/jobs") {
  settings.emplace_back("schedule=envpipe");
  return starting_order(four_rank_job(settings, folder));
}

TEST(StartingOrder, IsByTheTimesOfTheProfile) {
  const TemporaryFolder folder;
  write_profile(folder / "profile.csv");
  const TrainConfig config =
      four_rank_job({"energy.policy=envpipe", "energy.envpipe.profile=profile.csv", "energy.envpipe.blocking_power=75",
                     "energy.envpipe.memory_limit=8", "schedule=envpipe", "server.address=unix:/s"},
                    (folder / "").string());
  // floor(2 * 3 / 1.3), floor(2 * 2 / 1.3), floor(2 / 1.3); the last stage stays at 1400 MHz.
  EXPECT_THAT(starting_order(config).early_forwards, ElementsAre(4, 3, 1, 0));
  EXPECT_THAT(starting_note(config), IsEmpty());
  const Json said = Json::parse(server_job_json(config));
  EXPECT_EQ(said["early_forwards"], Json({4, 3, 1, 0}));
  EXPECT_EQ(said["policy"], "envpipe");
  EXPECT_EQ(training_schedule(config).ranks[0].size(), training_schedule(four_rank_job({})).ranks[0].size());
}

TEST(StartingOrder, DividesBytesByWhatTheProfileStates) {
  const TemporaryFolder folder;
  write_profile(folder / "profile.csv");
  const auto order = [&] {
    return order_with({"energy.policy=envpipe", "energy.envpipe.profile=profile.csv",
                       "energy.envpipe.blocking_power=75", "energy.envpipe.memory_limit=5MB"},
                      (folder / "").string());
  };
  EXPECT_THAT(error_of([&] { (void)order(); }), HasSubstr("has no column activation_bytes"));
  const profile::StageColumns columns{.activation_bytes = std::vector<double>(4, 1e6), .transfer_s = {}};
  write_file_atomically(folder / "profile.csv", with_stage_columns(read_file(folder / "profile.csv"), columns));
  // Its rule asks for 4, 3 and 1; five activations fit, and 1F1B holds 4, 3 and 2 of them.
  EXPECT_THAT(order().early_forwards, ElementsAre(1, 1, 1, 0));
  EXPECT_EQ(order().note, "memory admits 1 1 1 0 early forwards by stage, its rule asks for 4 3 1 0");
}

TEST(StartingOrder, AssumesTwiceTheTimeOfAForwardOnlyWithoutAProfile) {
  EXPECT_THAT(order_with({"energy.envpipe.memory_limit=8"}).early_forwards, ElementsAre(4, 4, 2, 0));
  EXPECT_THAT(order_with({"energy.envpipe.memory_limit=8"}).note, IsEmpty());
  const TrainConfig served =
      four_rank_job({"schedule=envpipe", "energy.envpipe.memory_limit=8", "server.address=unix:/s"});
  EXPECT_EQ(Json::parse(server_job_json(served))["early_forwards"], Json({4, 4, 2, 0}));
}

TEST(StartingOrder, HoldsWhat1F1BDoesUnlessItIsStatedWhatFits) {
  for (const std::vector<std::string>& policy : {std::vector<std::string>{}, {"energy.policy=envpipe"}}) {
    EXPECT_THAT(order_with(policy).early_forwards, ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(order_with(policy).note, AllOf(HasSubstr("its rule asks for 4 4 2 0"), HasSubstr("--memory-limit")));
    std::vector<std::string> settings = policy;
    settings.emplace_back("energy.envpipe.memory_limit=6,5,3,1");
    EXPECT_THAT(order_with(settings).early_forwards, ElementsAre(2, 2, 1, 0));
    EXPECT_THAT(order_with(settings).note, testing::Not(HasSubstr("--memory-limit"))) << "it is stated";
    settings.back() = "energy.envpipe.memory_limit=12GiB";
    EXPECT_THAT(order_with(settings).early_forwards, ElementsAre(0, 0, 0, 0));
    EXPECT_THAT(order_with(settings).note, HasSubstr("it is not known how many microbatches 12GiB are"));
  }
  EXPECT_EQ(starting_note(four_rank_job({"schedule=envpipe"})), "schedule envpipe: " + order_with({}).note);
  EXPECT_THAT(starting_note(four_rank_job({})), IsEmpty()) << "1F1B has no such order";
}

TEST(StartingOrder, IsThatOfTheEarlyForwardsThatAreStated) {
  const TrainConfig config = four_rank_job({"schedule=envpipe", "early_forwards=[3,1,1,0]", "server.address=unix:/s"});
  EXPECT_THAT(starting_order(config).early_forwards, ElementsAre(3, 1, 1, 0));
  EXPECT_THAT(starting_note(config), IsEmpty());
  EXPECT_EQ(Json::parse(server_job_json(config))["early_forwards"], Json({3, 1, 1, 0}));
  EXPECT_EQ(without_communication(training_schedule(config)).ranks,
            schedule::envpipe_schedule(8, std::vector<int>{3, 1, 1, 0}).ranks);
  const auto error_when = [](const std::vector<std::string>& settings) {
    return error_of([&] { (void)four_rank_job(settings); });
  };
  EXPECT_THAT(error_when({"early_forwards=[0,0,0,0]"}), HasSubstr("they are of the schedule envpipe"));
  EXPECT_THAT(error_when({"schedule=envpipe", "early_forwards=[1,0]"}), HasSubstr("2 numbers for 4 pipeline ranks"));
  EXPECT_THAT(error_when({"schedule=envpipe", "early_forwards=[1,2,0,0]"}), HasSubstr("early_forwards"));
}

TEST(StartingOrder, HasOneStageOnEachRank) {
  EXPECT_THAT(error_of([] {
                (void)order_with({"parallel.chunks=2", "model.layers=8"});
              }),
              HasSubstr("schedule: envpipe has one stage per rank, and parallel.chunks is 2"));
}

}  // namespace
}  // namespace lowgear::launcher
