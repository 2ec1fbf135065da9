#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "app/cli/commands/plan_command_fixture.h"
#include "app/cli/run_lowgear.h"
#include "base/core/formats/json.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PlanLatency : public PlanCommand {};

TEST_F(PlanLatency, PlansForClocksThatAreRequestedAheadOfAnAssumedLatency) {
  const Json summary = planned({"--deadline", "1.5"});
  const Json latency = summary["switch_latency"];
  EXPECT_EQ(latency["source"], "assumed");
  EXPECT_EQ(latency["latency_s"], 0.025);
  EXPECT_EQ(latency["asked_ahead_s"], 0.025);
  EXPECT_EQ(latency["planned_with_s"], 0.0);
  EXPECT_EQ(parse_json(text("plans/00000.json"), "plan")["clock_lead_s"], 0.025);
  const auto replayed = [&](const std::string& latency_ms) {
    return parse_json(run_lowgear({"verify", "--replay", out() + "/plans/00000.json", "--profile", profile_,
                                   "--blocking-power", "70", "--switch-latency", latency_ms, "--json"})
                          .out,
                      "stdout");
  };
  EXPECT_NEAR(replayed("25")["time_s"].get<double>(), summary["plans"][0]["time_s"].get<double>(), 1e-9);
  const Json at_begin = replayed("50");  // 25 ms later than requested ahead
  EXPECT_NEAR(latency["replayed"]["time_s"].get<double>(), at_begin["time_s"].get<double>(), 1e-9);
  EXPECT_NEAR(latency["replayed"]["energy_j"].get<double>(), at_begin["energy_j"].get<double>(), 1e-9);
  EXPECT_THAT(plan({"--deadline", "1.5"}).out,
              testing::AllOf(HasSubstr("clocks    requested 25 ms before their units, so that they change in time"),
                             HasSubstr("; requested when units begin, the plan would come to "),
                             HasSubstr(" time. The switch latency is assumed: ")));
  EXPECT_THAT(text("report.html"), HasSubstr("\"clock_lead_s\":0.025"));
}

TEST_F(PlanLatency, PlansWithTheSwitchLatencyOfTheProfile) {
  std::string with_latency;
  for (const std::string& line : lines_of(small_profile(3))) {
    with_latency += line + (with_latency.empty() ? ",switch_latency\n" : ",0.02\n");
  }
  write_text(profile_, with_latency);
  const Json summary = planned({"--plans", "3", "--no-ask-ahead"});
  EXPECT_EQ(summary["switch_latency"],
            Json({{"source", "profile"}, {"latency_s", 0.02}, {"planned_with_s", 0.02}, {"asked_ahead_s", 0.0}}));
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["late_by_s"], 0.02);
  EXPECT_THAT(text("profile.csv"),
              StartsWith("stage,instruction,frequency,time,energy,blocking_power,switch_latency\n"));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  const ProgramResult replayed = run_lowgear(
      {"verify", "--replay", out() + "/plans/00001.json", "--profile", profile_, "--blocking-power", "70", "--json"});
  EXPECT_NEAR(parse_json(replayed.out, "stdout")["time_s"].get<double>(), summary["plans"][1]["time_s"].get<double>(),
              1e-9);
  for (const char* none : {"0", "instant", "0ms"}) {
    EXPECT_EQ(planned({"--plans", "3", "--switch-latency", none})["switch_latency"],
              Json({{"source", "given"}, {"latency_s", 0.0}, {"planned_with_s", 0.0}, {"asked_ahead_s", 0.0}}))
        << none;
  }
  EXPECT_THAT(plan({"--plans", "1", "--switch-latency", "instant"}).out, HasSubstr("clocks    changed at once"));
}

TEST_F(PlanLatency, PlansAsIfClocksChangedAtOnceWhereTheAgentRequestsThemAhead) {
  const Json at_once = planned({"--plans", "3", "--switch-latency", "instant"});
  const Json ahead = planned({"--plans", "3", "--switch-latency", "20ms"});
  EXPECT_EQ(ahead["switch_latency"]["asked_ahead_s"], 0.02);
  EXPECT_EQ(ahead["plans"], at_once["plans"]);
  EXPECT_EQ(parse_json(text("plans/00001.json"), "plan")["clock_lead_s"], 0.02);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  std::vector<std::string> replay{"verify",           "--replay", out() + "/plans/00001.json", "--profile", profile_,
                                  "--blocking-power", "70",       "--switch-latency",          "20"};
  EXPECT_THAT(run_lowgear(replay).out,
              HasSubstr("clocks    requested 20 ms before their units, so that they change in time\n"));
  replay.back() = "30";
  EXPECT_THAT(run_lowgear(replay).out,
              HasSubstr("clocks    requested 20 ms before their units, and changed 10 ms after these begin\n"));
  replay.back() = "20";
  replay.emplace_back("--json");
  EXPECT_NEAR(parse_json(run_lowgear(replay).out, "stdout")["time_s"].get<double>(),
              ahead["plans"][1]["time_s"].get<double>(), 1e-9)
      << "as late as the clocks are requested ahead";
}

TEST_F(PlanLatency, RequestsNothingAheadOfAVeryLongLatency) {
  EXPECT_THAT(refusal_of(plan({"--plans", "3", "--switch-latency", "20s"})),
              testing::AllOf(HasSubstr("at most 10 s before their units, not 20 s"), HasSubstr("--no-ask-ahead")));
}

TEST_F(PlanLatency, RequestsNothingAheadOfALatencyOfAnIteration) {
  const double iteration_s = planned({"--plans", "1"})["baseline"]["time_s"];
  ASSERT_LT(iteration_s, 9);
  const auto is_refused = testing::AllOf(HasSubstr("clocks change 9 s after the request, and an iteration takes"),
                                         HasSubstr("must be shorter than an iteration"), HasSubstr("--no-ask-ahead"));
  for (const std::vector<std::string>& order : std::vector<std::vector<std::string>>{{}, {"--schedule", "auto"}}) {
    std::vector<std::string> options{"--switch-latency", "9s"};
    options.insert(options.end(), order.begin(), order.end());
    EXPECT_THAT(refusal_of(plan(options)), is_refused);
  }
  EXPECT_THAT(refusal_of(pipeline_command("compare", profile_, 3, 6, {"--switch-latency", "9s"})), is_refused);

  const ProgramResult late = plan({"--switch-latency", "9s", "--no-ask-ahead", "--plans", "1"});
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_THAT(late.out, HasSubstr("clocks    changed 9 s after their units begin"));
}

TEST_F(PlanLatency, SaysThatClocksOfShortUnitsMayChangeLate) {
  const double iteration_s = planned({"--plans", "1"})["baseline"]["time_s"];
  const std::string latency = fmt::format("{}s", iteration_s / 2);
  const ProgramResult result = plan({"--plans", "1", "--switch-latency", latency});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("so that they change in time where units take longer (the shortest takes "));
  EXPECT_THAT(plan({"--plans", "1", "--switch-latency", "1ms"}).out, HasSubstr("so that they change in time; "));
}

TEST_F(PlanLatency, PlansAProfileWhoseTopClockIsSlowerThanTheNext) {
  // The least that a switch latency has to bear: noise makes other clocks the fastest, rank by rank.
  std::string noisy = "stage,instruction,frequency,time,energy\n";
  for (const std::string& row : lines_of(small_profile(3))) {
    if (row.starts_with("stage,")) continue;
    const std::string key = row.substr(0, row.find(',', row.find(',') + 1));
    if (key != "1,forward" && key != "2,backward") noisy += row + '\n';
  }
  for (const auto& [key, factor] : {std::pair<std::string, double>{"1,forward", 1.0}, {"2,backward", 2.2}}) {
    noisy += key + fmt::format(",1400,{},{}\n", 0.0505 * factor, 20 * factor);
    noisy += key + fmt::format(",1300,{},{}\n", 0.0500 * factor, 19 * factor);
    noisy += key + fmt::format(",1000,{},{}\n", 0.0600 * factor, 16 * factor);
  }
  write_text(profile_, noisy);
  const Json summary = planned({"--plans", "4", "--switch-latency", "25", "--no-ask-ahead"});
  EXPECT_EQ(summary["plans"].size(), 3U) << "two of four would be equal";
  EXPECT_GE(summary["plans"][0]["time_s"].get<double>(), summary["frontier"]["fastest_s"].get<double>() - 1e-9);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  EXPECT_THAT(refusal_of(plan({"--switch-latency", "25", "--no-ask-ahead", "--deadline", "0.1"})), HasSubstr("T_min"));
}

}  // namespace
}  // namespace lowgear::cli
