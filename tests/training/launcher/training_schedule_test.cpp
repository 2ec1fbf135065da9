#include "training/launcher/training_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/generators.h"
#include "training/launcher/four_rank_job.h"
#include "training/launcher/server/server_job.h"

namespace lowgear::launcher {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainConfig four_layers(int pp, int microbatches) {
  TrainConfig config;
  config.model.vocabulary = 256;
  config.model.hidden = 8;
  config.model.layers = 4;
  config.model.heads = config.model.kv_heads = 2;
  config.model.head_dim = 4;
  config.model.intermediate = 16;
  config.model.max_positions = 32;
  config.sequence_length = 32;
  config.parallel.pp = pp;
  config.microbatches = microbatches;
  return config;
}

std::string schedule_error(const TrainConfig& config) {
  return error_of([&] { (void)training_schedule(config); });
}

class TrainingScheduleFile : public testing::Test {
 protected:
  TrainConfig config_with(const std::string& csv, int pp, int microbatches) {
    const std::string path = folder_ / "schedule.csv";
    std::ofstream(path) << csv;
    TrainConfig config = four_layers(pp, microbatches);
    config.schedule = path;
    return config;
  }

  TemporaryFolder folder_;
};

TEST(TrainingSchedule, RefusesPartitionsOfLaterStepsThatDoNotFit) {
  TrainConfig config = four_layers(2, 4);
  config.adapt.repartition.emplace();
  config.adapt.repartition->schedule = {{3, "custom:0,1,4"}, {7, "custom:0,3,5"}};
  EXPECT_THAT(schedule_error(config), HasSubstr("adapt.repartition.schedule: step 7: custom:0,3,5"));
  config.adapt.repartition->schedule.pop_back();
  EXPECT_EQ(training_schedule(config).stages, 2);
}

TEST(TrainingSchedule, EveryNamedScheduleCanRunWithoutBuffers) {
  for (const char* name : {"gpipe", "1f1b", "envpipe", "zb-h1"}) {
    for (const int pp : {1, 2, 4}) {
      TrainConfig config = four_layers(pp, 8);
      config.schedule = name;
      const schedule::Schedule schedule = training_schedule(config);
      EXPECT_EQ(schedule.rank_count(), pp);
      EXPECT_EQ(has_communication(schedule), pp > 1) << name;
      if (pp == 1) continue;
      EXPECT_FALSE(find_communication_fault(schedule, schedule::P2pGrouping::none)) << name;
    }
  }
  TrainConfig config = four_layers(2, 4);
  config.schedule = "interleaved";
  config.parallel.chunks = 2;
  EXPECT_EQ(training_schedule(config).stages, 4);
}

TEST(TrainingSchedule, RefusesAnUnknownName) {
  TrainConfig config = four_layers(2, 4);
  config.schedule = "1f2b";
  EXPECT_THAT(schedule_error(config), HasSubstr("1f1b"));
}

TEST(TrainingSchedule, RefusesChunksWhereTheScheduleHasNone) {
  TrainConfig config = four_layers(2, 4);
  config.parallel.chunks = 2;
  EXPECT_THAT(schedule_error(config), HasSubstr("1f1b: 2 virtual stages per rank; it runs one"));
}

TEST(TrainingSchedule, RefusesAModelThatCannotBeDivided) {
  TrainConfig config = four_layers(2, 4);
  config.parallel.tp = 4;
  EXPECT_EQ(schedule_error(config),
            "tp: 2 attention heads cannot be split evenly among 4 ranks; choose a tp that divides 2");
  config.parallel.tp = 1;
  config.partition = "custom:0,1,2,4";
  EXPECT_THAT(schedule_error(config), HasSubstr("custom:0,1,2,4"));
  config.partition = "evenly";
  EXPECT_THAT(schedule_error(config), HasSubstr("partition: \"evenly\" is not known"));
  config = four_layers(5, 8);
  EXPECT_THAT(schedule_error(config), HasSubstr("4 layers"));
}

TEST_F(TrainingScheduleFile, IsReadAndGetsItsMessages) {
  const schedule::Schedule schedule = training_schedule(config_with("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", 2, 2));
  EXPECT_EQ(schedule.stages, 2);
  EXPECT_TRUE(has_communication(schedule));
}

TEST_F(TrainingScheduleFile, SaysWhichRanksHaveTheEndsOfThePipeline) {
  const TrainConfig config = config_with("2F0,2B0\n0F0,0B0\n1F0,1B0\n", 3, 1);
  const RankLayout layout = training_layout(config.parallel, training_schedule(config));
  EXPECT_THAT(layout.tied_group_of(0), ElementsAre(1, 0));
  EXPECT_THAT(layout.tied_group_of(2), IsEmpty());
}

TEST(TrainingSchedule, HasTheEndsOfThePipelineOnTheFirstAndTheLastRank) {
  TrainConfig config = four_layers(2, 4);
  config.schedule = "interleaved";
  config.parallel.chunks = 2;
  EXPECT_THAT(training_layout(config.parallel, training_schedule(config)).tied_group_of(0), ElementsAre(0, 1));
}

TEST_F(TrainingScheduleFile, ThatIsMissingIsNamed) {
  TrainConfig config = four_layers(2, 2);
  config.schedule = folder_ / "absent.csv";
  EXPECT_THAT(schedule_error(config), HasSubstr("absent.csv"));
}

TEST_F(TrainingScheduleFile, ForOtherRanksOrMicrobatchesIsRefused) {
  const std::string csv = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
  EXPECT_THAT(schedule_error(config_with(csv, 4, 2)),
              HasSubstr("has 2 ranks and 2 microbatches, and the configuration 4 and 2"));
  EXPECT_THAT(schedule_error(config_with(csv, 2, 8)),
              HasSubstr("has 2 ranks and 2 microbatches, and the configuration 2 and 8"));
}

TEST_F(TrainingScheduleFile, WithMoreStagesThanLayersIsRefused) {
  std::string csv;
  for (int rank = 0; rank < 2; ++rank) {
    std::string forwards;
    std::string backwards;
    for (int stage = rank; stage < 6; stage += 2) {
      forwards += std::to_string(stage) + "F0,";
      backwards.insert(0, std::to_string(stage) + "B0,");
    }
    csv += forwards + backwards + "\n";
  }
  EXPECT_THAT(schedule_error(config_with(csv, 2, 1)), HasSubstr("4 layers"));
}

TEST_F(TrainingScheduleFile, ThatIsIncompleteIsRefused) {
  EXPECT_THAT(schedule_error(config_with("0F0,0F1,0B0,0B1\n1F0,1B0,1F1\n", 2, 2)), HasSubstr("7 computations"));
  EXPECT_THAT(schedule_error(config_with("0F0,zero\n1F0,1B0\n", 2, 1)), HasSubstr("schedule.csv:1:5"));
}

TEST_F(TrainingScheduleFile, WhoseDependenciesCycleIsRefused) {
  // Rank 1 wants the gradient's order the other way round than rank 0 makes activations.
  EXPECT_NE(schedule_error(config_with("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", 2, 2)), "no error");
}

TEST_F(TrainingScheduleFile, WhoseMessagesCanHangIsRefused) {
  // Both send first: with blocking sends neither gets to its receive.
  const std::string csv =
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";
  EXPECT_THAT(schedule_error(config_with(csv, 2, 2)),
              HasSubstr("rank 0 waits at step 3 (0SEND_F1) for rank 1, which waits at step 3 (1SEND_B0) for rank 0"));
}

/// A plan for what a configuration runs.
class TrainingPlan : public testing::Test {
 protected:
  std::string write(const TrainConfig& config, const std::string& setting = "") {
    plan::Plan plan;
    plan.policy = "test";
    plan.schedule = config.schedule;
    plan.microbatches = config.microbatches;
    for (const auto& actions : without_communication(training_schedule(config)).ranks) {
      auto& ops = plan.ranks.emplace_back();
      for (const schedule::Action& action : actions) {
        ops.push_back({.stage = action.stage,
                       .kind = action.op,
                       .microbatch = action.microbatch,
                       .clock_mhz = 1000,
                       .setting = setting});
      }
    }
    const std::string path = folder_ / "plan.json";
    std::ofstream(path) << write_plan(plan);
    return path;
  }

  TemporaryFolder folder_;
};

TEST_F(TrainingPlan, WithSettingsIsRefused) {
  TrainConfig config = four_layers(2, 4);
  config.plan = write(config, "attn=sm12");
  EXPECT_THAT(schedule_error(config), HasSubstr("lowgear train sets clocks alone, and the plan has settings"));
}

TEST_F(TrainingPlan, GoesWithTheScheduleThatItWasMadeFor) {
  TrainConfig config = four_layers(2, 4);
  config.plan = write(config);
  EXPECT_EQ(training_schedule(config).rank_count(), 2);
  config = four_layers(2, 4);
  config.schedule = "interleaved";
  config.parallel.chunks = 2;
  config.plan = write(config);
  EXPECT_EQ(training_schedule(config).stages, 4);
}

TEST_F(TrainingPlan, ForAnotherScheduleIsRefused) {
  const std::string path = write(four_layers(2, 4));
  const std::string fix = "; plan again, or train by the plan's schedule.csv";
  TrainConfig config = four_layers(2, 8);
  config.plan = path;
  EXPECT_EQ(schedule_error(config),
            path + ": the plan has 2 ranks and 4 microbatches, the schedule 2 ranks and 8 microbatches" + fix);
  config = four_layers(4, 4);
  config.plan = path;
  EXPECT_EQ(schedule_error(config),
            path + ": the plan has 2 ranks and 4 microbatches, the schedule 4 ranks and 4 microbatches" + fix);
  config = four_layers(2, 4);
  config.schedule = "gpipe";
  config.plan = path;
  EXPECT_EQ(schedule_error(config), path + ": its rank 0 runs in another order than that of \"gpipe\"" + fix);
}

TEST(FrozenStages, AreThoseWithoutAnythingToTrain) {
  const std::vector<model::LayerRange> partition = {{0, 2}, {2, 3}, {3, 6}};
  const auto stages = [&](std::int64_t blocks) { return frozen_stages(partition, blocks); };
  EXPECT_EQ(stages(0), 0);
  EXPECT_EQ(stages(1), 0);
  EXPECT_EQ(stages(2), 1);
  EXPECT_EQ(stages(3), 2);
  EXPECT_EQ(stages(6), 2) << "the last stage has the output layer";
}

TEST(TrainingSchedule, HasNoBackwardOfFrozenStages) {
  TrainConfig config = four_layers(2, 2);
  config.freeze.prefixes = {{0, 1}};
  EXPECT_EQ(training_schedule(config).frozen_stages, 0);
  config.freeze.prefixes = {{0, 2}};
  const schedule::Schedule schedule = training_schedule(config);
  EXPECT_EQ(schedule.frozen_stages, 1);
  EXPECT_EQ(without_communication(schedule).ranks[0].size(), 2U);
  EXPECT_EQ(training_schedule(config, 0).frozen_stages, 0);
}

TEST(TrainingSchedule, LosesNoBackwardWherePlansAreSearched) {
  TrainConfig config = four_layers(2, 2);
  config.freeze.prefixes = {{0, 0}, {5, 2}};
  config.adapt.slowdown = OperatingPoints{.clocks_mhz = {1410, 1200}, .plans = {}};
  EXPECT_EQ(schedule_error(config), "no error");
  config.adapt.slowdown = OperatingPoints{.clocks_mhz = {}, .plans = {"a.json", "b.json"}};
  EXPECT_THAT(schedule_error(config), testing::HasSubstr("which adapt.slowdown.plans (adapt.slowdown.clocks_mhz can)"));
}

TEST(TrainingSchedule, LosesNoBackwardWhereAServerPlans) {
  TrainConfig config = four_layers(2, 2);
  config.server.emplace();
  config.freeze.prefixes = {{0, 1}};
  EXPECT_EQ(schedule_error(config), "no error");
  config.freeze.prefixes = {{0, 0}, {5, 2}};
  EXPECT_EQ(schedule_error(config),
            "adapt.freeze: 1 of the stages would lose its backward, which a server's plans cannot follow; freeze fewer "
            "blocks, or leave that out");
  config.adapt.freezing = true;
  EXPECT_EQ(schedule_error(config), "no error") << "its ranks refuse the plans";
}

TEST_F(TrainingPlan, GoesWithAPrefixThatStays) {
  TrainConfig config = four_layers(2, 4);
  const std::string whole = write(config);
  config.freeze.prefixes = {{0, 2}};
  config.plan = whole;
  EXPECT_THAT(schedule_error(config), HasSubstr("its rank 0 runs in another order"));
  config.plan.reset();
  config.plan = write(config);
  EXPECT_EQ(training_schedule(config).frozen_stages, 1);
  config.freeze.prefixes = {{0, 2}, {3, 0}};
  EXPECT_THAT(schedule_error(config), HasSubstr("energy.plan cannot follow"));
}

TEST_F(TrainingPlan, ThatIsMissingOrNoneIsNamed) {
  TrainConfig config = four_layers(2, 4);
  config.plan = folder_ / "absent.json";
  EXPECT_THAT(schedule_error(config), HasSubstr("absent.json"));
  std::ofstream(folder_ / "none.json") << "{}";
  config.plan = folder_ / "none.json";
  EXPECT_THAT(schedule_error(config), HasSubstr("none.json"));
}

TEST(EvaluationSchedule, HasTheForwardsOfTheFirstMicrobatches) {
  const schedule::Schedule whole = evaluation_schedule(four_layers(2, 8), 8);
  const schedule::Schedule quarter = evaluation_schedule(four_layers(2, 8), 2);
  EXPECT_EQ(quarter.microbatches, 2);
  ASSERT_EQ(quarter.rank_count(), 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(whole.ranks[rank].size(), 16U);  // a forward and a message each
    EXPECT_EQ(quarter.ranks[rank].size(), 4U);
    for (const schedule::Action& action : quarter.ranks[rank]) EXPECT_LT(action.microbatch, 2);
  }
  EXPECT_NO_THROW(require_runnable(quarter, schedule::P2pGrouping::none));
}

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

policies::EnvPipeOrder order_with(std::vector<std::string> settings, const std::string& folder = "/jobs") {
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
  profile::ProfileFile file = profile::read_profile_file(read_file(folder / "profile.csv"), "profile.csv");
  file.columns.activation_bytes = std::vector<double>(4, 1e6);
  write_file_atomically(folder / "profile.csv", profile::write_profile_file(file));
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
    EXPECT_THAT(order_with(policy).note,
                AllOf(HasSubstr("its rule asks for (4 4 2 0 by stage)"), HasSubstr("--memory-limit")));
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
