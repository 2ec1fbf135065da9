#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/cli/commands/plan_command_fixture.h"
#include "app/cli/run_lowgear.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(PlanCommand, WritesEveryFile) {
  ASSERT_EQ(plan({"--plans", "2"}).exit_code, 0);
  std::vector<std::string> names;
  for (const std::string& name : folder_.names()) {
    if (name.starts_with("out")) names.push_back(name);
  }
  EXPECT_THAT(names, testing::ElementsAre("out", "out/certificate.txt", "out/frontier.csv", "out/lowgear-files.json",
                                          "out/plans", "out/plans.csv", "out/plans/00000.json", "out/plans/00001.json",
                                          "out/profile.csv", "out/report.html", "out/run.json", "out/schedule.csv"));
}

TEST_F(PlanCommand, WritesTheFormatsThatAreDocumented) {
  ASSERT_EQ(plan({"--plans", "2"}).exit_code, 0);
  EXPECT_THAT(text("frontier.csv"), StartsWith("time_s,energy_j\n"));
  EXPECT_THAT(text("plans.csv"), StartsWith("plan,deadline_s,time_s,energy_j,lower_bound_j,gap_pct,switches\n0,"));
  EXPECT_THAT(text("profile.csv"),
              StartsWith("stage,instruction,frequency,time,energy,blocking_power\n0,forward,1400,"));
  EXPECT_THAT(text("schedule.csv"), StartsWith("0F0,0F1,0F2,0B0,"));
  EXPECT_THAT(text("report.html"), StartsWith("<!DOCTYPE html>"));

  const Json run = parse_json(text("run.json"), "run.json");
  EXPECT_EQ(run["format"], "lowgear.run/1");
  EXPECT_EQ(run["policy"], "lowgear");
  EXPECT_EQ(run["profile"], profile_);
  EXPECT_EQ(run["stages"], 3);
  EXPECT_EQ(run["microbatches"], 6);
  EXPECT_EQ(run["schedule"], "1f1b");
  EXPECT_EQ(run["blocking_power_w"], Json({70.0, 70.0, 70.0}));
  EXPECT_EQ(run["frontier_method"], "exact");
  EXPECT_EQ(run["granularity"], "per_op");
  EXPECT_EQ(run["late_by_s"], 0.0);

  const Json plan = parse_json(text("plans/00000.json"), "00000.json");
  EXPECT_EQ(plan["format"], "lowgear.plan/1");
  ASSERT_EQ(plan["stages"].size(), 3U);
  const Json& op = plan["stages"][0]["ops"][0];
  EXPECT_EQ(op["op"], "forward");
  EXPECT_EQ(op["microbatch"], 0);
  EXPECT_TRUE(op["mhz"].is_number_integer());
  EXPECT_EQ(op["start_s"], 0.0);
  EXPECT_GT(op["duration_s"].get<double>(), 0);
}

TEST_F(PlanCommand, TheFrontierRunsFromTheFastestToTheOneOfLeastEnergy) {
  ASSERT_EQ(plan().exit_code, 0);
  const CsvTable table(text("frontier.csv"), "frontier.csv");
  ASSERT_GE(table.rows(), 3U);
  for (std::size_t row = 1; row < table.rows(); ++row) {
    EXPECT_GT(table.number(row, 0), table.number(row - 1, 0));
    EXPECT_LT(table.number(row, 1), table.number(row - 1, 1));
  }
}

TEST_F(PlanCommand, PlansEvenlyOverTheFrontierEachWithinItsDeadlineAndAboveItsBound) {
  const Json json = planned({"--plans", "5"});
  const CsvTable frontier(text("frontier.csv"), "frontier.csv");
  const CsvTable plans(text("plans.csv"), "plans.csv");
  const double fastest_s = frontier.number(0, 0);
  const double slowest_s = frontier.number(frontier.rows() - 1, 0);
  ASSERT_EQ(plans.rows(), 5U);
  ASSERT_EQ(json["plans"].size(), 5U);
  for (std::size_t row = 0; row < 5; ++row) {
    const double deadline_s = plans.number(row, plans.column("deadline_s"));
    const double energy_j = plans.number(row, plans.column("energy_j"));
    const double bound_j = plans.number(row, plans.column("lower_bound_j"));
    EXPECT_NEAR(deadline_s, fastest_s + (slowest_s - fastest_s) * static_cast<double>(row) / 4, 1e-9);
    EXPECT_LE(plans.number(row, plans.column("time_s")), deadline_s * (1 + 1e-9));
    EXPECT_GE(energy_j, bound_j * (1 - 1e-9));
    EXPECT_NEAR(plans.number(row, plans.column("gap_pct")), 100 * (energy_j - bound_j) / bound_j, 1e-9);
    EXPECT_EQ(json["plans"][row]["energy_j"], energy_j);
  }
}

TEST_F(PlanCommand, WritesEqualPlansOnce) {
  write_text(profile_,
             "stage,instruction,frequency,time,energy\n"
             "0,forward,1400,0.04,12\n0,forward,1000,0.05,10\n0,backward,1400,0.08,24\n0,backward,1000,0.1,20\n");
  const ProgramResult result = run_lowgear(pipeline_command("plan", profile_, 1, 1, {"--out", out()}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const CsvTable plans(text("plans.csv"), "plans.csv");
  EXPECT_THAT(plans.rows(), testing::AllOf(testing::Ge(2U), testing::Le(4U))) << "two ops at two clocks";
  std::vector<std::string> clocks;
  for (std::size_t row = 0; row < plans.rows(); ++row) {
    EXPECT_EQ(plans.integer(row, plans.column("plan")), static_cast<long long>(row));
    const Json plan = parse_json(text(fmt::format("plans/{:05}.json", row)), "plan");
    std::string of_plan;
    for (const Json& op : plan["stages"][0]["ops"]) of_plan += op["mhz"].dump() + ' ';
    clocks.push_back(of_plan);
  }
  EXPECT_EQ(std::set<std::string>(clocks.begin(), clocks.end()).size(), clocks.size());
  EXPECT_THAT(result.out, HasSubstr(fmt::format("\nplans     {}, ", plans.rows())));
  EXPECT_THAT(result.out, StartsWith("pipeline  1 stage on 1 rank, 1 microbatch, "));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanCommand, PlansForOneDeadline) {
  const Json all = planned({"--plans", "2"});
  const double fastest_s = all["frontier"]["fastest_s"];
  const double slowest_s = all["frontier"]["slowest_s"];
  const double middle_s = (fastest_s + slowest_s) / 2;
  const auto deadline_of = [&](std::vector<std::string> options) {
    const Json json = planned(std::move(options));
    EXPECT_EQ(json["plans"].size(), 1U);
    return json["plans"][0]["deadline_s"].get<double>();
  };
  EXPECT_NEAR(deadline_of({"--deadline", std::to_string(middle_s)}), middle_s, 1e-6);
  EXPECT_NEAR(deadline_of({"--slowdown", "1"}), fastest_s * 1.01, 1e-9);
  EXPECT_NEAR(deadline_of({"--straggler", "1.01"}), fastest_s * 1.01, 1e-9);
  EXPECT_NEAR(deadline_of({"--straggler", "3"}), slowest_s, 1e-9);
}

TEST_F(PlanCommand, ADeadlineBeyondTheLeastEnergyIsPlannedForTheLeastEnergy) {
  const ProgramResult result = plan({"--deadline", "1000"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(lines_of(result.err).size(), 1U);
  EXPECT_THAT(result.err, HasSubstr("T*"));
  const CsvTable frontier(text("frontier.csv"), "frontier.csv");
  const CsvTable plans(text("plans.csv"), "plans.csv");
  EXPECT_LE(plans.number(0, plans.column("time_s")), frontier.number(frontier.rows() - 1, 0) * (1 + 1e-9));
}

TEST_F(PlanCommand, WhatIsPlannedVerifies) {
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {},
           {"--granularity", "stage"},
           {"--schedule", "gpipe"},
           {"--schedule", "zb-h1", "--backward-split", "0.5"},
           {"--schedule", "interleaved", "--virtual-stages", "2"},
           {"--schedule", "envpipe"},
           {"--frontier", "sandwich"},
           {"--switch-latency", "5", "--no-ask-ahead"},
           {"--policy", "perseus"},
           {"--policy", "envpipe"},
           {"--policy", "envpipe", "--memory-limit", "5"},
           {"--policy", "envpipe", "--envpipe-type", "baseline"},
           {"--policy", "envpipe", "--envpipe-type", "uniform", "--envpipe-reconfig", "default"},
           {"--policy", "envpipe", "--envpipe-scheduling", "1f1b", "--envpipe-reconfig", "greedy",
            "--envpipe-threshold-scale", "10", "--envpipe-transfer", "0.5"},
           {"--policy", "max"},
       }) {
    SCOPED_TRACE(::testing::PrintToString(options));
    const ProgramResult planned = plan(options);
    ASSERT_EQ(planned.exit_code, 0) << planned.err;
    const ProgramResult verified = run_lowgear({"verify", out()});
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
    EXPECT_THAT(verified.out, HasSubstr("verified"));
  }
}

TEST_F(PlanCommand, StagePlansSwitchLess) {
  const Json per_op = planned({"--slowdown", "3"});
  const Json per_stage = planned({"--slowdown", "3", "--granularity", "stage"});
  EXPECT_LT(per_stage["plans"][0]["switches"], per_op["plans"][0]["switches"]);
  EXPECT_GE(per_stage["plans"][0]["energy_j"], per_op["plans"][0]["energy_j"]);
}

TEST_F(PlanCommand, ReplacesAnEarlierRunWholly) {
  ASSERT_EQ(plan({"--plans", "3", "--perseus-format"}).exit_code, 0);
  ASSERT_EQ(plan({"--plans", "1"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "plans" / "00001.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "freqs_pipeline_00000.py"));
}

TEST_F(PlanCommand, ReplacesNoFilesOfOthers) {
  // A file named like one of ours does not make a folder ours.
  std::filesystem::create_directory(folder_ / "out");
  write_text(folder_ / "out" / "run.json", "");
  write_text(folder_ / "out" / "model.safetensors", "weeks of training");
  EXPECT_THAT(refusal_of(plan()), HasSubstr("out: contains \"model.safetensors\", which no earlier run lists"));
  EXPECT_EQ(text("model.safetensors"), "weeks of training");
  std::filesystem::remove_all(folder_ / "out");

  ASSERT_EQ(plan().exit_code, 0);
  write_text(folder_ / "out" / "notes.txt", "a thought");
  EXPECT_THAT(refusal_of(plan()), HasSubstr("contains \"notes.txt\""));
  EXPECT_EQ(text("notes.txt"), "a thought");
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0) << "and the earlier run is whole";
}

TEST_F(PlanCommand, ReportReplacesNoFileOfOthers) {
  ASSERT_EQ(plan().exit_code, 0);
  std::filesystem::remove(folder_ / "out" / "lowgear-files.json");
  write_text(folder_ / "out" / "report.html", "mine");
  EXPECT_THAT(refusal_of({"runs", "report", out()}), HasSubstr("report.html: exists, and no earlier run lists it"));
  EXPECT_EQ(text("report.html"), "mine");
}

TEST_F(PlanCommand, IsTheSameEveryTime) {
  ASSERT_EQ(plan().exit_code, 0);
  const std::string plans = text("plans.csv");
  const std::string certificate = text("certificate.txt");
  ASSERT_EQ(plan().exit_code, 0);
  EXPECT_EQ(text("plans.csv"), plans);
  EXPECT_EQ(text("certificate.txt"), certificate);
}

TEST_F(PlanCommand, QuietSaysNothing) {
  const ProgramResult result = plan({"--quiet"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out + result.err, "");
}

TEST_F(PlanCommand, ReportNamesWhatItShows) {
  ASSERT_EQ(plan().exit_code, 0);
  const std::string report = text("report.html");
  EXPECT_THAT(report, HasSubstr("lowgear plan "));
  EXPECT_THAT(report, HasSubstr("envpipe-offline"));
  EXPECT_THAT(report, HasSubstr("shares nothing with the solver"));
}

TEST_F(PlanCommand, ReportIsRenderedAnewFromTheFolder) {
  ASSERT_EQ(plan().exit_code, 0);
  const std::string report = text("report.html");
  std::filesystem::remove(folder_ / "out" / "report.html");
  const ProgramResult result = run_lowgear({"runs", "report", out()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(text("report.html"), report);
}

TEST_F(PlanCommand, TamperingFailsVerification) {
  ASSERT_EQ(plan().exit_code, 0);
  EXPECT_THAT(run_lowgear({"verify", out()}).out, HasSubstr("all listed files exist; contents of report.html"));
  std::filesystem::rename(folder_ / "out" / "lowgear-files.json", folder_ / "list");
  EXPECT_THAT(run_lowgear({"verify", out()}).out, HasSubstr("lowgear-files.json is gone, so files may be missing"));
  std::filesystem::rename(folder_ / "list", folder_ / "out" / "lowgear-files.json");
  std::filesystem::remove(folder_ / "out" / "report.html");
  const ProgramResult without_report = run_lowgear({"verify", out()});
  EXPECT_EQ(without_report.exit_code, 1);
  EXPECT_THAT(without_report.err, HasSubstr("report.html: is listed in lowgear-files.json and is gone; plan again"));
  std::filesystem::remove(folder_ / "out" / "plans" / "00001.json");
  const ProgramResult without_plan = run_lowgear({"verify", out()});
  EXPECT_EQ(without_plan.exit_code, 1);
  EXPECT_THAT(without_plan.out, HasSubstr("NOT verified"));
  EXPECT_THAT(without_plan.err, HasSubstr("plans/00001.json: is listed in lowgear-files.json and is gone; plan again"));
  ASSERT_EQ(plan().exit_code, 0);
  const auto last_digit_of = [&](const std::string& name) {
    std::string changed = text(name);
    const std::size_t digit = changed.find_last_of("0123456789");
    changed[digit] = changed[digit] == '1' ? '2' : '1';
    return changed;
  };
  write_text(folder_ / "out" / "plans.csv", last_digit_of("plans.csv"));
  const ProgramResult result = run_lowgear({"verify", out()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("NOT verified"));
  EXPECT_THAT(result.err, HasSubstr("in the table"));
  const ProgramResult json = run_lowgear({"verify", out(), "--json"});
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(parse_json(json.out, "stdout")["ok"], false);
  ASSERT_EQ(plan().exit_code, 0);
  Json run = parse_json(text("run.json"), "run.json");
  run["blocking_power_w"][1] = 60;
  write_text(folder_ / "out" / "run.json", run.dump());
  const ProgramResult other_power = run_lowgear({"verify", out()});
  EXPECT_EQ(other_power.exit_code, 1);
  EXPECT_THAT(other_power.err, HasSubstr("run.json: blocking_power_w[1] is 60 W, but "));
  EXPECT_THAT(other_power.err, HasSubstr("profile.csv states 70 W for stage 1; plan again"));
}

TEST_F(PlanCommand, VerifyMissesPlansThatTheTableLost) {
  ASSERT_EQ(plan().exit_code, 0);
  std::string table = text("plans.csv");
  table.erase(table.rfind('\n', table.size() - 2) + 1);
  write_text(folder_ / "out" / "plans.csv", table);
  EXPECT_THAT(refusal_of({"verify", out()}), HasSubstr("and the folder holds"));
}

TEST_F(PlanCommand, SaysWhatItPlansAndWhichRunItReplaces) {
  const ProgramResult first = plan({"--plans", "1"});
  EXPECT_THAT(first.out, StartsWith("pipeline  3 stages on 3 ranks, 6 microbatches, 1f1b\nprofile   ops draw "));
  EXPECT_THAT(first.out, HasSubstr("\nplans     1, proven within"));
  EXPECT_THAT(first.out, testing::Not(HasSubstr("-0.00 %")));
  EXPECT_EQ(first.err, "");
  EXPECT_THAT(plan({"--plans", "1"}).err,
              HasSubstr("replaced " + out() + " (6 microbatches, 3 stages, 1f1b, of profile.csv)"));
}

TEST_F(PlanCommand, PlansAProfileOfFrozenStages) {
  std::string frozen;
  for (const std::string& line : lines_of(small_profile(3))) {
    if (!line.starts_with("0,backward,")) frozen += line + '\n';
  }
  write_text(profile_, frozen);
  const ProgramResult result = plan({"--plans", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1f1b leaves its backwards out"));
  EXPECT_THAT(text("schedule.csv"), testing::Not(HasSubstr("0B")));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanCommand, SaysWhatToDoNext) {
  const ProgramResult result = plan();
  EXPECT_THAT(result.out, HasSubstr("\nnext      "));
  EXPECT_THAT(result.out, HasSubstr("lowgear verify " + out()));
}

TEST_F(PlanCommand, IterationsOfHoursVerify) {
  // Beyond 4096 s a double is coarser than the picoseconds of the proof.
  std::string hours = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 3; ++stage) {
    for (const int clock : {1400, 1100, 800}) {
      const double time_s = (1 + 0.0373 * stage) * 2.0e6 / clock + 0.1234567;
      for (const char* const instruction : {"forward", "backward"}) {
        hours += std::to_string(stage) + "," + instruction + "," + std::to_string(clock) + "," +
                 std::to_string(time_s) + "," + std::to_string(time_s * 0.2 * clock) + "\n";
      }
    }
  }
  const std::string profile = write_text(folder_ / "hours.csv", hours);
  const ProgramResult result =
      run_lowgear(pipeline_command("plan", profile, 3, 6, {"--plans", "3", "--out", out(), "--accept-units"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

}  // namespace
}  // namespace lowgear::cli
