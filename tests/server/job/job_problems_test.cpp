#include "server/job/job_problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/job/job_documents.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::vector<std::string> kinds(const JobRecord& job) {
  std::vector<std::string> kinds;
  for (const JobProblem& problem : problems_of(job)) kinds.emplace_back(problem.kind);
  return kinds;
}

/// Whether the usage of another iteration that is like the last one has a baseline.
bool counts_against_baseline(JobRecord job) {
  JobIteration next = job.history.kept().back();
  ++next.iteration;
  std::vector<StoredUsage> rows;
  job.count_usage(next, 0, rows);
  return rows.at(0).row.has_baseline();
}

/// Every setter fails, or the agent was killed: the job's clocks are those of a plan, which no rank follows any more.
TEST(JobProblems, ShowClocksThatNobodySets) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(10);
  ASSERT_THAT(problems_of(training.record()), IsEmpty());
  for (int rank = 0; rank < 4; ++rank) training.lose_agent(rank);
  training.slow_all(1.116);  // what low clocks cost
  training.run(30);
  const std::vector<JobProblem> problems = problems_of(training.record());
  ASSERT_THAT(kinds(training.record()), ElementsAre("clocks_stuck"));
  EXPECT_TRUE(problems[0].is_critical);
  EXPECT_EQ(problems[0].ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_THAT(problems[0].text, AllOf(HasSubstr("rank 0 and 3 others do not follow the plan"), HasSubstr("(node-0)"),
                                      HasSubstr("11.6 %")));
  EXPECT_THAT(problems[0].todo, HasSubstr("start the agent"));
  const Json summary = summary_json(training.record());
  EXPECT_NEAR(summary["slowdown_pct"].get<double>(), 11.6, 0.1);
  EXPECT_EQ(summary["problems"][0]["kind"], "clocks_stuck");
  EXPECT_EQ(summary["problems"][0]["gpus"].size(), 4U);
  const JobSnapshot snapshot = job_snapshot(training.record());
  EXPECT_EQ(snapshot.problems.at("clocks_stuck"), 4U);
  EXPECT_NEAR(snapshot.slowdown_ratio.value_or(0), 0.116, 0.001);
}

TEST(JobProblems, SayThatFiguresOfAPlanMayBeWrong) {
  SimulatedJob training(small_job(2));
  training.train();
  JobRecord job = training.record();
  PlannedJob planned;
  planned.doubts = "figures of the plan may be wrong: stage 0";
  EXPECT_TRUE(job.planning.follow(planned));
  EXPECT_FALSE(job.planning.follow(planned)) << "the log has it once";
  ASSERT_THAT(kinds(job), ElementsAre("plan_doubtful"));
  EXPECT_EQ(problems_of(job)[0].text, planned.doubts);
  planned.doubts.clear();
  EXPECT_FALSE(job.planning.follow(planned));
  EXPECT_THAT(problems_of(job), IsEmpty());
}

protocol::RankDecisions validity(std::int64_t number, const std::string& change) {
  return {.rank = 0,
          .work = {},
          .decisions = {{.number = number,
                         .age_s = 0,
                         .from_iteration = 2,
                         .technique = "simulated_gpu",
                         .change = change,
                         .configuration = "",
                         .reason = "the kernels are too short"}}};
}

TEST(JobProblems, StateNoFigureThatTheTrainingProgramCallsInvalid) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(30);
  ASSERT_TRUE(summary_json(training.record())["saved_pct"].is_number());
  training.job().add_decisions(validity(1, "invalid"), training.now_s());
  ASSERT_THAT(kinds(training.record()), ElementsAre("figures_invalid"));
  EXPECT_THAT(problems_of(training.record())[0].text, HasSubstr("the kernels are too short"));
  EXPECT_THAT(problems_of(training.record())[0].todo, StartsWith("if it lasts, start the run again"));
  const Json summary = summary_json(training.record());
  for (const char* figure :
       {"saved_pct", "slowdown_pct", "time_s", "energy_j", "baseline", "planned_time_s", "planned_energy_j"}) {
    EXPECT_TRUE(summary[figure].is_null()) << figure;
  }
  EXPECT_FALSE(job_snapshot(training.record()).baseline);
  EXPECT_FALSE(job_snapshot(training.record()).planned_step_j);
  const std::vector<StoredUsage> usage = training.job().take_changes().store.usage;
  ASSERT_FALSE(usage.empty());
  EXPECT_TRUE(usage.back().takes_savings_back);
  EXPECT_TRUE(frontier_json(training.record())["measured"].is_null());
  EXPECT_EQ(frontier_json(training.record())["invalid"], problems_of(training.record())[0].text);
  training.settle();
  const std::size_t decisions = training.decisions().size();
  training.slow_all(1.5);
  training.run(60);
  training.slow_all(1);
  EXPECT_EQ(training.decisions().size(), decisions) << "neither of ranks nor of the plan";
  training.job().add_decisions(validity(2, "valid"), training.now_s());
  training.run(30);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
  EXPECT_TRUE(summary_json(training.record())["saved_pct"].is_number());
  EXPECT_TRUE(iterations_json(training.record(), -1, 1)["invalid"].is_null());
  training.job().add_decisions(validity(3, "invalid"), training.now_s());
  training.job().finish("over", training.now_s());
  EXPECT_THAT(problems_of(training.record())[0].todo, StartsWith("start the run again"));
}

TEST(JobProblems, MeasureTheBaselineWhileFiguresAreValid) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.slow_all(3);
  training.run(3);
  training.job().add_decisions(validity(1, "invalid"), training.now_s());
  training.run(10);
  EXPECT_EQ(training.record().state(), JobState::baseline);
  training.job().add_decisions(validity(2, "valid"), training.now_s());
  training.slow_all(1);
  training.run(1);
  const double usual_s = training.time_s();
  ASSERT_TRUE(training.run_until(JobState::running));
  EXPECT_NEAR(training.record().baseline.result()->time_s, usual_s, 0.01 * usual_s);
}

TEST(JobProblems, MeasureAgainWhatWasMeasuredWhileNoFigureWasValid) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.job().add_decisions(validity(1, "invalid"), training.now_s());
  training.slow_all(3);
  ASSERT_TRUE(training.run_until(JobState::running)) << "it does not wait for ever";
  training.job().add_decisions(validity(2, "valid"), training.now_s());
  EXPECT_EQ(training.record().state(), JobState::baseline);
  training.slow_all(1);
  ASSERT_TRUE(training.run_until(JobState::running));
  training.run(10);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
  EXPECT_FALSE(training.record().baseline.is_of_no_use());
}

TEST(JobProblems, SayThatNoIterationHasEnded) {
  SimulatedJob training(small_job(2));
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::baseline, 0) || training.record().state() == JobState::baseline);
  (void)training.job().plan_after(0, 0, training.record().status.created_s + 60);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
  (void)training.job().plan_after(0, 0, training.record().status.created_s + 130);
  ASSERT_THAT(kinds(training.record()), ElementsAre("no_iteration"));
  training.run(1);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
}

TEST(JobProblems, StateNoSavingAgainstABaselineThatSomethingElseHasSlowed) {
  SimulatedJob training(small_job(2));
  training.slow_all(2);
  training.train();
  training.run(30);
  ASSERT_TRUE(summary_json(training.record())["saved_pct"].is_number());
  EXPECT_TRUE(counts_against_baseline(training.record()));
  training.slow_all(1);
  training.run(1);
  EXPECT_FALSE(counts_against_baseline(training.record())) << "by its own time";
  for (int i = 0; i < 60 && problems_of(training.record()).empty(); ++i) training.run(1);
  ASSERT_THAT(kinds(training.record()), Contains("baseline_too_slow"));
  EXPECT_TRUE(summary_json(training.record())["saved_pct"].is_null());
  EXPECT_TRUE(summary_json(training.record())["slowdown_pct"].is_null()) << "the sentence has it";
  ASSERT_TRUE(training.run_until(JobState::profiling)) << "the profile does not fit the job any more";
  ASSERT_TRUE(training.run_until(JobState::running));
  training.run(30);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
}

TEST(JobProblems, StateNoSavingAgainstABaselineThatWasMeasuredOnSharedGpus) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.job().set_shared(0, SharedGpu{.counts_here = true, .text = "rank 0 shares"}, training.now_s());
  ASSERT_TRUE(training.run_until(JobState::profiling));
  training.job().set_shared(0, std::nullopt, training.now_s());
  training.run(1);
  EXPECT_FALSE(counts_against_baseline(training.record())) << "a trial";
  ASSERT_TRUE(training.run_until(JobState::running));
  training.run(30);
  EXPECT_FALSE(counts_against_baseline(training.record()));
  EXPECT_TRUE(summary_json(training.record())["saved_pct"].is_null());
  ASSERT_THAT(kinds(training.record()), ElementsAre("baseline_uncertain"));
  EXPECT_THAT(problems_of(training.record())[0].text, HasSubstr("another job had GPUs of this one"));
  training.restart_server();
  training.run(1);
  EXPECT_FALSE(counts_against_baseline(training.record()));
}

/// The clocks of a stage that nothing waits for are the highest.
TEST(JobProblems, StateNoSavingOfAPlanThatHasTheClocksOfTheBaseline) {
  SimulatedJob training(small_job(1));
  training.train();
  training.run(20);
  ASSERT_EQ(training.record().plans.training()->only_mhz, training.rank_spec(0).clocks_mhz.front());
  ASSERT_THAT(kinds(training.record()), ElementsAre("baselines_clocks"));
  EXPECT_FALSE(counts_against_baseline(training.record()));
  EXPECT_TRUE(summary_json(training.record())["saved_pct"].is_null());
}

TEST(JobProblems, StateNoSavingWhileManyIterationsStall) {
  protocol::JobSpec spec = small_job(2);
  spec.guard_pct = 900;
  SimulatedJob training(spec);
  training.train();
  training.run(20);
  ASSERT_TRUE(summary_json(training.record())["saved_pct"].is_number());
  for (int i = 0; i < 12; ++i) {
    training.slow_all(i % 2 == 0 ? 6 : 1);
    training.run(1);
  }
  EXPECT_THAT(kinds(training.record()), Contains("iterations_stalled"));
  EXPECT_TRUE(summary_json(training.record())["saved_pct"].is_null());
}

TEST(JobProblems, ShowABaselineThatIsNoMeasurement) {
  SimulatedJob training(small_job(2));
  training.register_all();
  double factor = 1;
  while (training.record().state() == JobState::baseline) {
    training.slow_all(factor);
    training.run(1);
    factor *= 1.3;
  }
  training.slow_all(1);
  EXPECT_GT(training.iteration(), 20);
  ASSERT_TRUE(training.run_until(JobState::running));
  training.run(5);
  EXPECT_THAT(kinds(training.record()), Contains("baseline_uncertain"));
  EXPECT_TRUE(summary_json(training.record())["saved_pct"].is_null());
  EXPECT_TRUE(summary_json(training.record())["slowdown_pct"].is_null());
  EXPECT_TRUE(summary_json(training.record())["baseline"].is_null());
}

TEST(JobProblems, ShowAJobThatIsSilent) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.run(2);
  finish_if_silent(training.job(), training.now_s() + 60, 1'800);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
  finish_if_silent(training.job(), training.now_s() + 180, 1'800);
  ASSERT_THAT(kinds(training.record()), ElementsAre("silent"));
  EXPECT_TRUE(problems_of(training.record())[0].is_critical);
  EXPECT_THAT(problems_of(training.record())[0].text, HasSubstr("for 3 min"));
  training.settle();
  EXPECT_THAT(training.reasons("silence"), testing::SizeIs(1));
  training.run(1);
  finish_if_silent(training.job(), training.now_s(), 1'800);
  EXPECT_THAT(problems_of(training.record()), IsEmpty());
}

TEST(JobProblems, OfARankThatFollowsNoPlanAreNotCriticalWhileTheJobIsFast) {
  SimulatedJob training(small_job(4));
  training.train();
  training.run(10);
  training.lose_agent(1);
  training.run(3);
  EXPECT_THAT(problems_of(training.record()), IsEmpty()) << "it may only have missed a plan";
  training.run(10);
  ASSERT_THAT(kinds(training.record()), ElementsAre("plan_not_followed"));
  EXPECT_FALSE(problems_of(training.record())[0].is_critical);
  EXPECT_THAT(problems_of(training.record())[0].text, HasSubstr("rank 1 does not follow the plan"));
}

TEST(JobProblems, OfARankThatFollowsNoPlanShowWhileTheJobIsProfiledFirst) {
  SimulatedJob training(small_job(4));
  training.register_all();
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  training.lose_agent(1);
  training.run(10);
  ASSERT_EQ(training.record().state(), JobState::profiling);
  EXPECT_THAT(kinds(training.record()), ElementsAre("plan_not_followed"));
  EXPECT_THAT(summary_json(training.record())["reason"].get<std::string>(),
              HasSubstr("; rank 1 does not follow the plan"));
}

/// A job of two ranks, one of which reports as the test says.
class JobProblemsOfReports : public testing::Test {
 protected:
  void register_ranks(const std::string& first_gpu, const std::string& second_gpu) {
    for (int rank = 0; rank < 2; ++rank) {
      protocol::RankSpec spec;
      spec.rank = spec.pp_rank = rank;
      spec.instance = std::to_string(rank);
      spec.host = "node-1";
      spec.gpu_uuid = rank == 0 ? first_gpu : second_gpu;
      spec.power_limit_w = 400;
      (void)job.register_rank(spec, "key", {}, 0);
    }
  }
  void report(int rank, double time_s, std::optional<double> energy_j, double error_j = 0) {
    protocol::RankReports reports{.rank = rank, .reports = {}, .gpu = {}};
    reports.reports.push_back({.iteration = next_iteration[rank]++,
                               .plan_version = 0,
                               .time_s = time_s,
                               .compute_s = time_s,
                               .energy_j = energy_j,
                               .energy_error_j = error_j});
    job.report(reports, ++now_s);
  }
  [[nodiscard]] std::vector<std::string> reasons(const std::string& kind) {
    std::vector<std::string> reasons;
    for (const Json& decision : job.take_changes().decisions) {
      if (decision["kind"] == kind) reasons.push_back(decision["reason"]);
    }
    return reasons;
  }
  [[nodiscard]] const JobIteration& last() const { return job.record().history.kept().back(); }

  Job job{"j-1", small_job(2), 0};
  double now_s = 0;
  std::int64_t next_iteration[2] = {0, 0};
};

TEST_F(JobProblemsOfReports, LeaveEnergiesOutThatNoGpuCanHaveDrawn) {
  register_ranks("GPU-a", "GPU-b");
  report(0, 2.4, 1e6);
  report(1, 2.4, 500);
  EXPECT_EQ(last().time_s, 2.4) << "the time counts";
  EXPECT_FALSE(last().energy_j);
  ASSERT_THAT(kinds(job.record()), ElementsAre("energy_left_out"));
  EXPECT_THAT(problems_of(job.record())[0].text, AllOf(HasSubstr("1000000 J in 2.4 s"), HasSubstr("at most 460 W")));
  EXPECT_THAT(reasons("energy"), ElementsAre(HasSubstr("energies of rank 0 are left out")));
  EXPECT_EQ(job_snapshot(job.record()).problems.at("energy_left_out"), 1U);
  EXPECT_EQ(job.record().activity.energies_left_out().at("too_high"), 1U);
  EXPECT_THAT(ranks_json(job.record())[0]["energy_fault"].get<std::string>(), HasSubstr("of iteration 0 shows"));
  EXPECT_TRUE(ranks_json(job.record())[0]["report"]["energy_j"].is_null());
  for (int i = 0; i < 25; ++i) {
    report(0, 2.4, 900);
    report(1, 2.4, 500);
  }
  EXPECT_EQ(last().energy_j, 1400);
  EXPECT_THAT(problems_of(job.record()), IsEmpty());
  EXPECT_THAT(reasons("energy"), ElementsAre("energies of rank 0 count again"));
}

TEST_F(JobProblemsOfReports, LeaveNoEnergyInForItsOwnErrorNorForACounterThatStands) {
  register_ranks("GPU-a", "GPU-b");
  report(0, 2.4, 1e6, 1e6);
  report(1, 2.4, 500);
  EXPECT_FALSE(last().energy_j);
  report(0, 2.4, 0);
  report(1, 2.4, 500);
  EXPECT_FALSE(last().energy_j);
  report(0, 0.01, 60);  // a step of the counter
  report(1, 0.01, 0);
  EXPECT_EQ(last().energy_j, 60);
}

/// Each energy could be one step of the counter, and together they cannot.
TEST_F(JobProblemsOfReports, JudgeEnergiesOfShortIterationsTogether) {
  register_ranks("GPU-a", "GPU-b");
  for (int request = 0; request < 5; ++request) {
    protocol::RankReports reports{.rank = 0, .reports = {}, .gpu = {}};
    for (int i = 0; i < 1'000; ++i) {
      reports.reports.push_back(
          {.iteration = next_iteration[0]++, .plan_version = 0, .time_s = 0.001, .compute_s = 0.001, .energy_j = 80});
    }
    job.report(reports, ++now_s);
  }
  for (int i = 0; i < 5'000; ++i) report(1, 0.001, 0.3);
  EXPECT_EQ(job.record().activity.energies_left_out().at("too_high"), 5'000U);
  for (const JobIteration& iteration : job.record().history.kept()) ASSERT_FALSE(iteration.energy_j);
  EXPECT_THAT(problems_of(job.record())[0].text, HasSubstr("together with those since iteration 0"));
}

TEST_F(JobProblemsOfReports, SeeACounterThatStandsThroughShortIterations) {
  register_ranks("GPU-a", "GPU-b");
  for (int i = 0; i < 30; ++i) {
    report(0, 0.5, i == 0 ? 150 : 0);
    report(1, 0.5, 150);
  }
  EXPECT_FALSE(last().energy_j);
  ASSERT_THAT(kinds(job.record()), ElementsAre("energy_left_out"));
  EXPECT_THAT(problems_of(job.record())[0].text, HasSubstr("shows no energy for"));
  EXPECT_EQ(job.record().activity.energies_left_out().at("stands_still"), 28U);
}

/// A trainer states any limit; the agent of its node knows the GPU.
TEST_F(JobProblemsOfReports, BelieveTheAgentOfAGpuRatherThanTheRank) {
  register_ranks("GPU-a", "GPU-b");
  protocol::RankReports reports{.rank = 0, .reports = {}, .gpu = {}};
  reports.reports.push_back({.iteration = 0, .plan_version = 0, .time_s = 1, .compute_s = 1, .energy_j = 700});
  job.report(reports, 1, 300);
  report(1, 1, 500);
  EXPECT_FALSE(last().energy_j);
  ASSERT_THAT(kinds(job.record()), ElementsAre("energy_left_out", "power_limit_differs"));
  EXPECT_THAT(problems_of(job.record())[1].text,
              AllOf(HasSubstr("rank 0 states a power limit of 400 W"), HasSubstr("GPU-a one of at most 300 W")));
}

TEST_F(JobProblemsOfReports, CountNoEnergyAboveAStatedLimitForLong) {
  register_ranks("GPU-a", "GPU-b");
  report(0, 2.4, 1'800);  // 750 W of 400 W
  report(1, 2.4, 1'000);
  EXPECT_FALSE(last().energy_j);
  EXPECT_THAT(kinds(job.record()), ElementsAre("energy_left_out"));
}

TEST_F(JobProblemsOfReports, CountNoEnergyThatIsNextToNone) {
  register_ranks("GPU-a", "GPU-b");
  report(0, 1, 1e-9);
  report(1, 1, 300);
  EXPECT_FALSE(last().energy_j);
  EXPECT_THAT(kinds(job.record()), ElementsAre("energy_left_out"));
  EXPECT_EQ(job.record().activity.energies_left_out().at("stands_still"), 1U);
}

TEST_F(JobProblemsOfReports, LeaveOutATimeThatNoOtherRankHas) {
  register_ranks("GPU-a", "GPU-b");
  report(0, 1, 300);
  report(1, 100, 300);
  EXPECT_EQ(last().time_s, 1);
  EXPECT_FALSE(last().energy_j);
  ASSERT_THAT(kinds(job.record()), ElementsAre("times_differ"));
  EXPECT_THAT(problems_of(job.record())[0].text,
              HasSubstr("rank 1 has reported 100 s for iteration 0: 1 s count, the time of another rank"));
  report(0, 90, 9'000);
  report(1, 100, 10'000);
  EXPECT_EQ(last().time_s, 100) << "all of them waited";
  EXPECT_EQ(last().energy_j, 19'000);
}

TEST_F(JobProblemsOfReports, NameAPlanThatWasNeverIssued) {
  register_ranks("GPU-a", "GPU-b");
  protocol::RankReports reports{.rank = 0, .reports = {}, .gpu = {}};
  reports.reports.push_back({.iteration = 0, .plan_version = 99, .time_s = 1, .compute_s = 1, .energy_j = 300});
  job.report(reports, 1);
  report(1, 1, 300);
  EXPECT_EQ(last().plan_version, 0);
  ASSERT_THAT(kinds(job.record()), ElementsAre("plan_unknown"));
  EXPECT_THAT(problems_of(job.record())[0].text, HasSubstr("rank 0 reports plan version 99, which was never issued"));
}

TEST_F(JobProblemsOfReports, GoByTheHighestLimitThatTheAgentOfTheGpuHasNamed) {
  register_ranks("GPU-a", "GPU-b");
  protocol::RankReports reports{.rank = 0, .reports = {}, .gpu = {}};
  reports.reports.push_back({.iteration = 0, .plan_version = 0, .time_s = 1, .compute_s = 1, .energy_j = 1'000});
  job.report(reports, 1, 700);  // its limit was low while the job registered
  report(1, 1, 500);
  EXPECT_EQ(last().energy_j, 1'500);
}

TEST_F(JobProblemsOfReports, CountAGpuOnceThatTwoRanksHave) {
  register_ranks("GPU-a", "GPU-a");
  report(0, 1, 300);
  report(1, 1, 310);
  EXPECT_EQ(last().energy_j, 300);
  ASSERT_THAT(kinds(job.record()), ElementsAre("gpu_counted_once"));
  EXPECT_THAT(problems_of(job.record())[0].text, HasSubstr("GPU-a is that of rank 0 and of rank 1"));
}

TEST_F(JobProblemsOfReports, CountNoEnergyOfAnInstance) {
  register_ranks("MIG-a", "GPU-a");
  report(0, 1, 300);
  report(1, 1, 310);
  EXPECT_FALSE(last().energy_j);
  EXPECT_THAT(kinds(job.record()), ElementsAre("energy_left_out"));
  EXPECT_EQ(job.record().activity.energies_left_out().at("instance"), 1U);
}

TEST_F(JobProblemsOfReports, CountNoEnergyThatCountsInAnotherJob) {
  register_ranks("GPU-a", "GPU-b");
  job.set_shared(1, SharedGpu{.counts_here = false, .text = "GPU-b of rank 1 is also that of job j-0"}, 1);
  report(0, 1, 300);
  report(1, 1, 310);
  EXPECT_FALSE(last().energy_j);
  EXPECT_THAT(kinds(job.record()), ElementsAre("gpu_shared"));
  EXPECT_EQ(job.record().activity.energies_left_out().at("shared"), 1U);
  job.set_shared(1, std::nullopt, 2);
  report(0, 1, 300);
  report(1, 1, 310);
  EXPECT_EQ(last().energy_j, 610);
  ASSERT_THAT(kinds(job.record()), ElementsAre("gpu_shared")) << "the means contain the iteration before";
  EXPECT_THAT(problems_of(job.record())[0].text, HasSubstr("in iterations that the means contain"));
  for (int i = 0; i < 20; ++i) {
    report(0, 1, 300);
    report(1, 1, 310);
  }
  EXPECT_THAT(kinds(job.record()), testing::Not(Contains("gpu_shared")));
  EXPECT_EQ(reasons("sharing").size(), 2U);
}

TEST_F(JobProblemsOfReports, NameRanksThatReportNothing) {
  register_ranks("GPU-a", "GPU-b");
  for (int i = 0; i < 60; ++i) report(0, 1, 300);
  now_s += 100;
  report(1, 1, 300);
  next_iteration[1] = 50;
  report(1, 1, 300);
  report(0, 1, 300);
  EXPECT_THAT(kinds(job.record()), Contains("reports_missing"));
  ASSERT_EQ(last().iteration, 50);
  EXPECT_EQ(last().energy_j, 600);
  EXPECT_FALSE(job.record().history.kept()[49].energy_j);
}

TEST_F(JobProblemsOfReports, CountIterationsAfterOneThatARankHasSkipped) {
  register_ranks("GPU-a", "GPU-b");
  for (int i = 0; i < 20; ++i) {
    if (i == 5) next_iteration[1] = 6;
    report(0, 1, 300);
    if (i != 5) report(1, 1, 300);
  }
  EXPECT_EQ(last().iteration, 19);
  EXPECT_EQ(last().energy_j, 600);
  EXPECT_EQ(job.record().history.kept().size(), 20U);
  ASSERT_THAT(kinds(job.record()), ElementsAre("reports_missing"));
  EXPECT_EQ(problems_of(job.record())[0].ranks, std::vector<int>{1});
  EXPECT_THAT(problems_of(job.record())[0].text, HasSubstr("iteration 5 lacks the report of rank 1"));
}

TEST_F(JobProblemsOfReports, NameARankThatIterationsWaitFor) {
  register_ranks("GPU-a", "GPU-b");
  report(0, 1, 300);
  report(1, 1, 300);
  for (int i = 1; i < 15; ++i) report(0, 1, 300);
  EXPECT_EQ(last().iteration, 0);
  ASSERT_THAT(kinds(job.record()), ElementsAre("reports_missing"));
  EXPECT_THAT(
      problems_of(job.record())[0].text,
      AllOf(HasSubstr("iteration 1 and 13 later ones lack the reports of rank 1"), HasSubstr("not counted yet")));
}

TEST_F(JobProblemsOfReports, CountWhatIsCompleteWhenTheJobEnds) {
  register_ranks("GPU-a", "GPU-b");
  for (int i = 0; i < 8; ++i) report(0, 1, 300);
  for (int i = 0; i < 3; ++i) report(1, 1, 300);
  (void)job.take_changes();
  job.finish("by request", ++now_s);
  EXPECT_EQ(last().iteration, 2);
  EXPECT_THAT(reasons("reports"), ElementsAre(HasSubstr("iteration 3 and 4 later ones lack the reports of rank 1")));
  ASSERT_THAT(kinds(job.record()), ElementsAre("reports_missing"));
  EXPECT_THAT(summary_json(job.record())["problems"][0]["text"].get<std::string>(),
              HasSubstr("did not count when the job ended"));
}

TEST_F(JobProblemsOfReports, CountWhatWaitedForARankThatEnds) {
  register_ranks("GPU-a", "GPU-b");
  for (int i = 0; i < 8; ++i) report(0, 1, 300);
  for (int i = 0; i < 3; ++i) report(1, 1, 300);
  job.finish_rank(1, ++now_s);
  EXPECT_EQ(last().iteration, 7);
  job.finish_rank(0, ++now_s);
  EXPECT_THAT(reasons("reports"), IsEmpty());
}

TEST_F(JobProblemsOfReports, CountNoIterationThatAFailedRankHasNotEnded) {
  register_ranks("GPU-a", "GPU-b");
  for (int i = 0; i < 4; ++i) report(0, 1, 300);
  for (int i = 0; i < 3; ++i) report(1, 1, 300);
  job.finish_rank(1, ++now_s, "RuntimeError");
  EXPECT_EQ(last().iteration, 2);
  job.finish_rank(0, ++now_s);
  EXPECT_EQ(last().iteration, 2);
  EXPECT_THAT(reasons("reports"), ElementsAre(HasSubstr("iteration 3 lacks the reports of rank 1")));
  EXPECT_THAT(kinds(job.record()), ElementsAre("rank_failed"));
}

TEST_F(JobProblemsOfReports, NameARankThatCountsOtherIterations) {
  register_ranks("GPU-a", "GPU-b");
  next_iteration[0] = 1'000'000'000'000;
  report(0, 1, 300);
  EXPECT_THAT(problems_of(job.record()), IsEmpty()) << "no other rank has reported yet";
  report(1, 1, 300);
  ASSERT_THAT(kinds(job.record()), ElementsAre("reports_missing", "iterations_differ"));
  EXPECT_THAT(problems_of(job.record())[1].text,
              AllOf(HasSubstr("rank 0 has reported iteration 1000000000000"), HasSubstr("have reached 0")));
}

}  // namespace
}  // namespace lowgear::server
