#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "rivals/formats/perseus_plan.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PlanCommand : public ::testing::Test {
 protected:
  PlanCommand() { profile_ = write_text(folder_ / "profile.csv", small_profile(3)); }

  [[nodiscard]] std::string out() const { return (folder_ / "out").string(); }
  [[nodiscard]] std::string text(const std::string& name) const { return read_file(folder_ / "out" / name); }

  [[nodiscard]] ProgramResult plan(std::vector<std::string> others = {}) const {
    others.insert(others.end(), {"--out", out()});
    return run_lowgear(pipeline_command("plan", profile_, 3, 6, others));
  }
  /// Plans and returns what `--json` says.
  [[nodiscard]] Json planned(std::vector<std::string> others = {}) const {
    others.emplace_back("--json");
    const ProgramResult result = plan(others);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "stdout");
  }

  TemporaryFolder folder_;
  std::string profile_;
};

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
  EXPECT_EQ(run["switch_latency_s"], 0.0);

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

std::vector<std::string> free_order(std::vector<std::string> others = {}) {
  others.insert(others.end(), {"--schedule", "auto", "--backward-split", "0.5"});
  return others;
}

TEST_F(PlanCommand, AFreeOrderWritesEachOrderWithItsProof) {
  const Json json = planned(free_order({"--plans", "4"}));
  ASSERT_EQ(json["plans"].size(), 4);
  ASSERT_FALSE(json["orders"].empty());
  for (std::size_t i = 0; i < json["orders"].size(); ++i) {
    for (const char* name : {"run.json", "profile.csv", "schedule.csv", "frontier.csv", "certificate.txt"}) {
      EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / fmt::format("orders/{:02}/{}", i, name))) << name;
    }
  }
  const ProgramResult verified = run_lowgear({"verify", out()});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("verified"));
  EXPECT_EQ(run_lowgear({"runs", "report", out()}).exit_code, 0);
  EXPECT_THAT(text("report.html"), HasSubstr("\"order_curves\""));
}

TEST_F(PlanCommand, AFreeOrderIsNeverWorseThanOneFOneBInItsTime) {
  const Json fixed = planned({"--plans", "1"});
  const Json free = planned(free_order({"--deadline", fixed["plans"][0]["deadline_s"].dump()}));
  EXPECT_LE(free["plans"][0]["time_s"], fixed["plans"][0]["deadline_s"]);
  EXPECT_LT(free["plans"][0]["energy_j"], fixed["plans"][0]["energy_j"]);
}

TEST_F(PlanCommand, APlanOfAFreeOrderReplaysToItsFiguresInItsOrder) {
  const Json json = planned(free_order({"--plans", "3", "--memory-limit", "4"}));
  for (int number = 0; number < 3; ++number) {
    const std::string file = (folder_ / "out" / fmt::format("plans/{:05}.json", number)).string();
    const ProgramResult replayed = run_lowgear({"verify", "--profile", profile_, "--blocking-power", "70",
                                                "--backward-split", "0.5", "--replay", file, "--json"});
    ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
    const Json figures = parse_json(replayed.out, "stdout");
    EXPECT_NEAR(figures["time_s"], json["plans"][number]["time_s"].get<double>(), 1e-9);
    EXPECT_NEAR(figures["energy_j"], json["plans"][number]["energy_j"].get<double>(), 1e-6);
  }
}

TEST_F(PlanCommand, AFreeOrdersReportComparesLateClocksWithItsOwnBaseline) {
  const ProgramResult result = plan(free_order({"--plans", "2", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  const std::string file = (folder_ / "out" / fmt::format("plans/{:05}.json", json["shown_plan"].get<int>())).string();
  // Requested 25 ms ahead and 50 ms late: as if requested when units begin.
  const ProgramResult replayed =
      run_lowgear({"verify", "--profile", profile_, "--blocking-power", "70", "--backward-split", "0.5", "--replay",
                   file, "--switch-latency", "50", "--json"});
  ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
  const Json figures = parse_json(replayed.out, "stdout");
  const std::string page = text("report.html");
  const std::size_t from = page.find("\"late\":{");
  ASSERT_NE(from, std::string::npos);
  const std::size_t begin = page.find('{', from);
  const Json late = parse_json(page.substr(begin, page.find('}', begin) + 1 - begin), "late");
  for (const auto& [percent, figure] : {std::pair{"energy_pct", "energy_j"}, std::pair{"time_pct", "time_s"}}) {
    const double baseline = json["baseline"][figure].get<double>();
    EXPECT_NEAR(late[percent].get<double>(), 100 * (figures[figure].get<double>() / baseline - 1), 1e-6) << figure;
  }
}

TEST_F(PlanCommand, AFreeOrderThatDoesNotFitItsStatedMemoryIsFound) {
  ASSERT_EQ(plan(free_order({"--plans", "2", "--memory-limit", "3"})).exit_code, 0);
  std::string run = text("run.json");
  const std::string limit = "\"memory_limit\": \"3\"";
  ASSERT_NE(run.find(limit), std::string::npos);
  run.replace(run.find(limit), limit.size(), "\"memory_limit\": \"1\"");
  write_text(folder_ / "out" / "run.json", run);
  const ProgramResult verified = run_lowgear({"verify", out()});
  EXPECT_NE(verified.exit_code, 0);
  EXPECT_THAT(verified.err, HasSubstr("fit into the memory that the run states"));
}

TEST_F(PlanCommand, AJointFrontierAboveAnOrderIsFound) {
  ASSERT_EQ(plan(free_order({"--plans", "2"})).exit_code, 0);
  std::string table = text("frontier.csv");
  const std::size_t second = table.find('\n', table.find('\n') + 1) + 1;
  table.erase(second, table.find('\n', second) + 1 - second);
  table.erase(second, table.find('\n', second) + 1 - second);
  write_text(folder_ / "out" / "frontier.csv", table);
  const ProgramResult verified = run_lowgear({"verify", out()});
  EXPECT_NE(verified.exit_code, 0);
  EXPECT_THAT(verified.err, HasSubstr("needs only"));
}

TEST_F(PlanCommand, AFreeOrdersPlansAreCloseToTheBoundOfAllOrders) {
  const ProgramResult result = plan(free_order({"--plans", "5", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  for (const Json& figures : json["plans"]) {
    EXPECT_GE(figures["joint_gap_pct"].get<double>(), -1e-6) << figures;
    EXPECT_LE(figures["joint_gap_pct"].get<double>(), 30) << figures;
    EXPECT_LE(figures["joint_bound_j"].get<double>(), figures["lower_bound_j"].get<double>() * (1 + 1e-9)) << figures;
  }
  EXPECT_THAT(run_lowgear({"verify", out()}).out, HasSubstr("per rank within memory uses less than the plans' bounds"));
}

TEST_F(PlanCommand, ABoundOfAllOrdersThatIsNotProvenIsFound) {
  ASSERT_EQ(plan(free_order({"--plans", "2"})).exit_code, 0);
  const std::string table = text("plans.csv");
  const std::string prices = text("joint_bound.json");
  const auto verify_with = [&](const std::string& name, const std::string& changed) {
    write_text(folder_ / "out" / "plans.csv", table);
    write_text(folder_ / "out" / "joint_bound.json", prices);
    write_text(folder_ / "out" / name, changed);
    const ProgramResult verified = run_lowgear({"verify", out()});
    EXPECT_NE(verified.exit_code, 0) << name;
    return verified.err;
  };
  std::string higher = table;
  higher.replace(higher.rfind(','), std::string::npos, ",1e9\n");
  EXPECT_THAT(verify_with("plans.csv", higher), HasSubstr("states that no order uses less than 1000000000 J"));

  std::string none = table;
  none.replace(none.rfind(','), std::string::npos, ",0\n");
  EXPECT_THAT(verify_with("plans.csv", none), HasSubstr("is not above 0"));
  EXPECT_THAT(verify_with("lower_bound.csv", "time_s,energy_j\n"), HasSubstr("has no rows"));
  ASSERT_EQ(plan(free_order({"--plans", "2"})).exit_code, 0);

  Json changed = parse_json(prices, "joint_bound.json");
  for (Json& layout : changed["layouts"]) {
    for (Json& line : layout["lines"]) line["prices"] = Json::array();
  }
  EXPECT_THAT(verify_with("joint_bound.json", changed.dump()), HasSubstr("is proven"));
  changed["layouts"].erase(0);
  EXPECT_THAT(verify_with("joint_bound.json", changed.dump()), HasSubstr("backwards on ranks"));
  changed = parse_json(prices, "joint_bound.json");
  Json& path = changed["layouts"][0]["lines"][0]["prices"][0];
  path["end"] = "never";
  EXPECT_THAT(verify_with("joint_bound.json", changed.dump()), HasSubstr("there is no such path"));
  path["end"] = "last_backward";
  path["price_w"] = -1;
  EXPECT_THAT(verify_with("joint_bound.json", changed.dump()), HasSubstr("out of range"));
}

TEST_F(PlanCommand, ABaselineOfAFreeOrderThatIsNotIsFound) {
  for (const std::vector<std::string>& options : {free_order(), std::vector<std::string>{"--schedule", "auto"}}) {
    ASSERT_EQ(plan(options).exit_code, 0);
    EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
    Json run = parse_json(text("run.json"), "run.json");
    run["joint"]["baseline"]["energy_j"] = 1.01 * run["joint"]["baseline"]["energy_j"].get<double>();
    write_text(folder_ / "out" / "run.json", run.dump());
    EXPECT_THAT(run_lowgear({"verify", out()}).err, HasSubstr("1F1B with every op at its highest clock takes"));
  }
}

TEST_F(PlanCommand, AFreeOrderSaysHowFastItCanBe) {
  const ProgramResult fastest = plan(free_order({"--plans", "2", "--json"}));
  ASSERT_EQ(fastest.exit_code, 0) << fastest.err;
  const Json json = parse_json(fastest.out, "stdout");
  const double fastest_s = json["frontier"]["fastest_s"].get<double>();
  const ProgramResult result = plan(free_order({"--deadline", fmt::format("{}", 0.99 * fastest_s)}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("the orders that were found, is " + fmt::format("{}", fastest_s).substr(0, 6)));
}

TEST_F(PlanCommand, AFreeOrderTakesNoEmptyLimit) {
  const ProgramResult limit = plan(free_order({"--memory-limit", ""}));
  EXPECT_EQ(limit.exit_code, 2);
  EXPECT_THAT(limit.err, HasSubstr("--memory-limit"));
}

TEST_F(PlanCommand, AFreeOrderNeedsEveryStageTrained) {
  write_text(folder_ / "frozen.csv",
             "stage,instruction,frequency,time,energy\n0,forward,1410,0.1,30\n1,forward,1410,0.1,30\n"
             "1,backward,1410,0.2,60\n");
  const ProgramResult result = run_lowgear({"plan", "--profile", (folder_ / "frozen.csv").string(), "--microbatches",
                                            "4", "--blocking-power", "80", "--schedule", "auto", "--out", out()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              HasSubstr("stage 0 has no backward: orders are searched for pipelines that train every stage"));
}

/// Three ranks of four equal layers, the last with a head as heavy as four more.
std::string profile_with_head() {
  std::string text = "stage,instruction,frequency,time,energy\n";
  for (int stage = 0; stage < 3; ++stage) {
    const double work = stage == 2 ? 2 : 1;
    for (const auto& [clock, slower, saved] : {std::tuple(1400, 1.0, 1.0), std::tuple(1200, 1.1, 0.85)}) {
      text += fmt::format("{},forward,{},{},{}\n", stage, clock, 0.04 * work * slower, 12 * work * saved);
      text += fmt::format("{},backward,{},{},{}\n", stage, clock, 0.08 * work * slower, 24 * work * saved);
    }
  }
  return text;
}

TEST_F(PlanCommand, LayersMoveFromTheRankWithTheHead) {
  write_text(folder_ / "profile.csv", profile_with_head());
  const Json json = planned(free_order({"--plans", "2", "--layers", "12"}));
  const Json& partition = json["partition"];
  EXPECT_EQ(partition["given"], Json({4, 4, 4}));
  EXPECT_LT(partition["chosen"][2], 4);
  EXPECT_EQ(partition["is_proven_best"], false);
  const Json& shown = json["plans"][json["shown_plan"].get<std::size_t>()];
  if (partition.contains("given_plan")) {
    EXPECT_LT(shown["energy_j"], partition["given_plan"]["energy_j"]);
  }
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["joint"]["partition"]["chosen"], partition["chosen"]);
  EXPECT_THAT(text("report.html"), HasSubstr("not proven best"));
  const ProgramResult verified = run_lowgear({"verify", out()});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("layers    12"));
}

TEST_F(PlanCommand, ThePlanOfTheGivenPartitionIsWhatItsOwnRunPlans) {
  write_text(folder_ / "profile.csv", profile_with_head());
  const Json own = planned(free_order({"--plans", "2"}));
  const std::string deadline = fmt::format("{}", 1.05 * own["frontier"]["fastest_s"].get<double>());
  const Json moved = planned(free_order({"--deadline", deadline, "--layers", "4,4,4"}));
  const Json kept = planned(free_order({"--deadline", deadline}));
  EXPECT_EQ(moved["baseline"]["time_s"], kept["baseline"]["time_s"]);
  EXPECT_EQ(moved["baseline"]["energy_j"], kept["baseline"]["energy_j"]);
  const double given_j = moved["partition"]["given_plan"]["energy_j"].get<double>();
  EXPECT_NEAR(given_j, kept["plans"][0]["energy_j"].get<double>(), 1e-9 * given_j);
  EXPECT_LT(moved["plans"][0]["energy_j"], given_j);
}

TEST_F(PlanCommand, LayersThatDoNotSumToTheProfileAreFound) {
  write_text(folder_ / "profile.csv", profile_with_head());
  ASSERT_EQ(plan(free_order({"--plans", "2", "--layers", "12"})).exit_code, 0);
  const auto verify_with = [&](const std::string& name, const std::string& changed) {
    const std::string before = text(name);
    write_text(folder_ / "out" / name, changed);
    const ProgramResult verified = run_lowgear({"verify", out()});
    write_text(folder_ / "out" / name, before);
    EXPECT_NE(verified.exit_code, 0) << name;
    return verified.err;
  };
  const std::string layers = text("layers.csv");
  std::string costlier = layers;
  const std::string row = "\n5,forward,1400,";
  ASSERT_NE(costlier.find(row), std::string::npos);
  costlier.insert(costlier.find(row) + row.size(), "1");
  EXPECT_THAT(verify_with("layers.csv", costlier), HasSubstr("of its layers sum to"));
  EXPECT_THAT(verify_with("layers.csv", layers + "12,forward,1400,1,1\n"), HasSubstr("13 layers"));
  EXPECT_THAT(verify_with("layers.csv", layers + "13,forward,1400,1,1\n"), HasSubstr("13 of 14 layers"));
  EXPECT_THAT(verify_with("layers.csv", layers + "3,forward,1400,1,1\n"), HasSubstr("twice"));
  EXPECT_THAT(verify_with("layers.csv", layers + "3,forward,900,0,1\n"), HasSubstr("above 0"));
  EXPECT_THAT(verify_with("layers.csv", layers + "-1,forward,1400,1,1\n"), HasSubstr("no layer"));
  EXPECT_THAT(verify_with("layers.csv", "layer,instruction,frequency,time,energy\n"), HasSubstr("0 layers"));

  Json run = parse_json(text("run.json"), "run.json");
  Json& chosen = run["joint"]["partition"]["chosen"];
  chosen[0] = chosen[0].get<int>() + 1;
  chosen[1] = chosen[1].get<int>() - 1;
  EXPECT_THAT(verify_with("run.json", run.dump()), HasSubstr("of its layers sum to"));
  run["joint"].erase("partition");
  EXPECT_THAT(verify_with("run.json", run.dump()), HasSubstr("partition"));
}

TEST_F(PlanCommand, BytesOfMemoryAreNotCountedWhereLayersMove) {
  const ProgramResult result = plan(free_order({"--layers", "12", "--memory-limit", "2GiB"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("2GiB"));
}

TEST_F(PlanCommand, WithoutSplitBackwardsAFreeOrderSaysWhatIsLeftOut) {
  const ProgramResult result = plan({"--schedule", "auto", "--plans", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--backward-split"));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanCommand, StagePlansSwitchLess) {
  const Json per_op = planned({"--slowdown", "3"});
  const Json per_stage = planned({"--slowdown", "3", "--granularity", "stage"});
  EXPECT_LT(per_stage["plans"][0]["switches"], per_op["plans"][0]["switches"]);
  EXPECT_GE(per_stage["plans"][0]["energy_j"], per_op["plans"][0]["energy_j"]);
}

TEST_F(PlanCommand, ADeadlineThatAPolicyMissesIsStatedAsMissed) {
  write_text(folder_ / "profile.csv", small_profile(3));
  const std::string out = (folder_ / "missed").string();
  const auto made = [&](const std::string& policy, const std::string& deadline) {
    return run_lowgear({"plan", "--profile", (folder_ / "profile.csv").string(), "--microbatches", "6",
                        "--blocking-power", "70", "--policy", policy, "--slowdown", deadline, "--perseus-unit", "0.01",
                        "--out", out, "--json"});
  };
  // It rounds times down to its unit, so that the replay of its plan takes longer.
  const ProgramResult missed = made("perseus", "0");
  ASSERT_EQ(missed.exit_code, 0) << missed.err;
  const Json json = parse_json(missed.out, "stdout");
  EXPECT_EQ(json["asked_deadline_kept"], false);
  EXPECT_LT(json["asked_deadline_s"], json["plans"][0]["time_s"]);
  const ProgramResult verified = run_lowgear({"verify", out});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("that was asked for is MISSED"));
  EXPECT_EQ(parse_json(run_lowgear({"verify", out, "--json"}).out, "stdout")["missed_deadline_s"],
            json["asked_deadline_s"]);

  const ProgramResult kept = made("lowgear", "5");
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_EQ(parse_json(kept.out, "stdout")["asked_deadline_kept"], true);
  EXPECT_THAT(run_lowgear({"verify", out}).out, HasSubstr("deadlines kept"));
}

TEST_F(PlanCommand, PerseusFilesReplayToTheSameFiguresSlowestFirst) {
  const Json json = planned({"--plans", "3", "--perseus-format"});
  for (int number = 0; number < 3; ++number) {
    const std::string file = "freqs_pipeline_0000" + std::to_string(2 - number) + ".py";
    const ProgramResult replayed = run_lowgear(
        pipeline_command("verify", profile_, 3, 6, {"--replay", (folder_ / "out" / file).string(), "--json"}));
    ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
    const Json figures = parse_json(replayed.out, "stdout");
    EXPECT_DOUBLE_EQ(figures["time_s"], json["plans"][number]["time_s"]);
    EXPECT_NEAR(figures["energy_j"], json["plans"][number]["energy_j"].get<double>(), 1e-6);
  }
}

TEST_F(PlanCommand, PerseusFilesAreWrittenForEitherReader) {
  const std::string first = "freqs_pipeline_00000.py";
  ASSERT_EQ(plan({"--plans", "3", "--perseus-format", "artifact"}).exit_code, 0);
  const std::string artifact = text(first);
  EXPECT_THAT(artifact, HasSubstr("# Iteration 0: cost change 0 \n"));
  EXPECT_THAT(text("freqs_pipeline_00002.py"), HasSubstr("# Iteration 2: refined cost "));
  ASSERT_EQ(plan({"--plans", "3", "--perseus-format", "zeus"}).exit_code, 0);
  EXPECT_THAT(text(first), HasSubstr("[('forward', "));
  const formats::PerseusPlan tuples = formats::read_perseus_plan(text(first), first);
  const formats::PerseusPlan clocks = formats::read_perseus_plan(artifact, first);
  ASSERT_EQ(tuples.stages.size(), clocks.stages.size());
  EXPECT_EQ(tuples.stages[0].front().kind, OpKind::forward);
  EXPECT_EQ(tuples.stages[0].back().kind, OpKind::backward);
  for (std::size_t stage = 0; stage < clocks.stages.size(); ++stage) {
    for (std::size_t i = 0; i < clocks.stages[stage].size(); ++i) {
      EXPECT_EQ(tuples.stages[stage][i].clock_mhz, clocks.stages[stage][i].clock_mhz);
    }
  }
  const ProgramResult other = plan({"--perseus-format", "lowtime"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("artifact or zeus"));
}

TEST_F(PlanCommand, WritesTheStepsOfEnvPipesReconfiguration) {
  const std::filesystem::path steps = folder_ / "steps.txt";
  ASSERT_EQ(plan({"--policy", "envpipe", "--envpipe-steps", steps.string()}).exit_code, 0);
  const std::string written = read_file(steps);
  EXPECT_THAT(written, testing::StartsWith("step 0\nStage 0 |"));
  EXPECT_THAT(written, HasSubstr("\nstep 10\n"));
  EXPECT_EQ(written.find("step 0\n"), written.rfind("step 0\n")) << "the comparison of policies repeats them";
}

TEST_F(PlanCommand, EnvPipePlansForAGpuThatItDoesNotList) {
  const std::string config = (folder_ / "ds.json").string();
  write_file_atomically(config, R"({"train_batch_size": 4, "envpipe": {"type": "envelope", "scheduling": "ours",
                     "reconfig": "balanced", "gpu": "newarch"}})");
  const ProgramResult refused = plan({"--policy", "envpipe", "--envpipe-config", config});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("newarch"), HasSubstr("--envpipe-start-clock and --envpipe-lowest-clock")));
  const ProgramResult planned =
      plan({"--policy", "envpipe", "--envpipe-config", config, "--envpipe-start-clock", "1305",
            "--envpipe-lowest-clock", "900", "--envpipe-profile-step", "45", "--envpipe-raise-step", "15"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
}

TEST_F(PlanCommand, PerseusFrontierIsPerseusOwn) {
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-unit", "0.001"}).exit_code, 0);
  const CsvTable table(text("frontier.csv"), "frontier.csv");
  ASSERT_GE(table.rows(), 2U);
  for (std::size_t row = 1; row < table.rows(); ++row) {
    EXPECT_NEAR(table.number(row, 0) - table.number(row - 1, 0), 0.001, 1e-9);
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "exact_frontier.csv"));
}

TEST_F(PlanCommand, WritesAPlanForEveryPointOfPerseusFrontier) {
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plans", "all"}).exit_code, 0);
  const CsvTable table(text("frontier.csv"), "frontier.csv");
  const auto name = [](std::size_t number) { return fmt::format("freqs_pipeline_{:05}.py", number); };
  for (std::size_t number = 0; number < table.rows(); ++number) {
    const std::string file = text(name(number));
    const std::string key = fmt::format("# Iteration {}: refined cost ", number);
    ASSERT_THAT(file, HasSubstr(key));
    const std::size_t row = table.rows() - 1 - number;  // frontier.csv has the fastest first
    EXPECT_NEAR(std::stod(file.substr(file.find(key) + key.size())), table.number(row, 1), 1e-6);
    EXPECT_EQ(formats::read_perseus_plan(file, name(number)).stages.size(), 3U);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / name(table.rows())));

  const std::string every_third = text(name(3));
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plans", "every:3"}).exit_code, 0);
  EXPECT_EQ(text(name(3)), every_third);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / name(2)));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / name(table.rows() - 1)));
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plans", "2", "--perseus-format", "zeus"}).exit_code, 0);
  EXPECT_THAT(text(name(0)), HasSubstr("[('forward', "));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanCommand, DrawsHowPerseusPlans) {
  ASSERT_EQ(plan({"--policy", "perseus", "--perseus-plots", "2"}).exit_code, 0);
  const std::string page = text("perseus.html");
  EXPECT_THAT(page, HasSubstr("How Perseus' planner finds its plans"));
  EXPECT_THAT(page, HasSubstr("Iteration 0 of the search"));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  ASSERT_EQ(plan({"--policy", "perseus"}).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "perseus.html")) << "of the run before";
  const ProgramResult own = plan({"--perseus-plots", "2"});
  EXPECT_EQ(own.exit_code, 2);
  EXPECT_THAT(own.err, HasSubstr("--policy perseus"));
}

TEST_F(PlanCommand, TakesTheOptionsOfLowtime) {
  const Json tolerant =
      planned({"--policy", "perseus", "--perseus-noise-factor", "0.9", "--perseus-always-use-noise-factor"});
  EXPECT_GT(tolerant["plans"][0]["time_s"], 0);
  const std::string guess = write_text(folder_ / "guess.py", "{'Forward': [(1, -0.1)]}");
  const ProgramResult broken = plan({"--policy", "perseus", "--perseus-initial-guess", guess});
  EXPECT_EQ(broken.exit_code, 2);
  EXPECT_THAT(broken.err, HasSubstr("guess.py:1:"));
  write_text(folder_ / "guess.py", "{'Forward': [(1, -0.1, 1)] * 3}");
  EXPECT_EQ(plan({"--policy", "perseus", "--perseus-initial-guess", guess}).exit_code, 2) << "not evaluated";
  write_text(folder_ / "guess.py", "{'Forward': [(1, -0.1, 1)]}");
  const ProgramResult lacking = plan({"--policy", "perseus", "--perseus-initial-guess", guess});
  EXPECT_EQ(lacking.exit_code, 2);
  EXPECT_EQ(plan({"--policy", "perseus", "--perseus-noise-factor", "1.5"}).exit_code, 2);
}

TEST_F(PlanCommand, RefusesPlansOfPerseusFrontierForOtherPolicies) {
  const ProgramResult own = plan({"--perseus-plans", "all"});
  EXPECT_EQ(own.exit_code, 2);
  EXPECT_THAT(own.err, HasSubstr("--policy perseus"));
  const ProgramResult number = plan({"--policy", "perseus", "--perseus-plans", "none"});
  EXPECT_EQ(number.exit_code, 2);
  EXPECT_THAT(number.err, HasSubstr("every:50"));
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
  const ProgramResult foreign = plan();
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_THAT(foreign.err, HasSubstr("out: contains \"model.safetensors\", which no earlier run lists"));
  EXPECT_EQ(text("model.safetensors"), "weeks of training");
  std::filesystem::remove_all(folder_ / "out");

  ASSERT_EQ(plan().exit_code, 0);
  write_text(folder_ / "out" / "notes.txt", "a thought");
  const ProgramResult with_notes = plan();
  EXPECT_EQ(with_notes.exit_code, 2);
  EXPECT_THAT(with_notes.err, HasSubstr("contains \"notes.txt\""));
  EXPECT_EQ(text("notes.txt"), "a thought");
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0) << "and the earlier run is whole";
}

TEST_F(PlanCommand, ReportReplacesNoFileOfOthers) {
  ASSERT_EQ(plan().exit_code, 0);
  std::filesystem::remove(folder_ / "out" / "lowgear-files.json");
  write_text(folder_ / "out" / "report.html", "mine");
  const ProgramResult result = run_lowgear({"runs", "report", out()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("report.html: exists, and no earlier run lists it"));
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
}

TEST_F(PlanCommand, VerifyMissesPlansThatTheTableLost) {
  ASSERT_EQ(plan().exit_code, 0);
  std::string table = text("plans.csv");
  table.erase(table.rfind('\n', table.size() - 2) + 1);
  write_text(folder_ / "out" / "plans.csv", table);
  const ProgramResult result = run_lowgear({"verify", out()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("and the folder holds"));
}

TEST_F(PlanCommand, TakesASchedulesSizeFromItsFile) {
  const std::string file = (folder_ / "schedule.csv").string();
  ASSERT_EQ(
      run_lowgear({"show", "--schedule", "1f1b", "--stages", "3", "--microbatches", "6", "--out", file}).exit_code, 0);
  const ProgramResult result =
      run_lowgear({"plan", "--profile", profile_, "--schedule", file, "--blocking-power", "70", "--out", out()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string frontier = text("frontier.csv");
  ASSERT_EQ(plan().exit_code, 0);
  EXPECT_EQ(text("frontier.csv"), frontier);
}

TEST_F(PlanCommand, PlansForSchedulesThatRecompute) {
  for (const std::string schedule : {"merak-1f1b", "merak-full-critical-path"}) {
    const ProgramResult planned = plan({"--schedule", schedule, "--recomputation-share", "0.9", "--plans", "2"});
    ASSERT_EQ(planned.exit_code, 0) << schedule;
    EXPECT_THAT(planned.out, testing::Not(HasSubstr("lowgear train"))) << "which refuses it";
    EXPECT_THAT(text("schedule.csv"), HasSubstr("C"));
    EXPECT_THAT(text("profile.csv"), HasSubstr("\n2,recomputing_backward,"));
    EXPECT_THAT(text("plans/00001.json"), HasSubstr("\"recomputing_backward\""));
    const ProgramResult verified = run_lowgear({"verify", out()});
    EXPECT_EQ(verified.exit_code, 0) << verified.err;
    const std::string trace = (folder_ / "trace.json").string();
    const ProgramResult replayed = run_lowgear({"verify", "--replay", out() + "/plans/00001.json", "--profile",
                                                out() + "/profile.csv", "--blocking-power", "70", "--trace", trace});
    EXPECT_EQ(replayed.exit_code, 0) << replayed.err;
    EXPECT_THAT(read_file(trace), HasSubstr("\"name\":\"C1\",\"cat\":\"recomputing_backward\""));
  }
  EXPECT_THAT(text("schedule.csv"), HasSubstr("1R0,1B0"));
  EXPECT_THAT(text("report.html"), HasSubstr("recomputation"));
}

TEST_F(PlanCommand, RefusesRecomputationsWithoutTheirCost) {
  const ProgramResult result = plan({"--schedule", "merak-early-recompute"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_THAT(result.err, HasSubstr("recomputation_share"));
}

TEST_F(PlanCommand, TakesStagesFromTheProfileAndNamesInAnyCase) {
  const ProgramResult result =
      run_lowgear({"plan", "--profile", profile_, "--microbatches", "6", "--schedule", "1F1B", "--policy", "Lowgear",
                   "--granularity", "OP", "--blocking-power", "70", "--out", out()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string frontier = text("frontier.csv");
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["schedule"], "1f1b");
  ASSERT_EQ(plan().exit_code, 0);
  EXPECT_EQ(text("frontier.csv"), frontier);
}

TEST_F(PlanCommand, SaysWhatItPlansAndWhichRunItReplaces) {
  const ProgramResult first = plan({"--plans", "1"});
  EXPECT_THAT(first.out, StartsWith("pipeline  3 stages on 3 ranks, 6 microbatches, 1f1b\nfrontier  "));
  EXPECT_THAT(first.out, HasSubstr("\nplans     1, proven within"));
  EXPECT_THAT(first.out, testing::Not(HasSubstr("-0.00 %")));
  EXPECT_EQ(first.err, "");
  EXPECT_THAT(plan({"--plans", "1"}).err,
              HasSubstr("replaced " + out() + " (6 microbatches, 3 stages, 1f1b, of profile.csv)"));
}

TEST_F(PlanCommand, WarnsOfAGpuThatIsNotKnown) {
  EXPECT_THAT(plan({"--plans", "1", "--gpu", "foo"}).err, HasSubstr("--gpu foo: not a GPU that is known"));
  EXPECT_THAT(plan({"--plans", "1", "--gpu", "NVIDIA L4000"}).err, testing::Not(HasSubstr("not a GPU")));
}

TEST_F(PlanCommand, SaysWhatToDoNext) {
  const ProgramResult result = plan();
  EXPECT_THAT(result.out, HasSubstr("\nnext      "));
  EXPECT_THAT(result.out, HasSubstr("lowgear verify " + out()));
}

TEST_F(PlanCommand, WarnsOfUnitsThatCannotBe) {
  EXPECT_EQ(plan().err, "");
  const auto with_power = [&](const std::string& blocking_power, std::vector<std::string> others = {}) {
    others.insert(others.begin(), {"plan", profile_, "--microbatches", "4", "--blocking-power", blocking_power,
                                   "--plans", "1", "--out", out()});
    return run_lowgear(others);
  };
  const ProgramResult milliwatts = with_power("75000");
  EXPECT_EQ(milliwatts.exit_code, 2);
  EXPECT_THAT(milliwatts.err, testing::AllOf(HasSubstr("check --blocking-power: 75000 W"), HasSubstr("milliwatts"),
                                             HasSubstr(", 75, or"), HasSubstr("--accept-units")));
  const ProgramResult accepted = with_power("75000", {"--accept-units"});
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_EQ(lines_of(accepted.err).size(), 2U) << accepted.err << "with the run that is replaced";
  EXPECT_THAT(accepted.err, HasSubstr("warning: check --blocking-power: 75000 W"));
  EXPECT_THAT(text("report.html"), HasSubstr("check "));
  std::string milliseconds = "stage,instruction,frequency,time,energy\n";
  for (const char* const row :
       {"0,forward,1400,40,12", "0,forward,1000,50,11", "0,backward,1400,80,24", "0,backward,1000,100,22"}) {
    milliseconds += std::string(row) + "\n";
  }
  const ProgramResult refused = run_lowgear({"plan", "--profile", write_text(folder_ / "ms.csv", milliseconds),
                                             "--microbatches", "4", "--blocking-power", "70", "--out", out()});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("ms.csv: check the units of the profile: its ops draw"));
  EXPECT_THAT(refused.err, HasSubstr("milliseconds"));
}

/// Two stages at three clocks, times at 1200 MHz 10 % too short.
constexpr const char* kTooFastAt1200 =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.05,18\n0,forward,1200,0.0497,15.27\n0,forward,990,0.0627,12.98\n"
    "0,backward,1410,0.1,38\n0,backward,1200,0.0995,32.24\n0,backward,990,0.1255,27.4\n"
    "1,forward,1410,0.054,19.4\n1,forward,1200,0.0537,16.5\n1,forward,990,0.0677,14\n"
    "1,backward,1410,0.108,41\n1,backward,1200,0.1074,34.8\n1,backward,990,0.1355,29.6\n";

TEST_F(PlanCommand, SaysThatAPlanIsFasterThanFullClocks) {
  const std::string profile = write_text(folder_ / "fast.csv", kTooFastAt1200);
  const std::vector<std::string> pipeline = {"--profile", profile, "--microbatches", "4", "--blocking-power", "80"};
  const auto run = [&](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), pipeline.begin(), pipeline.end());
    words.insert(words.end(), more.begin(), more.end());
    const ProgramResult result = run_lowgear(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("less than the ")) << words.front();
    EXPECT_THAT(result.err, HasSubstr("of all clocks at their highest (-0.")) << words.front();
    EXPECT_THAT(result.err, HasSubstr("warning: " + profile + ":3: stage 0 forward at 1200 MHz takes 0.0497 s"));
    return result;
  };
  const Json planned = parse_json(run({"plan"}, {"--plans", "2", "--out", out(), "--json"}).out, "plan");
  EXPECT_THAT(planned["warnings"].dump(), HasSubstr("all clocks at their highest"));
  EXPECT_THAT(text("report.html"), HasSubstr("all clocks at their highest (-0."));
  const Json compared = parse_json(run({"compare"}, {"--json"}).out, "compare");
  EXPECT_THAT(compared["warnings"].dump(), HasSubstr("all clocks at their highest"));
  const ProgramResult replanned =
      run_lowgear({"plan", "--change", out(), "--layers", "8", "--keep-partition", "--json"});
  EXPECT_EQ(replanned.exit_code, 0) << replanned.err;
  EXPECT_THAT(replanned.err, HasSubstr("warning: a plan takes"));
}

TEST_F(PlanCommand, RefusesARowThatNoGpuCanHaveMeasured) {
  std::string csv = kTooFastAt1200;
  csv.replace(csv.find("0.1,38"), 6, "0.1,38000");
  const std::string profile = write_text(folder_ / "kilojoules.csv", csv);
  for (const char* const command : {"plan", "compare", "inspect", "schedule"}) {
    std::vector<std::string> words = {command, "--profile", profile};
    if (words.front() != "inspect") words.insert(words.end(), {"--microbatches", "4", "--stages", "2"});
    if (words.front() == "plan") words.insert(words.end(), {"--out", out()});
    if (words.front() == "plan" || words.front() == "compare") words.insert(words.end(), {"--blocking-power", "80"});
    const ProgramResult result = run_lowgear(words);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, HasSubstr(profile + ":5: stage 0 backward at 1410 MHz draws 380000 W")) << command;
  }
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
  const ProgramResult result = run_lowgear(pipeline_command("plan", profile, 3, 6, {"--plans", "3", "--out", out()}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanCommand, TheReportMarksOrdersOfTheirOwnAndHasLowgearsPlanInThem) {
  ASSERT_EQ(plan({"--extra-activations", "4"}).exit_code, 0);
  const Json run = parse_json(text("run.json"), "run.json");
  const auto& rows = run["policies"];
  const auto envpipe =
      std::find_if(rows.begin(), rows.end(), [](const Json& row) { return row["policy"] == "envpipe"; });
  ASSERT_NE(envpipe, rows.end());
  EXPECT_EQ((*envpipe)["own_order"], true);
  const auto ours = std::next(envpipe);
  ASSERT_NE(ours, rows.end());
  EXPECT_EQ((*ours)["policy"], "lowgear (time and order of envpipe)");
  EXPECT_EQ((*ours)["own_order"], true);
  EXPECT_EQ((*ours)["peak_activations"], (*envpipe)["peak_activations"]);
  EXPECT_LE((*ours)["energy_j"].get<double>(), (*envpipe)["energy_j"].get<double>() * (1 + 1e-9));
  EXPECT_EQ(rows[0].contains("own_order"), false);
  EXPECT_EQ(rows[0]["peak_activations"], 3);
}

TEST_F(PlanCommand, TakesBlockingPowerByRank) {
  const std::string file = write_text(folder_ / "power.csv", "stage,blocking_power\n2,72\n0,70\n1,71\n");
  const ProgramResult result = run_lowgear({"plan", "--profile", profile_, "--stages", "3", "--microbatches", "4",
                                            "--blocking-power", file, "--out", out()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["blocking_power_w"], Json({70.0, 71.0, 72.0}));
}

TEST_F(PlanCommand, PlansForClocksThatAreRequestedAheadOfAnAssumedLatency) {
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
              testing::AllOf(HasSubstr("clocks    change 25 ms after the request (assumed"),
                             HasSubstr("The agent requests each that long before its unit")));
  EXPECT_THAT(text("report.html"), HasSubstr("\"clock_lead_s\":0.025"));
}

TEST_F(PlanCommand, PlansWithTheSwitchLatencyOfTheProfile) {
  std::string with_latency;
  for (const std::string& line : lines_of(small_profile(3))) {
    with_latency += line + (with_latency.empty() ? ",switch_latency\n" : ",0.02\n");
  }
  write_text(profile_, with_latency);
  const Json summary = planned({"--plans", "3", "--no-ask-ahead"});
  EXPECT_EQ(summary["switch_latency"],
            Json({{"source", "profile"}, {"latency_s", 0.02}, {"planned_with_s", 0.02}, {"asked_ahead_s", 0.0}}));
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["switch_latency_s"], 0.02);
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
  EXPECT_THAT(plan({"--plans", "1", "--switch-latency", "instant"}).out, HasSubstr("change at once"));
}

TEST_F(PlanCommand, PlansAsIfClocksChangedAtOnceWhereTheAgentRequestsThemAhead) {
  const Json at_once = planned({"--plans", "3", "--switch-latency", "instant"});
  const Json ahead = planned({"--plans", "3", "--switch-latency", "20ms"});
  EXPECT_EQ(ahead["switch_latency"]["asked_ahead_s"], 0.02);
  EXPECT_EQ(ahead["plans"], at_once["plans"]);
  EXPECT_EQ(parse_json(text("plans/00001.json"), "plan")["clock_lead_s"], 0.02);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  const ProgramResult replayed = run_lowgear({"verify", "--replay", out() + "/plans/00001.json", "--profile", profile_,
                                              "--blocking-power", "70", "--switch-latency", "20", "--json"});
  EXPECT_NEAR(parse_json(replayed.out, "stdout")["time_s"].get<double>(), ahead["plans"][1]["time_s"].get<double>(),
              1e-9)
      << "as late as the clocks are requested ahead";
}

TEST_F(PlanCommand, RequestsNothingAheadOfAVeryLongLatency) {
  const ProgramResult too_long = plan({"--plans", "3", "--switch-latency", "20s"});
  EXPECT_EQ(too_long.exit_code, 2);
  EXPECT_THAT(too_long.err,
              testing::AllOf(HasSubstr("at most 10 s before their units, not 20 s"), HasSubstr("--no-ask-ahead")));
}

TEST_F(PlanCommand, NeedsAProfileAndMicrobatchesAlone) {
  const ProgramResult nothing = run_lowgear({"plan"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("missing: the profile, a CSV file and --microbatches N"));
  const ProgramResult result = run_lowgear({"plan", profile_, "--microbatches", "6", "--out", out()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("blocking power: assumed "));
  EXPECT_THAT(text("report.html"), HasSubstr("blocking power: assumed "));
}

TEST_F(PlanCommand, TakesTheBlockingPowerOfTheProfileOrTheGpu) {
  const auto powers_w = [&](std::vector<std::string> others) {
    others.insert(others.begin(), {"plan", profile_, "--microbatches", "6", "--plans", "1", "--out", out()});
    const ProgramResult result = run_lowgear(others);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(text("run.json"), "run.json")["blocking_power_w"];
  };
  EXPECT_EQ(powers_w({"--blocking-power", "0.07kW"}), Json({70.0, 70.0, 70.0}));
  EXPECT_EQ(powers_w({"--gpu", "a100-80gb-sxm"}), Json({83.64, 83.64, 83.64}));
  std::string with_power;
  for (const std::string& line : lines_of(small_profile(3))) {
    with_power += line + (with_power.empty() ? ",blocking_power\n" : fmt::format(",{}\n", 60 + (line[0] - '0')));
  }
  write_text(profile_, with_power);
  EXPECT_EQ(powers_w({"--gpu", "a100-80gb-sxm"}), Json({60.0, 61.0, 62.0}));
}

TEST_F(PlanCommand, AsksWhetherASmallSlowdownIsAShare) {
  const ProgramResult asked = plan({"--slowdown", "0.05"});
  EXPECT_EQ(asked.exit_code, 2);
  EXPECT_THAT(asked.err, testing::AllOf(HasSubstr("--slowdown"), HasSubstr("0.05%"), HasSubstr("5%")));
  EXPECT_EQ(planned({"--slowdown", "0.05%"})["plans"].size(), 1U);
  EXPECT_EQ(planned({"--slowdown", "5%"})["plans"], planned({"--slowdown", "5"})["plans"]);
}

TEST_F(PlanCommand, PlansAProfileWhoseTopClockIsSlowerThanTheNext) {
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
  EXPECT_EQ(summary["plans"].size(), 4U);
  EXPECT_GE(summary["plans"][0]["time_s"].get<double>(), summary["frontier"]["fastest_s"].get<double>() - 1e-9);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  const ProgramResult refused = plan({"--switch-latency", "25", "--no-ask-ahead", "--deadline", "0.1"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("T_min"));
}

}  // namespace
}  // namespace lowgear::cli
