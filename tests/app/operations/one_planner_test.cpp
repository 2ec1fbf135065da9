#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/call/call.h"
#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "planning/api/plan_replays.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/switch_latency.h"
#include "planning/schedule/generators.h"
#include "rivals/policies/published_policies.h"
#include "server/planning/measured_job.h"

namespace lowgear {
namespace {

constexpr int kStages = 3;
constexpr int kMicrobatches = 6;

/// Too few clocks for the server to fit a curve through them: it plans with the rows, as the command does.
profile::StageProfile few_rows() {
  const profile::StageProfile all = profile::read_profile_file(cli::small_profile(kStages), "profile.csv").profile;
  profile::StageProfile few(kStages);
  for (const profile::StageOp& op : all.ops()) {
    for (std::size_t i = 0; i < op.measurements.size(); i += 2) few.add(op.stage, op.kind, op.measurements[i]);
  }
  return few;
}

/// A job of one pipeline whose ranks have measured these rows.
server::MeasuredJob served(const profile::StageProfile& rows) {
  server::PipelineModel model;
  model.parallel = {.pp = kStages, .dp = 1, .tp = 1, .chunks = 1};
  model.schedule = schedule::one_f_one_b_schedule(kStages, kMicrobatches);
  for (const profile::StageOp& op : rows.ops()) {
    for (const profile::Measurement& row : op.measurements) {
      model.measured.cells.push_back({.stage = op.stage,
                                      .kind = op.kind,
                                      .clock_mhz = row.clock_mhz,
                                      .units = 30,
                                      .time_s = row.time_s,
                                      .time_error_s = row.time_s * 1e-4,
                                      .energy_j = row.energy_j,
                                      .energy_error_j = row.energy_j * 1e-4});
    }
  }
  for (int stage = 0; stage < kStages; ++stage) {
    model.measured.blocking.push_back({.stage = stage, .power_w = 70, .error_w = 0.5});
  }
  for (const profile::Measurement& row : rows.measurements(0, OpKind::forward)) {
    model.clocks_mhz.push_back(row.clock_mhz);
  }
  model.switch_latency_s = profile::kAssumedSwitchLatencyS;  // as the others do where nobody states it
  return server::MeasuredJob(std::make_shared<const server::PipelineModel>(std::move(model)));
}

/// Of a policy's plan the server does not know the bound, which takes Lowgear's frontier.
std::string without_bound(const std::string& plan) {
  Json json = parse_json(plan, "plan");
  json.erase("lower_bound_j");
  return json.dump();
}

struct SameRequest {
  api::PlanRequest request;
  std::vector<std::string> options;
};

/// The plan of a call with the options of a command, as Python makes it.
std::string called(const std::string& profile, const std::vector<std::string>& options) {
  Json request = {{"options",
                   {{"profile", "profile.csv"},
                    {"stages", kStages},
                    {"microbatches", kMicrobatches},
                    {"blocking-power", 70},
                    {"out", "plan"}}},
                  {"files", {{"profile.csv", profile}}},
                  {"keep", {"plan"}}};
  for (std::size_t i = 0; i < options.size(); i += 2) request["options"][options[i].substr(2)] = options[i + 1];
  const Json reply = cli::call("plan", request.dump(), [] { return false; });
  EXPECT_FALSE(reply.contains("error")) << reply;
  return reply["files"]["plan/plans/00000.json"].get<std::string>();
}

TEST(OnePlanner, GivesTheSamePlanToTheServerTheCommandAndPython) {
  const TemporaryFolder folder;
  const profile::StageProfile rows = few_rows();
  const std::string path = cli::write_text(folder / "profile.csv", profile::write_profile_file({.profile = rows}));
  const server::MeasuredJob job = served(rows);
  const std::vector<SameRequest> requests = {
      {{.slowdown_pct = 0}, {"--slowdown", "0"}},
      {{.slowdown_pct = 7.5}, {"--slowdown", "7.5"}},
      {{.slowdown_pct = 3, .slow = {{.replica = 0, .rank = 1, .factor = 1.3}}},
       {"--slowdown", "3", "--slow-rank", "1=1.3"}},
      {{.slowdown_pct = 2, .power_cap = api::PowerCap{.watts = 210}}, {"--slowdown", "2", "--power-cap", "210"}},
      {{.slowdown_pct = 0, .power_cap = api::PowerCap{.scope = api::CapScope::job, .watts = 640}},
       {"--slowdown", "0", "--power-cap", "640:job"}},
      {{.slowdown_pct = 4, .policy = "perseus", .policies = policies::published_policies()},
       {"--slowdown", "4", "--policy", "perseus"}},
  };
  for (const SameRequest& same : requests) {
    SCOPED_TRACE(testing::PrintToString(same.options));
    std::vector<std::string> options = same.options;
    options.insert(options.end(), {"--quiet", "--out", (folder / "out").string()});
    const cli::ProgramResult printed =
        cli::run_lowgear(cli::pipeline_command("plan", path, kStages, kMicrobatches, options));
    ASSERT_EQ(printed.exit_code, 0) << printed.err;
    const std::string of_command = read_file((folder / "out/plans/00000.json").string());
    EXPECT_EQ(called(profile::write_profile_file({.profile = rows}), same.options), of_command);
    const std::string of_server = write_plan(job.plan({.request = same.request}).plan.plans.front());
    if (same.request.policy == planner::kLowgearPolicy) {
      EXPECT_EQ(of_server, of_command);
    } else {
      EXPECT_EQ(without_bound(of_server), without_bound(of_command));
    }
  }
}

}  // namespace
}  // namespace lowgear
