#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "app/cli/commands/plan_command_fixture.h"
#include "app/cli/run_lowgear.h"
#include "base/core/formats/json.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;

class PlanFreeOrder : public PlanCommand {};

std::vector<std::string> free_order(std::vector<std::string> others = {}) {
  others.insert(others.end(), {"--schedule", "auto", "--backward-split", "0.5"});
  return others;
}

TEST_F(PlanFreeOrder, AFreeOrderWritesEachOrderWithItsProof) {
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

TEST_F(PlanFreeOrder, AFreeOrderIsNeverWorseThanOneFOneBInItsTime) {
  const Json fixed = planned({"--plans", "1"});
  const Json free = planned(free_order({"--deadline", fixed["plans"][0]["deadline_s"].dump()}));
  EXPECT_LE(free["plans"][0]["time_s"], fixed["plans"][0]["deadline_s"]);
  EXPECT_LT(free["plans"][0]["energy_j"], fixed["plans"][0]["energy_j"]);
}

TEST_F(PlanFreeOrder, APlanOfAFreeOrderReplaysToItsFiguresInItsOrder) {
  const Json json = planned(free_order({"--plans", "3", "--memory-limit", "4"}));
  for (int number = 0; number < 3; ++number) {
    const std::string file = (folder_ / "out" / fmt::format("plans/{:05}.json", number)).string();
    const Json figures = json_of(
        {"verify", "--profile", profile_, "--blocking-power", "70", "--backward-split", "0.5", "--replay", file});
    EXPECT_NEAR(figures["time_s"], json["plans"][number]["time_s"].get<double>(), 1e-9);
    EXPECT_NEAR(figures["energy_j"], json["plans"][number]["energy_j"].get<double>(), 1e-6);
  }
}

TEST_F(PlanFreeOrder, AFreeOrdersReportComparesLateClocksWithItsOwnBaseline) {
  const ProgramResult result = plan(free_order({"--plans", "2", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  const std::string file = (folder_ / "out" / fmt::format("plans/{:05}.json", json["shown_plan"].get<int>())).string();
  // Requested 25 ms ahead and 50 ms late: as if requested when units begin.
  const Json figures = json_of({"verify", "--profile", profile_, "--blocking-power", "70", "--backward-split", "0.5",
                                "--replay", file, "--switch-latency", "50"});
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

TEST_F(PlanFreeOrder, AFreeOrderThatDoesNotFitItsStatedMemoryIsFound) {
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

TEST_F(PlanFreeOrder, AJointFrontierAboveAnOrderIsFound) {
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

TEST_F(PlanFreeOrder, AFreeOrdersPlansAreCloseToTheBoundOfAllOrders) {
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

TEST_F(PlanFreeOrder, ABoundOfAllOrdersThatIsNotProvenIsFound) {
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

TEST_F(PlanFreeOrder, ABaselineOfAFreeOrderThatIsNotIsFound) {
  for (const std::vector<std::string>& options : {free_order(), std::vector<std::string>{"--schedule", "auto"}}) {
    ASSERT_EQ(plan(options).exit_code, 0);
    EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
    Json run = parse_json(text("run.json"), "run.json");
    run["joint"]["baseline"]["energy_j"] = 1.01 * run["joint"]["baseline"]["energy_j"].get<double>();
    write_text(folder_ / "out" / "run.json", run.dump());
    EXPECT_THAT(run_lowgear({"verify", out()}).err, HasSubstr("1F1B with every op at its highest clock takes"));
  }
}

TEST_F(PlanFreeOrder, AFreeOrderSaysHowFastItCanBe) {
  const ProgramResult fastest = plan(free_order({"--plans", "2", "--json"}));
  ASSERT_EQ(fastest.exit_code, 0) << fastest.err;
  const Json json = parse_json(fastest.out, "stdout");
  const double fastest_s = json["frontier"]["fastest_s"].get<double>();
  EXPECT_THAT(refusal_of(plan(free_order({"--deadline", fmt::format("{}", 0.99 * fastest_s)}))),
              HasSubstr("the orders that were found, is " + fmt::format("{}", fastest_s).substr(0, 6)));
}

TEST_F(PlanFreeOrder, AFreeOrderTakesNoEmptyLimit) {
  EXPECT_THAT(refusal_of(plan(free_order({"--memory-limit", ""}))), HasSubstr("--memory-limit"));
}

TEST_F(PlanFreeOrder, AFreeOrderNeedsEveryStageTrained) {
  write_text(folder_ / "frozen.csv",
             "stage,instruction,frequency,time,energy\n0,forward,1410,0.1,30\n1,forward,1410,0.1,30\n"
             "1,backward,1410,0.2,60\n");
  EXPECT_THAT(refusal_of({"plan", "--profile", (folder_ / "frozen.csv").string(), "--microbatches", "4",
                          "--blocking-power", "80", "--schedule", "auto", "--out", out()}),
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

TEST_F(PlanFreeOrder, LayersMoveFromTheRankWithTheHead) {
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

TEST_F(PlanFreeOrder, ThePlanOfTheGivenPartitionIsWhatItsOwnRunPlans) {
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

TEST_F(PlanFreeOrder, LayersThatDoNotSumToTheProfileAreFound) {
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

TEST_F(PlanFreeOrder, BytesOfMemoryAreNotCountedWhereLayersMove) {
  EXPECT_THAT(refusal_of(plan(free_order({"--layers", "12", "--memory-limit", "2GiB"}))), HasSubstr("2GiB"));
}

TEST_F(PlanFreeOrder, WithoutSplitBackwardsAFreeOrderSaysWhatIsLeftOut) {
  const ProgramResult result = plan({"--schedule", "auto", "--plans", "2"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--backward-split"));
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

}  // namespace
}  // namespace lowgear::cli
