#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/formats/json.h"
#include "server/job/job_documents.h"
#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

using testing::SizeIs;

class JobRestoreAfterDrift : public testing::Test {
 protected:
  /// Trains by a profile of units that take 1.6 times as long as when they were profiled first.
  void SetUp() override {
    training.train();
    training.run(10);
    training.slow_all(1.6);
    ASSERT_TRUE(training.run_until(JobState::profiling, 60));
    ASSERT_TRUE(training.run_until(JobState::running));
    training.run(8);
  }
  [[nodiscard]] static protocol::JobSpec unguarded_job() {
    protocol::JobSpec spec = small_job(2);
    spec.guard_pct = 900;
    return spec;
  }
  /// Time of the fastest plan.
  [[nodiscard]] double fastest_s() { return frontier_json(training.record())["vertices"][0][0].get<double>(); }

  SimulatedJob training{unguarded_job()};
};

TEST_F(JobRestoreAfterDrift, PlansByTheNewestProfileAlone) {
  const double before_s = fastest_s();
  training.restart_server();
  training.run(60);
  EXPECT_NEAR(fastest_s(), before_s, before_s * 1e-6);
  EXPECT_THAT(training.reasons("drift"), SizeIs(1));
}

/// Of a server that measured one clock after the other.
TEST_F(JobRestoreAfterDrift, ReadsAStateThatDoesNotNameTheSweep) {
  StoreContents stored = training.stored();
  Json state = Json::parse(stored.jobs.at(0).state);
  ASSERT_EQ(state.erase("sweep_first_version"), 1U);
  ASSERT_EQ(state.erase("wanted_clocks_mhz"), 1U);
  stored.jobs[0].state = state.dump();
  const auto restored = Job::restore(stored.jobs[0], stored, {}, training.now_s());
  EXPECT_EQ(restored->record().state(), JobState::running);
  EXPECT_NE(restored->record().profiling.own(), nullptr);
}

TEST(JobRestoreWhileDrifting, TakesNoProfileUpThatDriftHasPutOutOfDate) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(10);
  training.know({{profile_key(training.record()), training.record().profiling.own()}});
  training.slow_all(1.3);
  training.measures_nothing[1] = true;
  ASSERT_TRUE(training.run_until(JobState::profiling, 60));
  ASSERT_TRUE(training.run_until(JobState::observing, 2'000));
  const int version = training.record().plan_version();
  training.restart_server();
  training.run(10);
  EXPECT_EQ(training.record().state(), JobState::observing);
  EXPECT_EQ(training.record().plan_version(), version);
}

TEST(JobRestore, UsesNoNumberOfAPlanAgainThatCouldNotBeStored) {
  SimulatedJob training(small_job(2));
  training.train();
  int newest = training.record().plan_version();
  for (int round = 0; round < 3; ++round) {
    // The disk is full from here on, plans go on all the same; then the server is killed.
    const StoreContents on_disk = training.stored();
    for (int change = 0; training.record().plan_version() < newest + PlanDelivery::kReservedVersions; ++change) {
      (void)training.job().set(SlowdownTarget{change, 900}, training.now_s());
      training.settle();
      ASSERT_LT(change, 100);
    }
    newest = training.record().plan_version();
    training.restart_server(on_disk);
    (void)training.job().set(SlowdownTarget{round % 2 == 0 ? 3.5 : 7.5, 900}, training.now_s());
    training.settle();
    EXPECT_GT(training.record().plan_version(), newest);
    newest = training.record().plan_version();
  }
}

TEST(JobRestore, KnowsWhichDecisionsRanksHaveReported) {
  SimulatedJob training(small_job(2));
  training.register_all();
  const protocol::JobWork work{.layers = 24, .frozen_layers = 6, .precision = "bf16"};
  const protocol::RankDecisions reported{.rank = 1,
                                         .work = work,
                                         .decisions = {{.number = 3,
                                                        .age_s = 0,
                                                        .from_iteration = 12,
                                                        .technique = "freezing",
                                                        .change = "adopt",
                                                        .configuration = "x",
                                                        .reason = "y"}}};
  training.job().add_decisions(reported, training.now_s());
  training.settle();
  training.restart_server();
  EXPECT_EQ(training.record().work, work);
  training.job().add_decisions(reported, training.now_s());
  training.settle();
  EXPECT_THAT(training.reasons("technique"), SizeIs(1));
}

TEST(JobRestore, KnowsThatFiguresAreInvalid) {
  SimulatedJob training(small_job(2));
  training.register_all();
  training.job().add_decisions({.rank = 0,
                                .work = {},
                                .decisions = {{.number = 1,
                                               .age_s = 0,
                                               .from_iteration = 2,
                                               .technique = "simulated_gpu",
                                               .change = "invalid",
                                               .configuration = "",
                                               .reason = "short kernels"}}},
                               training.now_s());
  training.settle();
  training.restart_server();
  EXPECT_EQ(training.record().invalid, "short kernels");
}

TEST(JobRestore, LeavesDamagedRowsOut) {
  SimulatedJob training(small_job(2));
  training.train();
  training.run(10);
  StoreContents stored = training.stored();
  stored.reports.at(stored.reports.size() / 2).document.back() = '\x5d';
  stored.cells.at(0).document.front() = 'x';
  stored.plans.at(0).document.clear();
  std::vector<std::string> left_out;
  const auto restored = Job::restore(stored.jobs.at(0), stored, {}, training.now_s(), &left_out);
  EXPECT_EQ(restored->record().state(), training.record().state());
  EXPECT_EQ(restored->record().plan_version(), training.record().plan_version());
  EXPECT_THAT(left_out, SizeIs(3));
  for (StoredPlan& plan : stored.plans) plan.document.clear();
  EXPECT_THROW((void)Job::restore(stored.jobs.at(0), stored, {}, training.now_s()), InputError);
}

/// Ranks that report these iterations, one list a request.
class JobRestoreOfReports : public testing::Test {
 protected:
  void SetUp() override { training.register_all(); }
  void report(int rank, const std::vector<std::int64_t>& iterations, double later_s = 1) {
    protocol::RankReports reports{.rank = rank, .reports = {}, .gpu = {}};
    for (const std::int64_t iteration : iterations) {
      reports.reports.push_back(
          {.iteration = iteration, .plan_version = 0, .time_s = 1, .compute_s = 1, .energy_j = 100});
    }
    training.job().report(reports, now_s += later_s);
    training.settle();
  }
  /// As the store has them: a row of the same key replaces the older one.
  [[nodiscard]] StoreContents stored() const {
    StoreContents stored = training.stored();
    std::map<std::pair<std::int64_t, int>, StoredReports> rows;
    for (const StoredReports& row : stored.reports) rows[{row.first_iteration, row.rank}] = row;
    stored.reports.clear();
    for (const auto& [key, row] : rows) stored.reports.push_back(row);
    return stored;
  }
  /// The same job after a restart of the server; nothing may be left out.
  [[nodiscard]] std::unique_ptr<Job> restored() const {
    const StoreContents rows = stored();
    std::vector<std::string> left_out;
    auto job = Job::restore(rows.jobs.at(0), rows, {}, now_s, &left_out);
    EXPECT_THAT(left_out, testing::IsEmpty());
    return job;
  }
  void expect_the_same(const Job& job) const {
    for (int rank = 0; rank < training.record().ranks.size(); ++rank) {
      EXPECT_EQ(job.record().history.last_iteration(rank), training.record().history.last_iteration(rank)) << rank;
    }
    EXPECT_EQ(job.record().history.latest(), training.record().history.latest());
  }

  SimulatedJob training{small_job(2)};
  double now_s = training.now_s();
};

TEST_F(JobRestoreOfReports, KeepsWhatARankReportedFarAheadOfTheOthers) {
  report(0, {1'000'000'000'000});  // no other rank has reported yet
  for (std::int64_t i = 0; i < 5; ++i) report(1, {i});
  expect_the_same(*restored());
}

TEST_F(JobRestoreOfReports, KeepsWhatCameAfterALongSilence) {
  report(0, {0});
  report(1, {0});
  report(0, {900'000}, 3'600);
  report(1, {900'000});
  expect_the_same(*restored());
  EXPECT_EQ(restored()->record().history.latest(), 900'000);
}

TEST_F(JobRestoreOfReports, JudgesTheNextReportAsBefore) {
  report(0, {0});
  report(1, {0});
  const std::unique_ptr<Job> job = restored();
  protocol::RankReports absurd{.rank = 0, .reports = {}, .gpu = {}};
  absurd.reports.push_back(
      {.iteration = 1'000'000'000'000, .plan_version = 0, .time_s = 1, .compute_s = 1, .energy_j = {}});
  EXPECT_THROW(job->report(absurd, now_s + 100), InputError);
  EXPECT_THROW(training.job().report(absurd, now_s + 100), InputError) << "iterations longer than a minute";
}

TEST_F(JobRestoreOfReports, KeepsWhatARankReportedThatHasFailed) {
  report(0, {0, 1, 2, 3});
  report(1, {0, 1, 2});
  training.job().finish_rank(1, now_s, "OSError");
  training.settle();
  report(0, {4});
  const std::unique_ptr<Job> job = restored();
  EXPECT_EQ(job->record().ranks.find(1)->failure, "OSError");
  const auto& before = training.record().history.kept();
  const auto& after = job->record().history.kept();
  // It has not ended the other two.
  ASSERT_EQ(before.size(), 3U);
  ASSERT_EQ(after.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(after[i].energy_j, before[i].energy_j) << i;
  EXPECT_EQ(after[2].energy_j, 200);
}

TEST_F(JobRestoreOfReports, KeepsReportsThatAreSentAgainWithNewerOnes) {
  report(0, {5, 6, 7});
  report(1, {5, 6, 7});
  report(0, {5, 8});  // of the same first iteration as the row before
  report(1, {5, 6, 7, 8});
  expect_the_same(*restored());
  ASSERT_EQ(training.record().history.kept().size(), 4U);
  const std::unique_ptr<Job> job = restored();
  ASSERT_EQ(job->record().history.kept().size(), 4U);
  for (const JobIteration& iteration : job->record().history.kept()) EXPECT_EQ(iteration.energy_j, 200);
}

TEST(JobRestoreOfALostProfile, MeasuresAnother) {
  SimulatedJob other(small_job(2));
  other.train();
  SimulatedJob training(small_job(2));
  training.know({{profile_key(training.record()), other.record().profiling.own()}});
  training.register_all();
  ASSERT_EQ(training.record().state(), JobState::baseline);
  training.run(2);
  training.know({});
  training.restart_server();
  ASSERT_TRUE(training.run_until(JobState::profiling));
  EXPECT_TRUE(training.run_until(JobState::running));
}

/// A job whose ranks measure nothing: no profile can be made of that.
class JobRestoreWithoutAProfile : public testing::Test {
 protected:
  void SetUp() override {
    training.register_all();
    ASSERT_TRUE(training.run_until(JobState::profiling));
    while (training.record().state() == JobState::profiling) {
      const int version = training.record().plan_version();
      before = training.stored();
      for (int rank = 0; rank < 2; ++rank) {
        training.job().add_cells({.rank = rank, .plan_version = version, .cells = {}, .blocking = {}},
                                 training.now_s());
        training.settle();
      }
      ASSERT_LT(version, 50);
    }
    ASSERT_EQ(training.record().state(), JobState::observing);
  }

  SimulatedJob training{small_job(2)};
  StoreContents before;  ///< as stored before the last clock was measured
};

TEST_F(JobRestoreWithoutAProfile, ContinuesObserving) {
  const Json summary = summary_json(training.record());
  const int version = training.record().plan_version();
  training.restart_server();
  EXPECT_EQ(training.record().state(), JobState::observing);
  EXPECT_EQ(summary_json(training.record())["reason"], summary["reason"]);
  EXPECT_EQ(training.record().plan_version(), version);
  EXPECT_EQ(training.record().profiling.own(), nullptr);
}

TEST_F(JobRestoreWithoutAProfile, UsesOneThatAnotherJobHasMeasured) {
  SimulatedJob other(small_job(2));
  other.train();
  training.know({{profile_key(training.record()), other.record().profiling.own()}});
  training.restart_server();
  EXPECT_TRUE(training.run_until(JobState::running));
  training.restart_server();
  EXPECT_EQ(training.record().state(), JobState::running);
  EXPECT_FALSE(frontier_json(training.record())["vertices"].empty());
}

TEST_F(JobRestoreWithoutAProfile, ObservesWhenTheServerEndedBeforeItCouldSaySo) {
  StoreContents rows = training.stored();
  Json state = Json::parse(rows.jobs.at(0).state);
  state["state"] = "profiling";
  rows.jobs[0].state = state.dump();
  rows.plans = before.plans;
  const auto restored = Job::restore(rows.jobs[0], rows, {}, training.now_s());
  for (int rank = 0; restored->record().state() == JobState::profiling && rank < 2; ++rank) {
    restored->add_cells({.rank = rank, .plan_version = restored->record().plan_version(), .cells = {}, .blocking = {}},
                        training.now_s());
  }
  EXPECT_EQ(restored->record().state(), JobState::observing);
  EXPECT_EQ(summary_json(restored->record())["purpose"], "full_clocks");
}

}  // namespace
}  // namespace lowgear::server
