#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

/// Two replicas of two stages with three microbatches, whose second replica is longer in every other step.
class PlanSteps : public ::testing::Test {
 protected:
  PlanSteps() {
    std::string lengths = "step,replica,microbatch,lengths\n";
    std::string trace = "step,dp_rank,stage,op,microbatch,duration_us\n";
    for (int step = 0; step < 8; ++step) {
      for (int replica = 0; replica < 2; ++replica) {
        for (int microbatch = 0; microbatch < 3; ++microbatch) {
          const int tokens = 1000 + 400 * microbatch + (replica == step % 2 ? 900 : 0);
          const std::string place = std::to_string(step) + ',' + std::to_string(replica) + ',';
          lengths += place + std::to_string(microbatch) + ",500 " + std::to_string(tokens - 500) + '\n';
          for (int stage = 0; stage < 2; ++stage) {
            for (const bool forward : {true, false}) {
              trace += place + std::to_string(stage) + (forward ? ",forward-compute," : ",backward-compute,") +
                       std::to_string(microbatch) + ',' + std::to_string(tokens * (forward ? 40 : 80)) + '\n';
            }
          }
        }
      }
    }
    profile_ = write_text(folder_ / "profile.csv", small_profile(2));
    lengths_ = write_text(folder_ / "lengths.csv", lengths);
    trace_ = write_text(folder_ / "trace.csv", trace);
  }

  [[nodiscard]] ProgramResult plan(const std::string& lengths, std::vector<std::string> others = {}) const {
    std::vector<std::string> command{"plan", profile_, "--lengths", lengths, "--blocking-power", "70", "--out", out()};
    command.insert(command.end(), others.begin(), others.end());
    return run_lowgear(command);
  }
  [[nodiscard]] std::string out() const { return (folder_ / "out").string(); }

  TemporaryFolder folder_;
  std::string profile_, lengths_, trace_;
};

TEST_F(PlanSteps, PlansLengthsVerifiesAndReports) {
  const ProgramResult result = plan(lengths_, {"--recorded", trace_, "--fit-steps", "4", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["deals"]["given"]["recorded_held_out"]["steps"], 4);
  EXPECT_LT(json["deals"]["given"]["recorded_held_out"]["energy_pct"], -3);
  EXPECT_LT(json["deals"]["given"]["recorded_held_out"]["mean_lateness_pct"], 0.5);
  EXPECT_FALSE(json["amounts_inferred"]);
  const std::string page = read_file(folder_ / "out/report.html");
  EXPECT_NE(page.find("Four states of the same steps"), std::string::npos);
  EXPECT_NE(page.find("of 4 steps (replayed with recorded times, steps that the fit has not seen)"), std::string::npos);
  EXPECT_NE(page.find("both against full clocks as dealt"), std::string::npos);
  EXPECT_NE(read_file(folder_ / "out/profile.csv").find("blocking_power"), std::string::npos);

  const ProgramResult verified = run_lowgear({"verify", out(), "--json"});
  EXPECT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_EQ(parse_json(verified.out, "stdout")["replicas"], 8 * 2 * 2);

  std::string table = read_file(folder_ / "out/steps.csv");
  const std::size_t row = table.find("\n5,balanced,0,") + 14;
  table[row] = table[row] == '9' ? '8' : '9';
  write_text(folder_ / "out/steps.csv", table);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 1);
}

TEST_F(PlanSteps, SaysThatItsProfileIsOfSimulatedGpus) {
  std::string profile;
  for (const std::string& line : lines_of(read_file(profile_))) {
    profile += line + (profile.empty() ? ",origin\n" : ",simulated\n");
  }
  write_text(profile_, profile);
  for (const ProgramResult& result : {plan(lengths_, {"--recorded", trace_}), run_lowgear({"verify", out()})}) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("simulated, not measured"), std::string::npos) << result.out;
  }
}

TEST_F(PlanSteps, PlansATraceWithOneClockPerReplica) {
  const ProgramResult result = plan(trace_, {"--clocks-per", "replica", "--no-ask-ahead", "--switch-latency", "10ms"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("the trace states no lengths"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("nobody could have planned it beforehand):"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("one per replica, changed 10 ms after their units begin"), std::string::npos) << result.out;
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanSteps, AStepWithBadLengthsRunsAtFullClocksAndSaysWhy) {
  write_text(lengths_, read_file(lengths_) + "9,0,0,500\n");
  const ProgramResult result = plan(lengths_, {"--recorded", trace_});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("step 9 runs at full clocks: microbatch 1 of replica 0 is missing"), std::string::npos)
      << result.err;
  EXPECT_NE(result.out.find("steps     9, of which 4 were fitted and 1 run at full clocks"), std::string::npos)
      << result.out;
  EXPECT_NE(read_file(folder_ / "out/steps.csv").find("microbatch 1 of replica 0 is missing"), std::string::npos);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
}

TEST_F(PlanSteps, ARecordedStepThatLacksAUnitIsNamed) {
  const std::string trace = read_file(trace_);
  write_text(trace_, trace.substr(0, trace.rfind('\n', trace.size() - 2) + 1));
  const ProgramResult result = plan(lengths_, {"--recorded", trace_});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("a step is taken as not recorded: step 7: replica 1 has no backward"), std::string::npos)
      << result.err;
  std::filesystem::remove(folder_ / "out/replicas.csv");
  EXPECT_NE(run_lowgear({"verify", out()}).err.find("replicas.csv"), std::string::npos);
}

TEST_F(PlanSteps, PlansLoadsOfExpertsByTheStepsBefore) {
  std::string by_rank[2];
  for (int step = 0; step < 8; ++step) {
    for (int place = 0; place < 12; ++place) {
      const int replica = place / 6, microbatch = place / 2 % 3, layer = place % 2;
      const int most = 1000 + 400 * microbatch + (replica == step % 2 ? 900 : 0);
      by_rank[layer] += std::to_string(step) + ',' + std::to_string(replica) + ',' + std::to_string(microbatch) + ',' +
                        std::to_string(layer) + ',' + std::to_string(most - 100) + " 100 300 " + std::to_string(place) +
                        '\n';
    }
  }
  std::filesystem::create_directory(folder_ / "rec");
  for (const int rank : {0, 1}) {
    write_text(folder_ / "rec" / ("expert_loads-0000" + std::to_string(rank) + ".csv"),
               "step,replica,microbatch,layer,expert_tokens\n" + by_rank[rank]);
  }
  std::filesystem::create_directory(folder_ / "rec/expert_loads-00002.csv");
  write_text(folder_ / "rec/expert_loads-00000.csv.bak", "no table");
  const std::string loads = (folder_ / "rec").string();
  const ProgramResult result =
      plan(loads, {"--recorded", trace_, "--expert-ranks", "2", "--predict", "last", "--late-steps", "100", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["foresight"], "last");
  EXPECT_NE(result.err.find("states no stages: layers 0 to 1 are taken to be divided evenly among 2 stages"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(json["safe_steps"], 1);
  EXPECT_FALSE(json["deals"].contains("balanced"));
  EXPECT_NE(result.err.find("step 0 runs at full clocks: no step before it states its amounts"), std::string::npos);
  const std::string page = read_file(folder_ / "out/report.html");
  EXPECT_NE(page.find("Clocks predicted from the steps before"), std::string::npos);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  EXPECT_EQ(page.find("Microbatches dealt anew"), std::string::npos);

  // The last two steps were not recorded, and step 5 lacks a layer of a microbatch.
  const std::string trace = read_file(trace_);
  const std::string some = write_text(folder_ / "some.csv", trace.substr(0, trace.find("\n6,") + 1));
  const std::string first = read_file(folder_ / "rec/expert_loads-00000.csv");
  std::string lacking = first;
  lacking.erase(lacking.find("\n5,1,2,"), lacking.find('\n', lacking.find("\n5,1,2,") + 1) - lacking.find("\n5,1,2,"));
  write_text(folder_ / "rec/expert_loads-00000.csv", lacking);
  const ProgramResult replayed = plan(loads, {"--recorded", some, "--fit-steps", "3", "--expert-ranks", "2",
                                              "--predict", "last", "--late-steps", "0%", "--json"});
  ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
  EXPECT_NE(replayed.err.find("step 5 is not replayed: layer 0 of microbatch 2 of replica 1 is missing"),
            std::string::npos)
      << replayed.err;
  EXPECT_NE(replayed.err.find("as dealt: 2 of 4 other replayed steps end late"), std::string::npos) << replayed.err;
  const Json given = parse_json(replayed.out, "stdout")["deals"]["given"];
  EXPECT_EQ(given["recorded"]["steps"], 5);
  EXPECT_EQ(given["recorded_held_out"]["steps"], 2);
  EXPECT_EQ(given["replayed_by_fit"]["steps"], 2);
  EXPECT_EQ(run_lowgear({"verify", out()}).exit_code, 0);
  write_text(folder_ / "rec/expert_loads-00000.csv", first);
  std::filesystem::remove(folder_ / "out/amounts.csv");
  EXPECT_NE(run_lowgear({"verify", out()}).err.find("amounts.csv"), std::string::npos);

  const auto refusal = [&](const std::string& lengths, std::vector<std::string> others) {
    return refusal_of(plan(lengths, std::move(others)));
  };
  EXPECT_NE(refusal(loads, {"--recorded", trace_}).find("add --expert-ranks N"), std::string::npos);
  EXPECT_NE(refusal(lengths_, {"--recorded", trace_, "--expert-ranks", "2"}).find("goes with loads"),
            std::string::npos);
  EXPECT_NE(refusal(trace_, {"--predict", "last"}).find("names a trace, which states none"), std::string::npos);
  EXPECT_NE(refusal(loads, {"--recorded", trace_, "--expert-ranks", "3"}).find("among 3 ranks"), std::string::npos);
  EXPECT_NE(refusal(folder_.path().string(), {"--recorded", trace_}).find("without expert_loads-*.csv"),
            std::string::npos);
}

TEST_F(PlanSteps, SaysWhatDoesNotGoTogether) {
  EXPECT_NE(refusal_of(plan(lengths_)).find("add --recorded FILE"), std::string::npos);
  EXPECT_NE(refusal_of(plan(trace_, {"--recorded", trace_})).find("names a trace"), std::string::npos);
  EXPECT_NE(refusal_of(plan(trace_, {"--deadline", "3"})).find("--deadline"), std::string::npos);
  EXPECT_NE(refusal_of(run_lowgear({"plan", profile_, "--microbatches", "4", "--fit-steps", "4", "--out", out()}))
                .find("--fit-steps: goes with --lengths"),
            std::string::npos);
  write_text(profile_, small_profile(3));
  EXPECT_NE(refusal_of(plan(trace_)).find("has 3 stages, and the steps have 2"), std::string::npos);
}

}  // namespace
}  // namespace lowgear::cli
