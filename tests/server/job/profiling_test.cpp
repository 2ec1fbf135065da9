#include "server/job/profiling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "server/job/job_documents.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// More iterations than any of these jobs needs to give a rank up.
constexpr int kEnoughIterations = 2'000;

protocol::JobSpec quickly_profiled(int pp, int dp) {
  protocol::JobSpec spec = small_job(pp, dp);
  spec.profiling->iterations = 1;
  spec.profiling->settle_iterations = 0;
  return spec;
}

/// Two stages of two ranks each: 0 and 1 are the first.
class JobProfiling2x2 : public testing::Test {
 protected:
  void begin_without(int silent_rank) {
    training.measures_nothing.at(static_cast<std::size_t>(silent_rank)) = true;
    training.register_all();
    ASSERT_TRUE(training.run_until(JobState::profiling));
    first_version = training.record().plan_version();
  }
  /// Until all others have posted.
  void end_trials() {
    const Json plan = Json::parse(*training.job().plan_after(0, 0, training.now_s()));
    const Json& last = plan["trials"].back();
    const auto end = last["first_iteration"].get<std::int64_t>() + last["iterations"].get<std::int64_t>();
    while (training.iteration() < end) training.run(1);
    ASSERT_EQ(training.record().plan_version(), first_version);
  }
  void run_to_next_version() {
    while (training.record().plan_version() == first_version) {
      training.run(1);
      ASSERT_LT(training.iteration(), kEnoughIterations);
    }
  }

  SimulatedJob training{quickly_profiled(2, 2)};
  int first_version = 0;
};

TEST(JobProfiling, ItsProgressIsInTheSummary) {
  SimulatedJob training{quickly_profiled(2, 1)};
  training.register_all();
  EXPECT_TRUE(summary_json(training.record())["profiling"].is_null());
  ASSERT_TRUE(training.run_until(JobState::profiling));
  const Json begin = summary_json(training.record())["profiling"];
  EXPECT_EQ(begin["clock"], 1);
  EXPECT_GT(begin["clocks"].get<int>(), 1);
  EXPECT_EQ(begin["round"], 1);
  training.run(1);
  const Json later = summary_json(training.record())["profiling"];
  EXPECT_LE(later["remaining_iterations"].get<int>(), begin["remaining_iterations"].get<int>());
  ASSERT_TRUE(training.run_until(JobState::running));
  EXPECT_TRUE(summary_json(training.record())["profiling"].is_null());
}

TEST(JobProfiling, TriesNoMoreClocksAfterSomeIterationsHoweverUncertainThePlanIs) {
  protocol::JobSpec spec = small_job(2);
  spec.profiling->allowance_pct = 100;
  spec.profiling->settle_iterations = 2;
  SimulatedJob training(spec);
  training.energy_error = 0.5;
  training.slow_all(20);  // short iterations may be many
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  while (training.record().profiling.sweep().rounds() < 2) training.run(1);
  const TrialRound first = *training.record().profiling.sweep().first_round();
  ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations));
  const TrialSweep& sweep = training.record().profiling.sweep();
  EXPECT_LT(sweep.rounds(), 6);
  EXPECT_GT(sweep.rounds(), 2);
  EXPECT_LT(sweep.round().end_iteration - first.end_iteration, 40);
  const std::vector<std::string> reasons = training.reasons("profile");
  EXPECT_THAT(reasons, Contains(HasSubstr("; more clocks are tried next")));
  EXPECT_THAT(reasons, Contains(HasSubstr("; no more clocks are tried: ")));
}

/// Neither a plan nor figures of one; its profile is no other job's.
void expect_no_plan(SimulatedJob& training) {
  const Json summary = summary_json(training.record());
  EXPECT_EQ(summary["state"], "observing");
  EXPECT_EQ(summary["purpose"], "full_clocks");
  EXPECT_TRUE(summary["has_failed"].get<bool>());
  EXPECT_TRUE(summary["planned_energy_j"].is_null());
  EXPECT_TRUE(summary["saved_pct"].is_null());
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("profiling is tried again in an hour"));
  const Json frontier = frontier_json(training.record());
  EXPECT_TRUE(frontier["vertices"].empty());
  EXPECT_TRUE(frontier["operating_point"].is_null());
  EXPECT_THAT(training.stored().documents, IsEmpty());
}

TEST(JobProfiling, MakesNoPlanWhoseEnergyIsKnownTooBadly) {
  SimulatedJob training(quickly_profiled(2, 1));
  training.energy_error = 0.5;
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations));
  training.run(5);
  EXPECT_THAT(training.record().status.reason, HasSubstr("and a plan needs 5 %"));
  expect_no_plan(training);
  training.restart_server();
  training.run(5);
  expect_no_plan(training);
  training.energy_error = 1e-3;
  while (training.record().state() == JobState::observing) training.run(1);
  EXPECT_TRUE(training.run_until(JobState::running, kEnoughIterations));
}

TEST(JobProfiling, PlansByTheRoundBeforeOneThatMadeTheProfileWorse) {
  protocol::JobSpec spec = quickly_profiled(2, 1);
  spec.profiling->allowance_pct = 100;
  SimulatedJob training(spec);
  training.energy_error = 0.03;  // enough for a plan, and more trials would improve it
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  while (training.record().profiling.sweep().rounds() < 2) training.run(1);
  ASSERT_GT(training.record().profiling.sweep().kept_version(), 0);
  training.energy_error = 0.5;
  ASSERT_TRUE(training.run_until(JobState::running, kEnoughIterations));
  EXPECT_THAT(training.reasons("profile"), Contains(HasSubstr("plans use those before them")));
  const auto worst_error = [&] {
    double worst = 0;
    for (const protocol::RankCells& posted : training.record().profiling.sweep().measured().all()) {
      for (const protocol::ProfileCell& cell : posted.cells)
        worst = std::max(worst, cell.energy_error_j / cell.energy_j);
    }
    return worst;
  };
  EXPECT_NEAR(worst_error(), 0.03, 1e-9);
  training.restart_server();
  training.run(5);
  EXPECT_EQ(training.record().state(), JobState::running);
  EXPECT_NEAR(worst_error(), 0.03, 1e-9);
}

TEST(JobProfiling, MakesNoPlanFromAProfileThatContradictsTheBaseline) {
  for (const double scale : {0.5, 0.8, 1.2}) {
    SimulatedJob training(quickly_profiled(2, 2));
    training.energy_scale = scale;
    training.register_all();
    ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations)) << scale;
    training.run(5);
    EXPECT_THAT(training.record().status.reason, HasSubstr("J were measured")) << scale;
    expect_no_plan(training);
  }
  for (const double scale : {0.95, 1.05}) {
    SimulatedJob training(quickly_profiled(2, 2));
    training.energy_scale = scale;
    training.register_all();
    EXPECT_TRUE(training.run_until(JobState::running, kEnoughIterations)) << scale;
  }
}

TEST(JobProfiling, ReplacesAnotherJobsProfileThatContradictsTheBaseline) {
  SimulatedJob other(quickly_profiled(2, 1));
  other.train();
  MeasuredProfile wrong = *other.record().profiling.own();
  for (protocol::ProfileCell& cell : wrong.cells) cell.energy_j *= 0.5;
  SimulatedJob training(quickly_profiled(2, 1));
  training.know({{profile_key(training.record()), std::make_shared<const MeasuredProfile>(wrong)}});
  training.train();
  EXPECT_THAT(training.reasons("profile"), Contains(HasSubstr("and the job measures its own")));
  ASSERT_TRUE(training.record().profiling.own());
  training.run(6);
  EXPECT_GT(summary_json(training.record())["saved_pct"].get<double>(), 1);
}

TEST_F(JobProfiling2x2, ContinuesWithoutARankWhoseStageIsMeasuredElsewhere) {
  begin_without(3);
  ASSERT_TRUE(training.run_until(JobState::running, kEnoughIterations));
  EXPECT_THAT(training.reasons("plan"), Contains(HasSubstr("once more: there are no reports of rank 3")));
  EXPECT_THAT(training.reasons("profile"), Contains(HasSubstr("there are no reports of rank 3: the profile")));
  training.run(6);
  EXPECT_GT(summary_json(training.record())["saved_pct"].get<double>(), 1);
}

TEST_F(JobProfiling2x2, TriesOnceMoreForASilentRank) {
  begin_without(3);
  ASSERT_TRUE(training.run_until(JobState::running, kEnoughIterations));
  const auto is_repetition = [](const std::string& reason) { return reason.find("once more") != std::string::npos; };
  EXPECT_EQ(std::ranges::count_if(training.reasons("plan"), is_repetition), 1);
}

TEST_F(JobProfiling2x2, GivesARankTimeToPost) {
  begin_without(3);
  const double began_s = training.now_s();
  end_trials();
  training.run(4);
  EXPECT_EQ(training.record().plan_version(), first_version);
  run_to_next_version();
  EXPECT_GT(training.now_s(), began_s + 9);
}

TEST_F(JobProfiling2x2, TriesClocksOutAgainForARankThatHasLostWhatItMeasured) {
  begin_without(3);
  run_to_next_version();
  training.measures_nothing[3] = false;
  ASSERT_TRUE(training.run_until(JobState::running));
  EXPECT_THAT(training.reasons("profile"), Not(Contains(HasSubstr("there are no reports of"))));
}

TEST_F(JobProfiling2x2, DoesNotWaitForARankThatHasEnded) {
  begin_without(3);
  end_trials();
  training.job().finish_rank(3, training.now_s());
  training.settle();
  EXPECT_GT(training.record().plan_version(), first_version);
  EXPECT_TRUE(training.run_until(JobState::running, 60));
}

TEST_F(JobProfiling2x2, TakesNoCellsOfARankThatHasEndedForThoseOfAnother) {
  begin_without(3);
  end_trials();
  training.job().finish_rank(2, training.now_s());
  training.settle();
  EXPECT_EQ(training.record().plan_version(), first_version) << "rank 3 still measures";
}

TEST_F(JobProfiling2x2, ContinuesWithoutARankThoughTheServerWasStartedAgain) {
  begin_without(3);
  run_to_next_version();
  training.restart_server();
  EXPECT_TRUE(training.run_until(JobState::running, kEnoughIterations));
}

/// Time of iterations beyond that at full clocks, until the job runs by a plan.
double profiling_cost_s(SimulatedJob& training) {
  training.register_all();
  training.run(1);
  const double full_clock_time_s = training.time_s();
  double cost_s = 0;
  while (training.record().state() != JobState::running && training.record().state() != JobState::observing) {
    training.run(1);
    cost_s += training.time_s() - full_clock_time_s;
    if (training.iteration() > kEnoughIterations) throw std::runtime_error("no plan");
  }
  return cost_s / full_clock_time_s;
}

TEST(JobProfilingCost, StaysWithinTheAllowance) {
  for (const double allowance_pct : {0.05, 0.2, 0.5, 2.0}) {
    for (const int iterations : {1, 5, 40}) {
      protocol::JobSpec spec = small_job(4);
      spec.profiling->allowance_pct = allowance_pct;
      spec.profiling->iterations = iterations;
      SimulatedJob training(spec);
      EXPECT_LE(profiling_cost_s(training), allowance_pct / 100 * 500 + 1e-9) << allowance_pct << " %, " << iterations;
    }
  }
}

/// Iterations that take as the clock to the power of minus three and more, as no GPU's do.
TEST(JobProfilingCost, StaysWithinTheAllowanceHoweverSteeplyTimeRisesAtLowerClocks) {
  for (const double steepness : {0.5, 1.0, 2.0, 3.0, 5.0}) {
    for (const int iterations : {1, 5}) {
      protocol::JobSpec spec = small_job(4);
      spec.profiling->iterations = iterations;
      SimulatedJob training(spec);
      training.steepness = steepness;
      EXPECT_LE(profiling_cost_s(training), 10) << steepness << ", " << iterations;
      EXPECT_EQ(training.record().state(), JobState::running) << steepness << ", " << iterations;
    }
  }
}

TEST(JobProfilingCost, IsAFewIterationsByDefault) {
  SimulatedJob training(small_job(4));
  EXPECT_LT(profiling_cost_s(training), 10);
  EXPECT_EQ(training.record().state(), JobState::running);
  training.run(6);
  EXPECT_GT(summary_json(training.record())["saved_pct"].get<double>(), 3);
}

TEST(JobProfilingCost, RunsAtFullClocksWhereTheAllowanceIsTooSmall) {
  protocol::JobSpec spec = small_job(2);
  spec.profiling->allowance_pct = 0.01;
  SimulatedJob training(spec);
  EXPECT_EQ(profiling_cost_s(training), 0);
  const Json summary = summary_json(training.record());
  EXPECT_EQ(summary["state"], "observing");
  EXPECT_TRUE(summary["has_failed"].get<bool>());
  EXPECT_THAT(summary["reason"].get<std::string>(), HasSubstr("raise allowance_pct"));
}

TEST(JobProfilingCost, EndsTrialsThatCostMoreThanTheyMay) {
  protocol::JobSpec spec = small_job(2);
  spec.profiling->iterations = 5;
  SimulatedJob training(spec);
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  const Json plan = Json::parse(*training.job().plan_after(0, 0, training.now_s()));
  while (training.iteration() < plan["trials"][0]["first_iteration"].get<std::int64_t>()) training.run(1);
  training.slow_all(15);  // a hiccup in an iteration that tries a clock out
  training.run(1);
  training.slow_all(1);
  EXPECT_THAT(training.reasons("plan"), Contains(HasSubstr("the limit for profiling")));
  training.run(20);
  EXPECT_EQ(summary_json(training.record())["purpose"], "full_clocks");
  for (const Json& op : Json::parse(*training.job().plan_after(0, 0, training.now_s()))["plan"]["stages"][0]["ops"]) {
    EXPECT_EQ(op["mhz"], training.rank_spec(0).clocks_mhz.front());
  }
}

TEST(JobProfilingCost, SurvivesARestartOfTheServer) {
  protocol::JobSpec spec = small_job(2);
  spec.profiling->allowance_pct = 0.4;
  SimulatedJob training(spec);
  training.register_all();
  training.run(1);
  const double full_clock_time_s = training.time_s();
  double cost_s = 0;
  for (int iteration = 0; iteration < 150; ++iteration) {
    if (iteration % 3 == 0 && training.record().state() != JobState::running) training.restart_server();
    training.run(1);
    if (training.record().state() != JobState::running) cost_s += training.time_s() - full_clock_time_s;
  }
  EXPECT_LE(cost_s, 0.004 * 500 * full_clock_time_s);
}

TEST(JobProfiling, IsNotRepeatedForAHiccupOfAllRanks) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(10);
  for (int hiccup = 0; hiccup < 3; ++hiccup) {
    training.slow_all(1.4);
    training.run(20);
    training.slow_all(1);
    training.run(40);
  }
  EXPECT_THAT(training.reasons("drift"), Not(IsEmpty()));
  EXPECT_THAT(training.reasons("profile"), Not(Contains(HasSubstr("profiled again"))));
}

TEST(JobProfiling, ObservesWhenNoRankFollowsTheBaselinesPlan) {
  SimulatedJob training(quickly_profiled(2, 1));
  training.register_all();
  training.deaf = {true, true};
  ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations));
  EXPECT_TRUE(summary_json(training.record())["has_failed"].get<bool>());
  EXPECT_THAT(summary_json(training.record())["reason"].get<std::string>(), HasSubstr("no rank follows the plan"));
  for (const int rank : {0, 1}) training.job().finish_rank(rank, training.now_s());
  EXPECT_THAT(summary_json(training.record())["reason"].get<std::string>(),
              HasSubstr("all ranks have ended; no plan was followed at the end: no rank follows the plan"));
}

TEST(JobProfiling, WaitsForRanksThatContinueFromACheckpointToFollowTheBaselinesPlan) {
  SimulatedJob training(quickly_profiled(2, 1));
  training.register_all();
  training.count_from(1'000);
  training.deaf = {true, true};
  training.run(45);
  ASSERT_EQ(training.record().state(), JobState::baseline);
  training.deaf = {false, false};
  EXPECT_TRUE(training.run_until(JobState::running));
}

TEST(JobProfiling, IsRepeatedLessAndLessOftenForADriftThatItDoesNotEnd) {
  protocol::JobSpec spec = small_job(2);
  spec.guard_pct = 900;
  SimulatedJob training(spec);
  training.train();
  double factor = 1;
  for (int iteration = 0; iteration < 900; ++iteration) {  // ever slower
    if (iteration % 60 == 0) factor *= 1.1;
    training.slow_all(factor);
    training.run(1);
  }
  const auto is_repetition = [](const std::string& reason) {
    return reason.find("profiled again") != std::string::npos;
  };
  EXPECT_LE(std::ranges::count_if(training.reasons("profile"), is_repetition), 5);
}

TEST(JobProfiling, NamesTheSweepOfCellsThatReplacesEarlierOnes) {
  protocol::JobSpec spec = small_job(2);
  spec.guard_pct = 900;
  SimulatedJob training(spec);
  training.train();
  const StoredCells first = training.stored().cells.back();
  EXPECT_EQ(first.sweep, 1);
  training.slow_all(1.3);
  while (training.stored().cells.back().sweep == first.sweep) {
    training.run(1);
    ASSERT_LT(training.iteration(), kEnoughIterations);
  }
  EXPECT_GT(training.stored().cells.back().sweep, first.plan_version);
  EXPECT_LE(training.stored().cells.back().sweep, training.stored().cells.back().plan_version);
}

TEST(JobProfiling, IsTriedAgainAfterAnHour) {
  SimulatedJob training(quickly_profiled(2, 1));
  training.measures_nothing[1] = true;
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations));
  const double observing_s = training.now_s();
  training.measures_nothing[1] = false;
  EXPECT_NEAR(summary_json(training.record())["retry_s"].get<double>(), observing_s + 3'600, 60);
  while (training.record().state() == JobState::observing) training.run(1);
  EXPECT_GE(training.now_s(), observing_s + 3'600 - 60);
  EXPECT_TRUE(training.run_until(JobState::running, kEnoughIterations));
}

TEST(JobProfiling, SharesNoProfileOfSimulatedGpusWithRealOnes) {
  SimulatedJob first(quickly_profiled(2, 1));
  first.gpus_are_simulated = true;
  first.train();
  for (const bool simulated : {true, false}) {
    SimulatedJob second(quickly_profiled(2, 1));
    second.gpus_are_simulated = simulated;
    second.know({{profile_key(first.record()), first.record().profiling.own()}});
    second.register_all();
    second.restart_server();
    ASSERT_TRUE(second.run_until(JobState::running));
    EXPECT_EQ(second.reasons("profile").front().find("profiling is skipped") != std::string::npos, simulated);
  }
}

TEST(JobProfiling, MeasuresTheBaselineAnewForAProfileThatIsFoundLater) {
  SimulatedJob other(quickly_profiled(2, 1));
  other.train();
  SimulatedJob training(quickly_profiled(2, 1));
  training.register_all();
  training.run(3);
  training.measures_nothing[1] = true;
  ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations));
  training.job().profile_found(other.record().profiling.own(), training.now_s());
  training.run(2);
  EXPECT_EQ(training.record().state(), JobState::baseline);
  EXPECT_TRUE(training.run_until(JobState::running, 20));
}

TEST(JobProfiling, ObservesAtFullClocksWhenNobodyMeasuresAStage) {
  SimulatedJob training(quickly_profiled(2, 1));
  training.register_all();
  training.run(3);
  training.measures_nothing[1] = true;
  ASSERT_TRUE(training.run_until(JobState::observing, kEnoughIterations));
  EXPECT_THAT(summary_json(training.record())["reason"].get<std::string>(), HasSubstr("neither rank 1 nor"));
  const Json plan = Json::parse(*training.job().plan_after(0, 0, training.now_s()));
  EXPECT_EQ(plan["purpose"], "full_clocks");
  for (const Json& op : plan["plan"]["stages"][0]["ops"]) {
    EXPECT_EQ(op["mhz"], training.rank_spec(0).clocks_mhz.front());
  }
  EXPECT_THAT(training.reasons("failed"), IsEmpty());
}

const std::vector<int> kClocks{1410, 1305, 1200, 1095, 990, 885};

IterationMeans baseline() { return {.iterations = 5, .time_s = 2, .energy_j = {}}; }

TEST(Profiling, BeginsWithTheHighestClockAndKeepsToTheAllowance) {
  protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.allow(spec, baseline());
  const std::vector<int> first = profiling.first_clocks(spec, kClocks, 2);
  EXPECT_EQ(first.front(), 1410);
  EXPECT_GE(first.size(), 3U);
  spec.profiling->allowance_pct = 1e-6;
  profiling.allow(spec, baseline());
  EXPECT_THAT(error_of([&] { (void)profiling.first_clocks(spec, kClocks, 2); }),
              HasSubstr("raise allowance_pct of the job's profile"));
}

TEST(Profiling, AddsTrialsThatItsAllowanceCovers) {
  const protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.begin(3);
  profiling.allow(spec, baseline());
  PlanVersion version;
  ASSERT_TRUE(profiling.add_trials(version, spec, {1200}, {.mhz = 1410, .time_s = 2}, " once more"));
  EXPECT_EQ(version.sweep, 3);
  ASSERT_EQ(version.trials.size(), 1U);
  EXPECT_EQ(version.trials[0].clock_mhz, 1200);
  EXPECT_EQ(version.reason, "tries 1200 MHz in single iterations once more");
  profiling.budget().spend(1e9, 0);
  PlanVersion unchanged;
  EXPECT_FALSE(profiling.add_trials(unchanged, spec, {1200}, {.mhz = 1410, .time_s = 2}, ""));
  EXPECT_TRUE(unchanged.trials.empty());
  EXPECT_TRUE(unchanged.reason.empty());
}

TEST(Profiling, MergesWhatRanksMeasuredIntoAProfile) {
  Profiling profiling;
  profiling.begin(1);
  EXPECT_THROW(profiling.merge(1, true), InputError);  // nothing was measured
  EXPECT_EQ(profiling.own(), nullptr);
}

TEST(Profiling, IsStoredAndRestored) {
  const protocol::JobSpec spec = small_job(1);
  Profiling profiling;
  profiling.begin(3);
  profiling.allow(spec, baseline());
  profiling.sweep().want({1410, 1200});
  profiling.sweep().begin(4, 30, 1e9);
  profiling.budget().spend(2.5, 2);
  Json state;
  profiling.write_state(state);
  Profiling restored;
  restored.restore(JsonView(state, "state"), spec, baseline());
  restored.resume_version(JsonView(state, "state"), 1e9);
  Json again;
  restored.write_state(again);
  EXPECT_EQ(again.dump(), state.dump());
  EXPECT_EQ(restored.budget().left_s(), profiling.budget().left_s());
  const Json one_clock_after_the_other = {{"sweep_first_version", 7}};
  restored.restore(JsonView(one_clock_after_the_other, "state"), spec, baseline());
  EXPECT_EQ(restored.sweep().first_version(), 7);
}

}  // namespace
}  // namespace lowgear::server
