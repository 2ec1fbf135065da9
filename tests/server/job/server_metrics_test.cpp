#include "server/job/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/metrics/exposition_check.h"

namespace lowgear::server {

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobSnapshot running_job() {
  JobSnapshot job;
  job.job = "j-1";
  job.name = "llama \"1b\"";
  job.model = "llama";
  job.gpu = "NVIDIA A100";
  job.schedule = "1f1b";
  job.state = "running";
  job.ranks = 4;
  job.registered = 3;
  return job;
}

TEST(ServerMetrics, TellsWhereRanksRun) {
  Snapshot snapshot;
  snapshot.running = {running_job()};
  snapshot.running[0].places = {{2, "node-1", "GPU-7"}};
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_train_rank_info{job_id=\"j-1\",model=\"llama\",rank=\"2\",host=\"node-1\","
                              "uuid=\"GPU-7\"} 1\n"));
}

TEST(ServerMetrics, TellsOfJobsByState) {
  Snapshot snapshot;
  snapshot.jobs = {{"running", 2}, {"failed", 0}};
  snapshot.running = {running_job()};
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_server_jobs{state=\"running\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_server_jobs{state=\"failed\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_train_ranks{job_id=\"j-1\",model=\"llama\",state=\"registered\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("name=\"llama \\\"1b\\\"\""));
  EXPECT_THAT(text, HasSubstr("lowgear_build_info{version=\""));
}

TEST(ServerMetrics, IterationsAreCountedByPhase) {
  JobActivity activity;
  activity.iteration("baseline", 2.0, 100);
  activity.iteration("train", 2.5, 80);
  activity.iteration("train", 2.5, std::nullopt);
  Snapshot snapshot;
  snapshot.running = {running_job()};
  snapshot.running[0].activity = &activity;
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_train_steps_total{job_id=\"j-1\",model=\"llama\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_train_step_seconds_sum{job_id=\"j-1\",model=\"llama\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("lowgear_train_energy_joules_total{job_id=\"j-1\",model=\"llama\",phase=\"train\"} 80\n"));
  EXPECT_THAT(
      text, HasSubstr("lowgear_train_step_energy_joules_count{job_id=\"j-1\",model=\"llama\",phase=\"baseline\"} 1\n"));
}

TEST(ServerMetrics, DecisionsOfTheGuardAreCountedByAction) {
  JobActivity activity;
  Snapshot snapshot;
  snapshot.running = {running_job()};
  snapshot.running[0].activity = &activity;
  EXPECT_THAT(server_metrics(snapshot).text(), Not(HasSubstr("guard_decisions")));
  for (const char* action : {"step_back", "full_clocks", "step_back"}) activity.guard_decision(action);
  const std::string text = server_metrics(snapshot).text();
  const std::string series = "lowgear_train_guard_decisions_total{job_id=\"j-1\",model=\"llama\",action=";
  EXPECT_THAT(text, HasSubstr(series + "\"step_back\"} 2\n"));
  EXPECT_THAT(text, HasSubstr(series + "\"full_clocks\"} 1\n"));
}

TEST(ServerMetrics, PowerBudgetsAreThoseOfTheLastSplit) {
  Snapshot snapshot;
  snapshot.budgets = {{.name = "row", .watts = 5000, .planned_w = 4900, .assumed_w = 700, .price_per_w = 0.002}};
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_watts{budget=\"row\"} 5000\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_planned_watts{budget=\"row\"} 4900\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_assumed_watts{budget=\"row\"} 700\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_gpus_per_watt{budget=\"row\"} 0.002\n"));
}

TEST(ServerMetrics, NothingIsSavedWithoutABaselineAndItsError) {
  Snapshot snapshot;
  snapshot.running = {running_job()};
  JobSnapshot& job = snapshot.running[0];
  job.saved_ratio = 0.15;
  job.saved_error_ratio = 0.01;
  EXPECT_THAT(server_metrics(snapshot).text(), Not(HasSubstr("saved")));
  job.baseline = JobSnapshot::Baseline{2.0, 100};
  job.saved_error_ratio.reset();
  EXPECT_THAT(server_metrics(snapshot).text(), Not(HasSubstr("saved")));
  job.saved_error_ratio = 0.01;
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_train_saved_energy_ratio{job_id=\"j-1\",model=\"llama\","
                              "method=\"measured_baseline\"} 0.15\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_train_saved_energy_error_ratio{"));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_train_slowdown_error_ratio{")));
  EXPECT_THAT(text, HasSubstr("lowgear_train_baseline_step_joules{job_id=\"j-1\",model=\"llama\"} 100\n"));
}

TEST(ServerMetrics, TellsWhatJobsWorkOnWhereThatIsKnown) {
  Snapshot snapshot;
  snapshot.running = {running_job()};
  EXPECT_THAT(server_metrics(snapshot).text(), Not(HasSubstr("job_id=\"j-1\",model=\"llama\",precision")));
  EXPECT_THAT(server_metrics(snapshot).text(), Not(HasSubstr("lowgear_train_layers{")));
  snapshot.running[0].work = protocol::JobWork{.layers = 24, .frozen_layers = 6, .precision = "bf16"};
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_train_layers{job_id=\"j-1\",model=\"llama\"} 24\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_train_frozen_layers{job_id=\"j-1\",model=\"llama\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_train_precision_info{job_id=\"j-1\",model=\"llama\",precision=\"bf16\"} 1\n"));
}

TEST(ServerMetrics, DecisionsOfProgramsHaveBoundedLabels) {
  Activity activity;
  activity.reported_decision("freezing", "adopt");
  for (std::size_t i = 0; i < Activity::kMaxReported + 5; ++i) {
    activity.reported_decision("mine", "change_" + std::to_string(i));
  }
  activity.reported_decision("freezing", "adopt");
  EXPECT_EQ(activity.decisions().size(), Activity::kMaxReported + 1);
  Snapshot snapshot;
  snapshot.activity = &activity;
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, HasSubstr("lowgear_control_decisions_total{actuator=\"freezing\",action=\"adopt\","
                              "outcome=\"reported\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_control_decisions_total{actuator=\"other\",action=\"other\","
                              "outcome=\"reported\"} 6\n"));
}

TEST(ServerMetrics, RequestsPlansAndDecisionsAreCounted) {
  Activity activity;
  activity.request("GET", "/v1/jobs/{job}", 200, 0.003);
  activity.request("GET", "/v1/jobs/{job}", 200, 0.5);
  activity.request("GET", "/v1/jobs/{job}/plan", 204, std::nullopt);
  activity.plan("quick", 0.02);
  activity.decision("straggler", "applied");
  Snapshot snapshot;
  snapshot.activity = &activity;
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text,
              HasSubstr("lowgear_server_requests_total{method=\"GET\",route=\"/v1/jobs/{job}\",code=\"200\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_server_request_seconds_count{route=\"/v1/jobs/{job}\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("lowgear_server_request_seconds_count{route=\"/v1/jobs/{job}/plan\"}")));
  EXPECT_THAT(text, HasSubstr("lowgear_server_plan_seconds_count{kind=\"quick\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_control_decisions_total{actuator=\"clock\",action=\"straggler\","
                              "outcome=\"applied\"} 1\n"));
}

TEST(ServerMetrics, BudgetsShowWhatIsMeasuredAndHeldWhereThatIsKnown) {
  Snapshot snapshot;
  snapshot.budgets.resize(2);
  snapshot.budgets[0].name = "row-1";
  snapshot.budgets[1].name = "row-2";
  snapshot.budgets[1].measured_w = 400.5;
  snapshot.budgets[1].measured_gpus = 2;
  snapshot.budgets[1].held = BudgetSnapshot::Held{.watts = 1'000, .nodes = 5, .silent_nodes = 2};
  snapshot.heard_nodes = 3;
  snapshot.silent_nodes = 2;
  const std::string text = server_metrics(snapshot).text();
  EXPECT_THAT(text, Not(HasSubstr("measured_watts{budget=\"row-1\"}")));
  EXPECT_THAT(text, Not(HasSubstr("held_watts{budget=\"row-1\"}")));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_measured_watts{budget=\"row-2\"} 400.5\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_measured_gpus{budget=\"row-2\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_held_watts{budget=\"row-2\"} 1000\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_power_budget_nodes{budget=\"row-2\",state=\"heard\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("lowgear_server_nodes{state=\"silent\"} 2\n"));
  EXPECT_THAT(text, Not(HasSubstr("certificate")));
  snapshot.certificate_expires_s = 2e9;
  EXPECT_THAT(server_metrics(snapshot).text(), HasSubstr("lowgear_server_certificate_expiry_seconds 2000000000\n"));
}

TEST(ServerMetrics, EverySampleStandsUnderItsTypeAndNoneComesTwice) {
  Activity activity;
  activity.request("GET", "/", 200, 0.1);
  activity.plan("plan", 1);
  JobActivity iterations;
  iterations.iteration("train", 1, 1);
  Snapshot snapshot;
  snapshot.activity = &activity;
  snapshot.running = {running_job(), running_job()};
  snapshot.running[1].job = "j-2";
  for (JobSnapshot& job : snapshot.running) {
    job.activity = &iterations;
    job.work = protocol::JobWork{.layers = 24, .frozen_layers = 6, .precision = "bf16"};
  }
  EXPECT_GT(metrics::expect_samples_in_families(server_metrics(snapshot).text()), 60U);
}

std::vector<BudgetSnapshot> budgets(double watts, double planned_w) {
  std::vector<BudgetSnapshot> all(1);
  all[0].name = "row-1";
  all[0].watts = watts;
  all[0].planned_w = planned_w;
  return all;
}

TEST(BudgetHistory, HasARowAMinuteAndOneForEachChange) {
  BudgetHistory history;
  EXPECT_EQ(history.due(budgets(100, 90), 1000.5).size(), 1U);
  EXPECT_EQ(history.due(budgets(100, 95), 1059).size(), 0U);
  EXPECT_EQ(history.due(budgets(100, 95), 1060.5).size(), 1U);
  EXPECT_EQ(history.due(budgets(80, 80), 1061).size(), 1U);
  EXPECT_EQ(history.due(budgets(80, 81), 1062).size(), 1U);
  EXPECT_EQ(history.due(budgets(80, 82), 1063).size(), 0U);
  EXPECT_EQ(history.due({}, 1064).size(), 0U);
  EXPECT_EQ(history.due(budgets(80, 82), 1065).size(), 1U);  // there was none meanwhile
}

TEST(BudgetHistory, ARowIsWhatIsKnown) {
  std::vector<BudgetSnapshot> all = budgets(100, 110);
  all[0].assumed_w = 7;
  all[0].measured_w = 60;
  all[0].measured_gpus = 3.0000001;
  all[0].held = BudgetSnapshot::Held{.watts = 120, .nodes = 2, .silent_nodes = 1};
  const StoredBudgetUse row = BudgetHistory().due(all, 1000.9).at(0);
  EXPECT_EQ(row.time_s, 1000);
  EXPECT_EQ(row.budget, "row-1");
  EXPECT_EQ(row.limit_w, 100);
  EXPECT_EQ(row.planned_w, 110);
  EXPECT_EQ(row.assumed_w, 7);
  EXPECT_EQ(row.measured_w, 60);
  EXPECT_EQ(row.measured_gpus, 3);
  EXPECT_EQ(row.held_w, 120);
  EXPECT_FALSE(row.kept);
}

TEST(BudgetHistory, ManyBudgetsAreWrittenLessOften) {
  std::vector<BudgetSnapshot> all(300);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = std::to_string(i);
    all[i].watts = 100;
  }
  BudgetHistory history;
  EXPECT_EQ(history.due(all, 0).size(), 300U);
  EXPECT_EQ(history.due(all, 179).size(), 0U);
  EXPECT_EQ(history.due(all, 180).size(), 300U);
}

}  // namespace

}  // namespace lowgear::server
