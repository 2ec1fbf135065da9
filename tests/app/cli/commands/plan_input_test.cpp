#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/cli/commands/plan_command_fixture.h"
#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;

class PlanInput : public PlanCommand {};

TEST_F(PlanInput, TakesASchedulesSizeFromItsFile) {
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

TEST_F(PlanInput, PlansForSchedulesThatRecompute) {
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

TEST_F(PlanInput, RefusesRecomputationsWithoutTheirCost) {
  const ProgramResult result = plan({"--schedule", "merak-early-recompute"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_THAT(result.err, HasSubstr("recomputation_share"));
}

TEST_F(PlanInput, TakesStagesFromTheProfileAndNamesInAnyCase) {
  const ProgramResult result =
      run_lowgear({"plan", "--profile", profile_, "--microbatches", "6", "--schedule", "1F1B", "--policy", "Lowgear",
                   "--granularity", "OP", "--blocking-power", "70", "--out", out()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string frontier = text("frontier.csv");
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["schedule"], "1f1b");
  ASSERT_EQ(plan().exit_code, 0);
  EXPECT_EQ(text("frontier.csv"), frontier);
}

TEST_F(PlanInput, WarnsOfAGpuThatIsNotKnown) {
  EXPECT_THAT(plan({"--plans", "1", "--gpu", "foo"}).err, HasSubstr("--gpu foo: not a GPU that is known"));
  EXPECT_THAT(plan({"--plans", "1", "--gpu", "NVIDIA L4000"}).err, testing::Not(HasSubstr("not a GPU")));
}

TEST_F(PlanInput, WarnsOfUnitsThatCannotBe) {
  EXPECT_EQ(plan().err, "");
  const auto with_power = [&](const std::string& blocking_power, std::vector<std::string> others = {}) {
    others.insert(others.begin(), {"plan", profile_, "--microbatches", "4", "--blocking-power", blocking_power,
                                   "--plans", "1", "--out", out()});
    return run_lowgear(others);
  };
  EXPECT_THAT(refusal_of(with_power("75000")),
              testing::AllOf(HasSubstr("check --blocking-power: 75000 W"), HasSubstr("milliwatts"),
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

TEST_F(PlanInput, SaysWhyAPlanSavesNothing) {
  const auto notes = [&](const std::string& rows, const std::vector<std::string>& changes = {}) {
    const std::string profile = write_text(folder_ / "one.csv", "stage,instruction,frequency,time,energy\n" + rows);
    std::vector<std::string> words{"plan", "--profile", profile, "--microbatches", "4", "--blocking-power",
                                   "70",   "--out",     out()};
    words.insert(words.end(), changes.begin(), changes.end());
    const ProgramResult result = run_lowgear(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  };
  const std::string full = "0,forward,1400,0.1,30\n0,backward,1400,0.2,60\n";
  EXPECT_THAT(notes(full), HasSubstr("the plan saves nothing: the profile has one clock per op"));
  EXPECT_THAT(notes(full + "0,forward,1000,0.11,20\n0,backward,1000,0.22,40\n"),
              testing::AllOf(HasSubstr("no rank waits for another, as there is one"),
                             HasSubstr("lowgear run --search slowdown=2%")));
  EXPECT_THAT(text("report.html"), HasSubstr("the plan saves nothing"));
  const std::string two_stages = full +
                                 "0,forward,1000,0.11,20\n0,backward,1000,0.22,40\n1,forward,1400,0.1,30\n"
                                 "1,backward,1400,0.2,60\n1,forward,1000,0.11,20\n1,backward,1000,0.22,40\n";
  EXPECT_THAT(notes(two_stages, {"--granularity", "stage"}), HasSubstr("every stage and kind has one clock"));
  EXPECT_THAT(notes(two_stages, {"--switch-latency", "2s", "--no-ask-ahead"}),
              HasSubstr("clocks that change 2 s after their units begin are too late"));
  EXPECT_THAT(plan().err, testing::Not(HasSubstr("saves nothing")));
}

TEST_F(PlanInput, RefusesMillisecondsWithMillijoulesUnlessAccepted) {
  std::string text = "stage,instruction,frequency,time,energy\n";
  for (const char* const row : {"0,forward,1400,60,18000", "0,forward,1000,75,16500", "0,backward,1400,120,36000",
                                "0,backward,1000,150,33000"}) {
    text += std::string(row) + "\n";
  }
  std::vector<std::string> command{
      "plan",  "--profile", write_text(folder_ / "long.csv", text), "--microbatches", "4", "--blocking-power", "70",
      "--out", out()};
  EXPECT_THAT(refusal_of(command),
              testing::AllOf(HasSubstr("long.csv: check the units of the profile: an op takes"),
                             HasSubstr("milliseconds and millijoules"), HasSubstr("--accept-units")));
  command.emplace_back("--accept-units");
  const ProgramResult accepted = run_lowgear(command);
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_THAT(accepted.err, HasSubstr("warning: check the units of the profile"));
}

TEST_F(PlanInput, RefusesEnergiesOfSeveralGpusUnlessAccepted) {
  const std::string text =
      "stage,instruction,frequency,time,energy\n0,forward,1400,0.1,62\n0,forward,1000,0.12,60\n"
      "0,backward,1400,0.2,124\n0,backward,1000,0.24,120\n";
  std::vector<std::string> command{"plan",
                                   "--profile",
                                   write_text(folder_ / "two.csv", text),
                                   "--gpu",
                                   "a100",
                                   "--microbatches",
                                   "4",
                                   "--blocking-power",
                                   "70",
                                   "--out",
                                   out()};
  EXPECT_THAT(refusal_of(command),
              testing::AllOf(HasSubstr("more than the power limit of a100 (400 W)"),
                             HasSubstr("those of several GPUs together"), HasSubstr("--accept-units")));
  command.emplace_back("--accept-units");
  const ProgramResult accepted = run_lowgear(command);
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_THAT(accepted.out, testing::ContainsRegex("\nprofile   ops draw 5[0-9.]+ W \\(median\\), 500 to 620 W\n"));
}

/// Two stages at three clocks, times at 1200 MHz 10 % too short.
constexpr const char* kTooFastAt1200 =
    "stage,instruction,frequency,time,energy\n"
    "0,forward,1410,0.05,18\n0,forward,1200,0.0497,15.27\n0,forward,990,0.0627,12.98\n"
    "0,backward,1410,0.1,38\n0,backward,1200,0.0995,32.24\n0,backward,990,0.1255,27.4\n"
    "1,forward,1410,0.054,19.4\n1,forward,1200,0.0537,16.5\n1,forward,990,0.0677,14\n"
    "1,backward,1410,0.108,41\n1,backward,1200,0.1074,34.8\n1,backward,990,0.1355,29.6\n";

TEST_F(PlanInput, SaysThatAPlanIsFasterThanFullClocks) {
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

TEST_F(PlanInput, RefusesARowThatNoGpuCanHaveMeasured) {
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

TEST_F(PlanInput, TakesBlockingPowerByRank) {
  const std::string file = write_text(folder_ / "power.csv", "stage,blocking_power\n2,72\n0,70\n1,71\n");
  const ProgramResult result = run_lowgear({"plan", "--profile", profile_, "--stages", "3", "--microbatches", "4",
                                            "--blocking-power", file, "--out", out()});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(parse_json(text("run.json"), "run.json")["blocking_power_w"], Json({70.0, 71.0, 72.0}));
}

TEST_F(PlanInput, NeedsAProfileAndMicrobatchesAlone) {
  EXPECT_THAT(refusal_of({"plan"}),
              HasSubstr("missing: the profile (a CSV file) and --microbatches; for example: lowgear plan"));
  const ProgramResult result = run_lowgear({"plan", profile_, "--microbatches", "6", "--out", out()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("blocking power: assumed "));
  EXPECT_THAT(text("report.html"), HasSubstr("blocking power: assumed "));
}

TEST_F(PlanInput, TakesTheBlockingPowerOfTheProfileOrTheGpu) {
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

TEST_F(PlanInput, AsksWhetherASmallSlowdownIsAShare) {
  EXPECT_THAT(refusal_of(plan({"--slowdown", "0.05"})),
              testing::AllOf(HasSubstr("--slowdown"), HasSubstr("0.05%"), HasSubstr("5%")));
  EXPECT_EQ(planned({"--slowdown", "0.05%"})["plans"].size(), 1U);
  EXPECT_EQ(planned({"--slowdown", "5%"})["plans"], planned({"--slowdown", "5"})["plans"]);
}

TEST_F(PlanInput, NamesAColumnOfAnotherUnit) {
  const auto refused = [&](const std::string& header) {
    const std::string file = write_text(folder_ / "other.csv", header + "\n0,forward,1400,40,12\n");
    return refusal_of({"plan", file, "--microbatches", "4", "--out", out()});
  };
  EXPECT_THAT(refused("stage,instruction,frequency,time_ms,energy"),
              testing::AllOf(HasSubstr("other.csv:1:29: the column \"time_ms\" is in milliseconds"),
                             HasSubstr("divide its values by 1000 and name it time_s")));
  EXPECT_THAT(refused("stage,instruction,clock_ghz,time,energy"), HasSubstr("is in gigahertz; multiply its values by"));
  EXPECT_THAT(refused("stage,instruction,frequency,time,energy_kj"), HasSubstr("name it energy_j"));
}

TEST_F(PlanInput, SaysThatAddressesAreNotRead) {
  EXPECT_THAT(run_lowgear({"verify", "https://example.org/plan"}).err,
              HasSubstr("https://example.org/plan: cannot be read: commands read files, not addresses"));
  const ProgramResult result = run_lowgear({"plan", "https://example.org/profile.csv", "--microbatches", "4"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("https://example.org/profile.csv: cannot be read: commands read files, not "
                                    "addresses; download it and name the file"));
  EXPECT_EQ(lines_of(result.err).size(), 1U);
}

}  // namespace
}  // namespace lowgear::cli
