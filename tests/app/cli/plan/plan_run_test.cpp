#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/cli/plan/plan_folder.h"
#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "planning/api/plan_pipeline.h"
#include "planning/api/plan_replays.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/switch_latency.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/published_policies.h"

namespace lowgear::cli {
namespace {

constexpr int kStages = 3;
constexpr int kMicrobatches = 6;

/// The pipeline of `pipeline_command`.
api::ProfiledPipeline sample_pipeline() {
  api::ProfiledPipeline pipeline;
  pipeline.profile = profile::read_profile_file(small_profile(kStages), "profile.csv").profile;
  pipeline.schedule = schedule::one_f_one_b_schedule(kStages, kMicrobatches);
  pipeline.dag = build_dag(pipeline.schedule);
  pipeline.blocking_power_w.assign(kStages, 70);
  return pipeline;
}

/// The command prints and writes what `plan` answers, and decides nothing of its own.
void expect_same_plans(const api::PlanOptions& options, std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  const std::string profile = write_text(folder / "profile.csv", small_profile(kStages));
  arguments.insert(arguments.end(), {"--json", "--out", (folder / "out").string()});
  const ProgramResult printed = run_lowgear(pipeline_command("plan", profile, kStages, kMicrobatches, arguments));
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const Json json = parse_json(printed.out, "stdout");

  std::vector<std::string> texts;
  const api::PlanReceiver receive = [&texts](const api::ProfiledPipeline&, int, const plan::Plan& made) {
    texts.push_back(write_plan(made));
  };
  const api::PlanResult result = api::plan(sample_pipeline(), options, receive);
  EXPECT_EQ(json["frontier"]["vertices"], result.frontier.vertices.size());
  EXPECT_EQ(json["frontier"]["method"], name(result.frontier.method));
  EXPECT_EQ(json["frontier"]["fastest_s"], result.frontier.vertices.front().time_s);
  EXPECT_EQ(json["baseline"]["energy_j"], result.baseline.energy_j);
  EXPECT_EQ(json["shown_plan"], result.shown_plan);
  EXPECT_EQ(json["switch_latency"]["replayed"]["energy_j"], result.late->plan.energy_j);
  EXPECT_EQ(json["warnings"], Json(result.warnings));
  ASSERT_EQ(json["plans"].size(), result.plans.size());
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    EXPECT_EQ(json["plans"][i]["deadline_s"], result.plans[i].deadline_s);
    EXPECT_EQ(json["plans"][i]["time_s"], result.plans[i].time_s);
    EXPECT_EQ(json["plans"][i]["energy_j"], result.plans[i].energy_j);
    EXPECT_EQ(json["plans"][i]["lower_bound_j"], *result.plans[i].lower_bound_j);
    EXPECT_EQ(json["plans"][i]["switches"], result.plans[i].switches);
    EXPECT_EQ(read_file(folder / "out" / output_file::plan(static_cast<int>(i))), texts[i]);
  }
  EXPECT_EQ(read_file(folder / "out/certificate.txt"), result.frontier.certificate);
}

TEST(PlanRun, PrintsAndWritesWhatThePlannerAnswers) {
  const planner::PolicyTable policies = policies::published_policies();
  expect_same_plans({.request = {.policies = policies},
                     .clock_lead_s = profile::kAssumedSwitchLatencyS,
                     .late_s = profile::kAssumedSwitchLatencyS},
                    {});
  expect_same_plans({.request = {.policies = policies},
                     .planner = {.method = planner::FrontierMethod::sandwich, .epsilon = 0.01},
                     .deadlines = {.slowdown_pct = 5},
                     .clock_lead_s = profile::kAssumedSwitchLatencyS,
                     .late_s = profile::kAssumedSwitchLatencyS},
                    {"--frontier", "sandwich", "--epsilon", "1%", "--slowdown", "5"});
}

TEST(PlanRun, PrintsAndWritesWhatOtherPoliciesAnswer) {
  for (const std::string& policy : policies::published_policies().other_names()) {
    SCOPED_TRACE(policy);
    expect_same_plans({.request = {.policy = policy, .policies = policies::published_policies()},
                       .clock_lead_s = profile::kAssumedSwitchLatencyS,
                       .late_s = profile::kAssumedSwitchLatencyS},
                      {"--policy", policy});
  }
}

}  // namespace
}  // namespace lowgear::cli
