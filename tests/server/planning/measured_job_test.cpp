#include "server/planning/measured_job.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/progress.h"
#include "planning/profile/example_profile.h"
#include "rivals/policies/published_policies.h"
#include "server/planning/planning_threads.h"
#include "server/simulated_job.h"
#include "server/test_loop.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

/// Cells of the profile that a simulated job's stages have, at some clocks.
std::shared_ptr<const PipelineModel> model(int pp, int dp, std::size_t clocks, double error = 1e-4,
                                           int microbatches = 6) {
  const profile::StageProfile truth = modelled_profile(profile::ExampleGpu{}, profile::TransformerModel{.stages = pp});
  PipelineModel model;
  model.parallel = {.pp = pp, .dp = dp, .tp = 1, .chunks = 1};
  model.schedule = make_schedule(small_job(pp, dp, microbatches));
  model.gpu = "A100";
  for (int stage = 0; stage < pp; ++stage) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
      const auto rows = truth.measurements(stage, kind);
      for (std::size_t i = 0; i < clocks; ++i) {
        const profile::Measurement& row = rows[i * (rows.size() - 1) / (clocks - 1)];
        model.measured.cells.push_back({.stage = stage,
                                        .kind = kind,
                                        .clock_mhz = row.clock_mhz,
                                        .units = 30,
                                        .time_s = row.time_s,
                                        .time_error_s = row.time_s * error,
                                        .energy_j = row.energy_j,
                                        .energy_error_j = row.energy_j * error});
      }
    }
    model.measured.blocking.push_back({.stage = stage, .power_w = 75, .error_w = 0.5});
  }
  for (const profile::Measurement& row : truth.measurements(0, OpKind::forward))
    model.clocks_mhz.push_back(row.clock_mhz);
  std::ranges::sort(model.clocks_mhz, std::greater<>());
  return std::make_shared<const PipelineModel>(std::move(model));
}

int highest_clock(const plan::Plan& plan) {
  int highest = 0;
  for (const auto& ops : plan.ranks) {
    for (const plan::PlannedOp& op : ops) highest = std::max(highest, op.clock_mhz);
  }
  return highest;
}

TEST(MeasuredJob, SavesEnergyWithoutTakingLonger) {
  MeasuredJob planner(model(4, 1, 6));
  const JobPlan plan = planner.plan({}).plan;
  EXPECT_NEAR(plan.time_s, plan.fastest_time_s, plan.fastest_time_s * 1e-6);
  EXPECT_EQ(plan.full_clock_scale, 1);
  ASSERT_FALSE(plan.frontier.empty());
  EXPECT_TRUE(std::ranges::is_sorted(plan.frontier));
  EXPECT_EQ(plan.expected_compute_s.at(0).size(), 4U);
  EXPECT_FALSE(plan.plans.at(0).simulated);
}

TEST(MeasuredJob, SaysThatAProfileIsOfSimulatedGpus) {
  PipelineModel simulated = *model(2, 1, 6);
  simulated.measured.simulated = true;
  const MeasuredJob planner(std::make_shared<const PipelineModel>(simulated));
  EXPECT_TRUE(planner.plan({}).plan.plans.at(0).simulated);
}

TEST(MeasuredJob, RefusesACellThatNoGpuCanHaveRun) {
  PipelineModel wrong = *model(2, 1, 6);
  wrong.measured.cells[2].energy_j *= 1000;
  EXPECT_THAT(error_of([&] { MeasuredJob(std::make_shared<const PipelineModel>(wrong)); }),
              testing::AllOf(HasSubstr("the profile cannot be right: stage 0 forward at"),
                             HasSubstr("more than any GPU draws; profile again")));
}

TEST(MeasuredJob, SaysThatAProfileIsInDoubtAndAPlanFasterThanFullClocks) {
  EXPECT_EQ(MeasuredJob(model(2, 1, 6)).plan({}).doubts, "");
  PipelineModel wrong = *model(2, 1, 6);
  for (protocol::ProfileCell& cell : wrong.measured.cells) {
    if (cell.clock_mhz == wrong.measured.cells[1].clock_mhz) cell.time_s *= 0.5;
  }
  EXPECT_THAT(MeasuredJob(std::make_shared<const PipelineModel>(wrong)).plan({}).doubts,
              testing::AllOf(testing::StartsWith("figures of the plan may be wrong: stage 0 forward at"),
                             HasSubstr("; and 2 more"), HasSubstr("of all clocks at their highest")));
}

/// One stage: its units run one after the other, and nothing waits.
TEST(MeasuredJob, FindsAProfileThatContradictsIterationsAtFullClocks) {
  const auto of = model(1, 3, 6);
  const MeasuredJob planner(of);
  FullClockIteration exact;
  for (const protocol::ProfileCell& cell : of->measured.cells) {
    if (cell.clock_mhz != of->clocks_mhz.front()) continue;
    exact.time_s += 6 * cell.time_s;
    exact.energy_j += 3 * 6 * cell.energy_j;
  }
  exact.energy_error_j = 0.001 * exact.energy_j;
  const auto contradicts = [&](double longer_s, double more_j, double error_j) {
    return !planner
                .contradiction(
                    {.time_s = exact.time_s + longer_s, .energy_j = exact.energy_j + more_j, .energy_error_j = error_j})
                .empty();
  };
  EXPECT_FALSE(contradicts(0, 0, exact.energy_error_j));
  EXPECT_TRUE(contradicts(0, 0.15 * exact.energy_j, exact.energy_error_j));
  EXPECT_TRUE(contradicts(0, -0.15 * exact.energy_j, exact.energy_error_j));
  EXPECT_FALSE(contradicts(0, 0.15 * exact.energy_j, 0.06 * exact.energy_j)) << "within three errors";
  EXPECT_FALSE(contradicts(exact.time_s, 3 * 75 * exact.time_s, exact.energy_error_j)) << "it waits as long again";
  EXPECT_FALSE(contradicts(exact.time_s, exact.energy_j, exact.energy_error_j)) << "it works as long again";
  EXPECT_TRUE(contradicts(10 * exact.time_s, 0, exact.energy_error_j)) << "waiting takes power";
  EXPECT_THAT(planner.contradiction({.time_s = exact.time_s, .energy_j = 1, .energy_error_j = 0}),
              HasSubstr("and 1 J ± 0 J were measured"));
}

TEST(MeasuredJob, HasAgentsAskAheadWhereClocksChangeLate) {
  PipelineModel late = *model(4, 1, 6);
  late.switch_latency_s = 0.025;
  const JobPlan plan = MeasuredJob(std::make_shared<const PipelineModel>(late)).plan({}).plan;
  const JobPlan at_once = MeasuredJob(model(4, 1, 6)).plan({}).plan;
  EXPECT_EQ(plan.energy_j, at_once.energy_j);
  EXPECT_EQ(plan.plans.front().clock_lead_s, 0.025);
  EXPECT_EQ(at_once.plans.front().clock_lead_s, 0);
}

TEST(MeasuredJob, TradesTimeForEnergyAsFarAsItMay) {
  MeasuredJob planner(model(2, 1, 6));
  const JobPlan fastest = planner.plan({}).plan;
  const JobPlan slower = planner.plan({.request = {.slowdown_pct = 10}}).plan;
  EXPECT_LT(slower.energy_j, fastest.energy_j);
  EXPECT_LE(slower.time_s, fastest.time_s * 1.10 * (1 + 1e-9));
}

const plan::Plan& first_plan(const JobPlan& plan) { return plan.plans.front(); }

TEST(MeasuredJob, PlansByPerseusPolicyAndNoBetterThanLowgears) {
  MeasuredJob planner(model(4, 1, 6));
  for (const double slowdown_pct : {0.0, 15.0}) {
    PlanningConditions conditions{.request = {.slowdown_pct = slowdown_pct}};
    const JobPlan lowgears = planner.plan(conditions).plan;
    conditions.request.policy = "perseus";
    conditions.request.policies = policies::published_policies();
    EXPECT_FALSE(planner.quick_plan(conditions));
    const JobPlan perseus = planner.plan(conditions).plan;
    EXPECT_EQ(first_plan(perseus).policy, "perseus");
    EXPECT_THAT(perseus.note, HasSubstr("policy perseus: plans on fitted curves"));
    // Its times are rounded down to a millisecond, on each of some twenty ops of the critical path.
    EXPECT_LE(perseus.time_s, lowgears.time_s + 0.03);
    PlanningConditions as_slow{.request = {.slowdown_pct = (perseus.time_s / perseus.fastest_time_s - 1) * 100 + 1e-6}};
    EXPECT_GE(perseus.energy_j * 1.002, planner.plan(as_slow).plan.energy_j);
    EXPECT_EQ(perseus.expected_compute_s.at(0).size(), 4U);
  }
}

TEST(MeasuredJob, LetsReplicasOfPerseusPolicyWaitSlowlyForAStraggler) {
  MeasuredJob planner(model(2, 3, 6));
  PlanningConditions conditions;
  conditions.request.policy = "perseus";
  conditions.request.policies = policies::published_policies();
  conditions.request.slow.push_back({.replica = 1, .rank = 0, .factor = 1.3});
  const JobPlan plan = planner.plan(conditions).plan;
  ASSERT_EQ(plan.plans.size(), 2U);
  const auto busy = [&](int replica) {
    return plan.expected_compute_s.at(static_cast<std::size_t>(plan.plan_of_replica[replica]))[0];
  };
  EXPECT_GT(busy(0), busy(1));
}

TEST(MeasuredJob, DecidesAsEnvPipeOnSimulatedIterationsWhereRanksReportNoWaits) {
  const auto of = model(4, 1, 6);
  MeasuredJob planner(of);
  PlanningConditions conditions;
  conditions.request.policy = "envpipe";
  conditions.request.policies =
      policies::published_policies({.envpipe = {.order = policies::EnvPipeOptions::Order::given}});
  const PlannedJob planned = planner.plan(conditions);
  const JobPlan& plan = planned.plan;
  EXPECT_EQ(first_plan(plan).policy, "envpipe");
  EXPECT_THAT(plan.note, HasSubstr("policy envpipe: settles after"));
  EXPECT_FALSE(planned.envpipe) << "nothing of it is decided while the job runs";
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto& ops = first_plan(plan).ranks[rank];
    ASSERT_EQ(ops.size(), of->schedule.ranks[rank].size());
    for (std::size_t op = 0; op < ops.size(); ++op) {
      EXPECT_EQ(ops[op].kind, of->schedule.ranks[rank][op].op) << "the order is that of the ranks";
    }
  }
}

TEST(MeasuredJob, SaysWhatOrderTheProfilesTimesAskFor) {
  PipelineModel model;
  model.parallel = {.pp = 4, .dp = 1, .tp = 1, .chunks = 1};
  protocol::JobSpec spec = small_job(4, 1, 8);
  spec.schedule = "envpipe";
  model.schedule = make_schedule(spec);
  model.clocks_mhz = {1400, 1000};
  for (int stage = 0; stage < 4; ++stage) {
    for (const auto& [kind, times] : {std::pair{OpKind::forward, 1.0}, {OpKind::backward, 2.0}}) {
      for (const auto& [clock, longer, joules] : {std::tuple{1400, 1.0, 300.0}, {1000, 1.3, 100.0}}) {
        model.measured.cells.push_back({.stage = stage,
                                        .kind = kind,
                                        .clock_mhz = clock,
                                        .units = 9,
                                        .time_s = times * longer,
                                        .time_error_s = 1e-6,
                                        .energy_j = joules * times,
                                        .energy_error_j = 1e-6});
      }
    }
    model.measured.blocking.push_back({.stage = stage, .power_w = 75, .error_w = 0.5});
  }
  MeasuredJob planner(std::make_shared<const PipelineModel>(model));
  PlanningConditions conditions;
  EXPECT_FALSE(planner.plan(conditions).order);
  conditions.early_forwards = early_forwards(spec);
  EXPECT_EQ(conditions.early_forwards, (std::vector<int>{4, 4, 2, 0}));
  // floor(2 * 3 / 1.3), floor(2 * 2 / 1.3), floor(2 / 1.3): forwards at the clock of least energy.
  EXPECT_EQ(planner.plan(conditions).order->wanted, (std::vector<int>{4, 3, 1, 0}));
  EXPECT_EQ(planner.plan(conditions).order->fitting, (std::vector<int>{4, 3, 1, 0}));
  conditions.early_forwards = {2, 2, 0, 0};
  EXPECT_EQ(planner.plan(conditions).order->fitting, (std::vector<int>{2, 2, 0, 0})) << "no activation more";
  spec.early_forwards = {3, 1, 1, 0};
  EXPECT_EQ(early_forwards(spec), spec.early_forwards);
  EXPECT_TRUE(early_forwards(small_job(4)).empty());
}

TEST(MeasuredJob, LetsReplicasWaitSlowlyForAStraggler) {
  MeasuredJob planner(model(2, 3, 6));
  const JobPlan before = planner.plan({}).plan;
  EXPECT_EQ(before.plans.size(), 1U);
  PlanningConditions conditions;
  conditions.request.slow.push_back({.replica = 1, .rank = 0, .factor = 1.3});
  for (const bool quick : {true, false}) {
    std::optional<JobPlan> plan;
    if (quick) {
      auto made = planner.quick_plan(conditions);
      ASSERT_TRUE(made);
      plan = std::move(made->plan);
    } else {
      plan = planner.plan(conditions).plan;
    }
    ASSERT_EQ(plan->plans.size(), 2U);
    EXPECT_EQ(plan->plan_of_replica[0], plan->plan_of_replica[2]);
    EXPECT_NE(plan->plan_of_replica[0], plan->plan_of_replica[1]);
    EXPECT_GT(plan->full_clock_scale, 1);
    EXPECT_LE(plan->time_s, plan->fastest_time_s * (1 + 1e-6));
    const auto busy = [&](int replica) {
      return plan->expected_compute_s.at(static_cast<std::size_t>(plan->plan_of_replica[replica]))[0];
    };
    EXPECT_GT(busy(0), busy(1));  // those that wait run slower
  }
}

TEST(MeasuredJob, KeepsACapOfEachScope) {
  const auto of = model(2, 2, 6);
  using api::CapScope;
  for (const CapScope scope : {CapScope::gpu, CapScope::node, CapScope::job}) {
    MeasuredJob planner(of);
    const double gpus = scope == CapScope::gpu ? 1 : scope == CapScope::node ? 2 : 4;
    PlanningConditions conditions;
    conditions.request.power_cap = PowerCap{.scope = scope, .watts = 230 * gpus, .swing_w = {}};
    conditions.request.node_of_gpu = {{0, 0}, {1, 1}};
    const JobPlan capped = planner.plan(conditions).plan;
    const JobPlan free = planner.plan({}).plan;
    EXPECT_GT(capped.time_s, free.time_s) << name(scope);
    EXPECT_LT(highest_clock(capped.plans[0]), of->clocks_mhz.front()) << name(scope);
    conditions.request.power_cap->watts = 3 * gpus;
    EXPECT_THAT(error_of([&] { (void)planner.plan(conditions); }), HasSubstr(" W")) << name(scope);
  }
}

TEST(MeasuredJob, WantsMoreClocksWhereThePlanIsUncertain) {
  EXPECT_TRUE(MeasuredJob(model(2, 1, 8, 1e-5)).judge_profile({}).more_clocks_mhz.empty());
  const ProfileVerdict uncertain = MeasuredJob(model(2, 1, 4, 0.05)).judge_profile({});
  EXPECT_FALSE(uncertain.more_clocks_mhz.empty());
  EXPECT_GT(uncertain.energy_error_pct, 0.5);
  EXPECT_FALSE(uncertain.reason.empty());
}

TEST(MeasuredJob, RefusesAProfileThatLacksWhatTheScheduleNeeds) {
  PipelineModel lacking = *model(2, 1, 6);
  std::erase_if(lacking.measured.cells,
                [](const protocol::ProfileCell& cell) { return cell.kind == OpKind::backward; });
  EXPECT_THROW(MeasuredJob(std::make_shared<const PipelineModel>(lacking)), InputError);
  lacking = *model(2, 1, 6);
  lacking.measured.blocking.pop_back();
  EXPECT_THROW(MeasuredJob(std::make_shared<const PipelineModel>(lacking)), InputError);
}

/// Stops the planner at its n-th report, once; counts them.
class StopAt final : public Progress {
 public:
  explicit StopAt(int report) : report_(report) {}
  void update(std::string_view /*activity*/, double /*fraction*/) override {
    if (reports_++ == report_) throw Stopped();
  }
  [[nodiscard]] int reports() const { return reports_; }

 private:
  int report_;
  int reports_ = 0;
};

TEST(MeasuredJob, CanBeStoppedInAllThatItDoes) {
  const auto of = model(2, 2, 6);
  PlanningConditions capped;
  capped.request.power_cap = PowerCap{.scope = api::CapScope::job, .watts = 900, .swing_w = {}};
  capped.request.node_of_gpu = {{0, 0}, {1, 1}};
  for (const int reports : {0, 1, 50}) {
    EXPECT_THROW((void)MeasuredJob(of, std::make_shared<StopAt>(reports)).plan({}), Stopped) << reports;
    EXPECT_THROW((void)MeasuredJob(of, std::make_shared<StopAt>(reports)).plan(capped), Stopped) << reports;
    EXPECT_THROW((void)MeasuredJob(of, std::make_shared<StopAt>(reports)).judge_profile({}), Stopped) << reports;
  }
}

TEST(MeasuredJob, PlansAsWellAfterItWasStopped) {
  const auto of = model(4, 1, 6);
  const auto counter = std::make_shared<StopAt>(-1);
  const JobPlan wanted = MeasuredJob(of, counter).plan({}).plan;
  for (const int tenths : {2, 5, 9}) {
    MeasuredJob planner(of, std::make_shared<StopAt>(counter->reports() * tenths / 10));
    EXPECT_THROW((void)planner.plan({}), Stopped);
    EXPECT_EQ(planner.plan({}).plan.energy_j, wanted.energy_j) << tenths;
  }
}

TEST(MeasuredJob, TakesWhatWasSolvedForAnAlikeJob) {
  const auto solved = std::make_shared<SolvedPipelines>();
  const auto first = std::make_shared<StopAt>(-1);
  const JobPlan wanted = MeasuredJob(model(4, 1, 6), first, solved).plan({}).plan;
  const auto second = std::make_shared<StopAt>(-1);
  MeasuredJob alike(model(4, 3, 6), second, solved);
  const JobPlan plan = alike.plan({}).plan;
  EXPECT_LT(second->reports(), first->reports() / 10);
  EXPECT_EQ(plan.frontier, wanted.frontier);
  EXPECT_EQ(plan.time_s, wanted.time_s);
  EXPECT_DOUBLE_EQ(plan.energy_j, 3 * wanted.energy_j);
  PlanningConditions slower;
  slower.request.slowdown_pct = 10;
  EXPECT_TRUE(alike.quick_plan(slower)->is_best);
}

TEST(PipelineFingerprint, IsThatOfThePipeline) {
  EXPECT_EQ(fingerprint(*model(2, 1, 6)), fingerprint(*model(2, 3, 6)));
  EXPECT_NE(fingerprint(*model(2, 1, 6)), fingerprint(*model(2, 1, 7)));
  EXPECT_NE(fingerprint(*model(2, 1, 6)), fingerprint(*model(2, 1, 6, 1e-4, 7)));
  PipelineModel other = *model(2, 1, 6);
  other.measured.blocking.back().power_w += 1;
  EXPECT_NE(fingerprint(*model(2, 1, 6)), fingerprint(other));
}

PlanningTask task(const std::string& job, std::uint64_t serial, std::shared_ptr<const PipelineModel> of) {
  PlanningTask task;
  task.job = job;
  task.serial = serial;
  task.model = std::move(of);
  task.reason = "because";
  return task;
}

TEST(PlanningThreads, AnswerOnTheServersThread) {
  TestLoop loop;
  PlanningThreads threads(2, loop.post());
  const auto of = model(2, 1, 6);
  std::vector<PlanningAnswer> answers;
  for (int job = 0; job < 4; ++job) {
    threads.submit(task("j-" + std::to_string(job), 7, of), [&](PlanningAnswer answer) { answers.push_back(answer); });
  }
  ASSERT_TRUE(loop.run_until([&] { return answers.size() == 4; }));
  for (const PlanningAnswer& answer : answers) {
    EXPECT_EQ(answer.serial, 7U);
    EXPECT_EQ(answer.reason, "because");
    EXPECT_TRUE(answer.planned);
    EXPECT_EQ(answer.error, "");
  }
}

TEST(PlanningThreads, SayWhyThereIsNoPlan) {
  TestLoop loop;
  PlanningThreads threads(1, loop.post());
  PipelineModel lacking = *model(2, 1, 6);
  lacking.measured.blocking.clear();
  std::optional<PlanningAnswer> answer;
  threads.submit(task("j", 1, std::make_shared<const PipelineModel>(lacking)),
                 [&](PlanningAnswer told) { answer = std::move(told); });
  ASSERT_TRUE(loop.run_until([&] { return answer.has_value(); }));
  EXPECT_THAT(answer->error, HasSubstr("blocking power"));
}

TEST(PlanningThreads, DoTheNewestOfAJobsTasks) {
  TestLoop loop;
  PlanningThreads threads(1, loop.post());
  const auto of = model(4, 1, 6);
  std::vector<std::uint64_t> serials;
  for (std::uint64_t serial = 1; serial <= 50; ++serial) {
    threads.submit(task("j", serial, of), [&](const PlanningAnswer& answer) { serials.push_back(answer.serial); });
  }
  ASSERT_TRUE(loop.run_until([&] { return !serials.empty() && std::ranges::max(serials) == 50; }));
  EXPECT_LT(serials.size(), 50U);
}

/// Whether a straggler that is new gets a preliminary plan: that takes what was solved for the job before.
bool has_quick_plan(TestLoop& loop, PlanningThreads& threads, const std::string& job, double factor,
                    const std::shared_ptr<const PipelineModel>& of) {
  PlanningTask straggler = task(job, 2, of);
  straggler.conditions.request.slow = {{.replica = 0, .rank = 1, .factor = factor}};
  straggler.quick_first = true;
  std::vector<bool> preliminary;
  threads.submit(std::move(straggler),
                 [&](const PlanningAnswer& answer) { preliminary.push_back(answer.preliminary); });
  EXPECT_TRUE(loop.run_until([&] { return !preliminary.empty() && !preliminary.back(); }));
  return preliminary.size() == 2;
}

TEST(PlanningThreads, KeepWhatWasSolvedForManyJobsUntilTheyAreOver) {
  TestLoop loop;
  PlanningThreads threads(2, loop.post());
  const auto of = model(2, 2, 6);
  constexpr int kJobs = 20;
  int planned = 0;
  for (int job = 0; job < kJobs; ++job) {
    threads.submit(task(std::to_string(job), 1, of), [&](const PlanningAnswer&) { ++planned; });
  }
  ASSERT_TRUE(loop.run_until([&] { return planned == kJobs; }));
  EXPECT_TRUE(has_quick_plan(loop, threads, "0", 1.3, of));
  EXPECT_TRUE(has_quick_plan(loop, threads, std::to_string(kJobs - 1), 1.35, of));
  threads.forget(std::to_string(kJobs - 1));
  EXPECT_FALSE(has_quick_plan(loop, threads, std::to_string(kJobs - 1), 1.4, of));
}

/// Takes a minute to plan for.
std::shared_ptr<const PipelineModel> slow_model() { return model(16, 1, 6, 1e-4, 4096); }
/// Has as many units as belong to jobs that take long, and is planned for at once.
std::shared_ptr<const PipelineModel> large_model() { return model(1, 1, 6, 1e-4, 12'000); }

/// The jobs that were answered, in order.
class Answered {
 public:
  [[nodiscard]] PlanningService::Done note(const std::string& job) {
    return [this, job](const PlanningAnswer& answer) {
      jobs_.push_back(fmt::format("{} {}", job, answer.serial));
      errors_.push_back(answer.error);
    };
  }
  [[nodiscard]] const std::vector<std::string>& jobs() const { return jobs_; }
  [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }

 private:
  std::vector<std::string> jobs_;
  std::vector<std::string> errors_;
};

TEST(PlanningThreads, HoldNoJobUpForALargeOne) {
  TestLoop loop;
  Answered answered;
  PlanningThreads threads(1, loop.post());
  threads.submit(task("slow", 1, slow_model()), answered.note("slow"));
  const auto of = model(2, 1, 6);
  for (int job = 0; job < 3; ++job) {
    threads.submit(task(std::to_string(job), 1, of), answered.note(std::to_string(job)));
  }
  ASSERT_TRUE(loop.run_until([&] { return answered.jobs().size() == 3; }));
  EXPECT_THAT(answered.jobs(), testing::ElementsAre("0 1", "1 1", "2 1"));
}

TEST(PlanningThreads, SayThatPlanningTookTooLong) {
  TestLoop loop;
  Answered answered;
  PlanningThreads threads(1, loop.post(), {.slice_s = 1e-6, .limit_s = 1e-6});
  threads.submit(task("large", 1, slow_model()), answered.note("large"));
  threads.submit(task("small", 1, model(4, 1, 6)), answered.note("small"));
  ASSERT_TRUE(loop.run_until([&] { return answered.jobs().size() == 2; }));
  for (const std::string& error : answered.errors()) EXPECT_THAT(error, HasSubstr("planning_limit_s"));
  EXPECT_THAT(answered.errors(), testing::Contains(HasSubstr("131072 units")));
}

TEST(PlanningThreads, GiveATaskThatOutlastsItsSliceMoreTime) {
  TestLoop loop;
  Answered answered;
  PlanningThreads threads(1, loop.post(), {.slice_s = 1e-6});
  for (std::uint64_t serial = 1; serial <= 2; ++serial) {
    threads.submit(task("j", serial, model(4, 1, 6)), answered.note("j"));
    ASSERT_TRUE(loop.run_until([&] { return answered.jobs().size() == serial; }));
  }
  EXPECT_THAT(answered.errors(), testing::Each(""));
}

TEST(PlanningThreads, SolveOnceWhatManyJobsHave) {
  TestLoop loop;
  // Each begins with too little time for it.
  PlanningThreads threads(2, loop.post(), {.slice_s = 1e-6});
  constexpr int kJobs = 8;
  std::vector<PlanningAnswer> answers;
  for (int job = 0; job < kJobs; ++job) {
    threads.submit(task(std::to_string(job), 1, model(4, 1 + job, 6)),
                   [&](const PlanningAnswer& answer) { answers.push_back(answer); });
  }
  ASSERT_TRUE(loop.run_until([&] { return answers.size() == kJobs; }));
  for (const PlanningAnswer& answer : answers) {
    ASSERT_EQ(answer.error, "");
    EXPECT_EQ(answer.planned->plan.frontier, answers.front().planned->plan.frontier);
  }
}

TEST(PlanningThreads, SolveForTheNextJobWhereTheFirstOneIsOver) {
  TestLoop loop;
  Answered answered;
  PlanningThreads threads(1, loop.post());
  threads.submit(task("first", 1, slow_model()), answered.note("first"));
  threads.submit(task("second", 1, slow_model()), answered.note("second"));
  threads.forget("first");
  threads.forget("second");
  threads.submit(task("third", 1, model(2, 1, 6)), answered.note("third"));
  ASSERT_TRUE(loop.run_until([&] { return answered.jobs().size() == 1; }));
  EXPECT_THAT(answered.jobs(), testing::ElementsAre("third 1"));
}

TEST(PlanningThreads, StopWhatIsPlannedForAJobThatIsOver) {
  TestLoop loop;
  Answered answered;
  PlanningThreads threads(1, loop.post());
  threads.submit(task("slow", 1, slow_model()), answered.note("slow"));
  // These wait for it, and keep their places.
  const auto of = large_model();
  threads.submit(task("b", 1, of), answered.note("b"));
  threads.submit(task("c", 1, of), answered.note("c"));
  threads.submit(task("b", 2, of), answered.note("b"));
  threads.forget("slow");
  ASSERT_TRUE(loop.run_until([&] { return answered.jobs().size() == 2; }));
  EXPECT_THAT(answered.jobs(), testing::ElementsAre("b 2", "c 1"));
}

TEST(PlanningThreads, PlanNothingOnceTheyAreStopped) {
  TestLoop loop;
  Answered answered;
  {
    PlanningThreads threads(1, loop.post());
    threads.submit(task("slow", 1, slow_model()), answered.note("slow"));
    threads.stop();
    threads.submit(task("j", 1, model(2, 1, 6)), answered.note("j"));
  }
  ASSERT_TRUE(loop.run_until([] { return true; }));
  EXPECT_THAT(answered.jobs(), testing::IsEmpty());
}

TEST(PlanningThreads, EndWhileTasksWait) {
  TestLoop loop;
  const auto of = model(4, 1, 6);
  PlanningThreads threads(1, loop.post());
  for (int job = 0; job < 8; ++job) threads.submit(task(std::to_string(job), 1, of), [](const PlanningAnswer&) {});
}

}  // namespace
}  // namespace lowgear::server
