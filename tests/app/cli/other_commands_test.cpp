#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "planning/plan/plan_json.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Commands : public ::testing::Test {
 protected:
  Commands() { profile_ = write_text(folder_ / "profile.csv", small_profile(3)); }

  /// Plans into `out` and returns the path of its fastest plan.
  [[nodiscard]] std::string planned() const {
    const auto result =
        run_lowgear(pipeline_command("plan", profile_, 3, 6, {"--plans", "3", "--out", (folder_ / "out").string()}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return (folder_ / "out/plans/00000.json").string();
  }
  [[nodiscard]] std::vector<std::string> simulate(const std::string& plan, std::vector<std::string> others = {}) const {
    std::vector<std::string> command{"verify", "--profile", profile_, "--replay", plan, "--blocking-power", "70"};
    command.insert(command.end(), others.begin(), others.end());
    return command;
  }

  TemporaryFolder folder_;
  std::string profile_;
};

TEST_F(Commands, SimulateReplaysAPlanToItsFigures) {
  const Json json = json_of(simulate(planned()));
  EXPECT_DOUBLE_EQ(json["time_s"], json["planned"]["time_s"]);
  EXPECT_NEAR(json["energy_j"], json["planned"]["energy_j"].get<double>(), 1e-9);
  double time_s = json["busy_s"][0].get<double>() + json["blocked_s"][0].get<double>();
  EXPECT_NEAR(time_s, json["time_s"], 1e-9);
}

TEST_F(Commands, SimulateWarnsOfUnits) {
  const std::string plan = planned();
  EXPECT_THAT(run_lowgear(simulate(plan)).err, Not(HasSubstr("check the units")));
  std::vector<std::string> command{"verify", "--profile", profile_, "--replay", plan, "--blocking-power", "70000"};
  EXPECT_THAT(refusal_of(command), testing::AllOf(HasSubstr("check --blocking-power"), HasSubstr("milliwatts")));
  command.emplace_back("--accept-units");
  const ProgramResult accepted = run_lowgear(command);
  EXPECT_EQ(accepted.exit_code, 0);
  EXPECT_THAT(accepted.err, HasSubstr("warning: check --blocking-power"));
  const std::string alone = (folder_ / "alone.json").string();
  std::filesystem::copy_file(plan, alone);
  EXPECT_THAT(refusal_of({"verify", "--replay", alone}), HasSubstr("missing: the profile"));
}

TEST_F(Commands, ReplayTakesProfileAndBlockingPowerOfThePlansFolder) {
  const std::string plan = planned();
  const Json of_folder = json_of({"verify", "--replay", plan});
  EXPECT_NEAR(of_folder["energy_j"], of_folder["planned"]["energy_j"].get<double>(), 1e-6);
  EXPECT_EQ(json_of({"verify", "--replay", (folder_ / "out").string()})["plan"], plan);
  const std::string slower = write_text(folder_ / "slower.csv", [this] {
    profile::ProfileFile file = profile::read_profile_file(read_file(profile_), profile_);
    profile::StageProfile slow(file.profile.stages());
    for (const profile::StageOp& op : file.profile.ops()) {
      for (profile::Measurement row : op.measurements) {
        row.time_s *= 2;
        row.energy_j *= 2;
        slow.add(op.stage, op.kind, std::move(row));
      }
    }
    return profile::write_profile_file({.profile = slow});
  }());
  const ProgramResult other = run_lowgear({"verify", "--replay", plan, slower, "--blocking-power", "70"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("is not the plan's profile"));
  EXPECT_THAT(refusal_of({"show", (folder_ / "out").string()}),
              HasSubstr("is a folder of lowgear plan; show its profile.csv"));
}

TEST_F(Commands, PowersAreHeldAgainstTheLimitOfTheGpu) {
  std::string csv = "stage,instruction,frequency,time,energy\n";
  for (const char* rest :
       {"forward,1400,0.05,25", "forward,1200,0.058,26", "backward,1400,0.1,50", "backward,1200,0.116,52"}) {
    csv += fmt::format("0,{}\n", rest);  // 450 to 500 W
  }
  const std::string profile = write_text(folder_ / "node.csv", csv);
  const std::string out = (folder_ / "warned").string();
  const auto warnings = [&](const std::vector<std::string>& command) {
    const ProgramResult result = run_lowgear(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::vector<std::string> lines = lines_of(result.err);
    return std::ranges::count_if(lines, [](const std::string& line) {
      return line.find("the power limit of NVIDIA A40 (300 W); energies look like those of several GPUs") !=
             std::string::npos;
    });
  };
  const std::vector<std::string> gpu = {"--gpu", "NVIDIA A40"};
  EXPECT_EQ(warnings(pipeline_command("plan", profile, 1, 4, {"--out", out})), 0);
  for (const char* command : {"plan", "compare"}) {
    EXPECT_THAT(refusal_of(pipeline_command(command, profile, 1, 4, gpu)),
                HasSubstr("energies look like those of several GPUs together"));
  }
  std::vector<std::string> accepted = gpu;
  accepted.emplace_back("--accept-units");
  EXPECT_EQ(warnings(pipeline_command("compare", profile, 1, 4, accepted)), 1);
  accepted.insert(accepted.end(), {"--out", out});
  EXPECT_EQ(warnings(pipeline_command("plan", profile, 1, 4, accepted)), 1);
  EXPECT_EQ(warnings({"show", "--profile", profile, "--gpu", "NVIDIA A40", "--json"}), 1);
  EXPECT_EQ(warnings({"verify", "--profile", profile, "--replay", out + "/plans/00000.json", "--blocking-power", "70",
                      "--accept-units"}),
            1)
      << "the plan names the GPU";
}

TEST_F(Commands, SimulateSlowsStages) {
  const std::string plan = planned();
  const Json once = json_of(simulate(plan, {"--slow-stage", "1=1.5"}));
  EXPECT_GT(once["time_s"], once["unslowed"]["time_s"]);
  const Json twice = json_of(simulate(plan, {"--slow-stage", "1=1.5", "--straggler", "2=2"}));
  EXPECT_GT(twice["time_s"], once["time_s"]);
  const ProgramResult wrong = run_lowgear(simulate(plan, {"--slow-stage", "7=1.5"}));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(lines_of(wrong.err).size(), 1U);
  EXPECT_THAT(refusal_of(simulate(plan, {"--slow-stage", "1"})),
              HasSubstr("error: --slow-stage: expected STAGE=FACTOR"))
      << "named once";
  EXPECT_THAT(refusal_of(simulate(plan, {"--slow-stage", "1=1.5", "--slow-stage", "1=2"})),
              HasSubstr("error: --slow-stage: stage 1 is there twice; give one factor for it"));
}

TEST_F(Commands, SimulateWaitsForTheSlowPipelineOfACluster) {
  const std::string plan = planned();
  const Json json = json_of(simulate(plan, {"--pipelines", "4", "--slow-pipeline", "1.5"}));
  const double time_s = json["time_s"];
  const double energy_j = json["energy_j"];
  EXPECT_NEAR(json["cluster"]["time_s"], 1.5 * time_s, 1e-9);
  // Four pipelines, one of which takes 1.5 times the time at the same power, and three of which wait at 3 x 70 W.
  EXPECT_NEAR(json["cluster"]["energy_j"], 1.5 * energy_j + 3 * (energy_j + 3 * 70 * 0.5 * time_s), 1e-6);
  EXPECT_EQ(run_lowgear(simulate(plan, {"--slow-pipeline", "1.5"})).exit_code, 2);
}

TEST_F(Commands, SimulateWritesATrace) {
  const std::string trace = (folder_ / "trace.json").string();
  (void)json_of(simulate(planned(), {"--trace", trace}));
  const Json json = parse_json(read_file(trace), trace);
  const auto slices = std::count_if(json["traceEvents"].begin(), json["traceEvents"].end(),
                                    [](const Json& event) { return event["ph"] == "X"; });
  EXPECT_EQ(slices, 3 * 6 * 2);
}

/// Writes what the ranks of a pipeline would record in three iterations of a plan, all units a tenth longer.
void write_recording_of(const plan::Plan& plan, const std::filesystem::path& folder) {
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const std::filesystem::path of_rank = folder / fmt::format("rank-{:05}", rank);
    std::filesystem::create_directories(of_rank);
    write_text(
        of_rank / "recording.json",
        fmt::format(R"({{"format":"lowgear.recording/1","rank":{},"world_size":{},"gpu":{{"uuid":"G","name":"N"}},)"
                    R"("simulated":true,"lost_units":0,"boot_id":"b","start_monotonic_s":7}})",
                    rank, plan.ranks.size()));
    std::string units = "iteration,stage,instruction,microbatch,start_s,end_s,frequency,settling\n";
    for (int iteration = 0; iteration < 3; ++iteration) {
      for (const plan::PlannedOp& op : plan.ranks[rank]) {
        const double start_s = 1.2 * plan.time_s * iteration + 1.1 * op.start_s;
        units += fmt::format("{},{},{},{},{},{},{},0\n", iteration, op.stage, name(op.kind), op.microbatch, start_s,
                             start_s + 1.1 * op.duration_s, op.clock_mhz);
      }
    }
    write_text(of_rank / "units.csv", units);
    write_text(of_rank / "energy.csv", "time_s,energy_j\n0,100\n0.1,120\n0.2,140\n");
  }
}

TEST_F(Commands, SimulateComparesAPlanWithWhatWasMeasured) {
  const std::string plan = planned();
  const std::string recording = (folder_ / "recording").string();
  const std::string trace = (folder_ / "trace.json").string();
  write_recording_of(plan::read_plan(read_file(plan), plan), recording);
  const Json json = json_of(simulate(plan, {"--measured", recording, "--trace", trace, "--iteration", "1"}));
  const std::string missing = (folder_ / "missing").string();
  std::filesystem::copy(recording, missing, std::filesystem::copy_options::recursive);
  std::filesystem::remove_all(folder_ / "missing/rank-00002");
  EXPECT_THAT(run_lowgear(simulate(plan, {"--measured", missing})).err,
              HasSubstr("warning: rank 2 of 3 has no recording: measured iterations are those of the other ranks"));
  EXPECT_EQ(json["measured"]["figures"], "simulated");
  EXPECT_EQ(json["measured"]["iterations"], 1) << "after two of warm-up";
  EXPECT_NEAR(json["measured"]["difference_pct"].get<double>(), 10, 1e-3);
  ASSERT_EQ(json["measured"]["units"].size(), 6U);
  for (const Json& unit : json["measured"]["units"]) {
    EXPECT_EQ(unit["units"], 6);
    EXPECT_NEAR(unit["difference_pct"].get<double>(), 10, 1e-3);
  }
  const Json events = parse_json(read_file(trace), trace);
  EXPECT_EQ(events["otherData"]["measured"]["iteration"], 1);
  const auto slices = std::count_if(events["traceEvents"].begin(), events["traceEvents"].end(),
                                    [](const Json& event) { return event["ph"] == "X"; });
  EXPECT_EQ(slices, 2 * 3 * 6 * 2);
  const ProgramResult text = run_lowgear(simulate(plan, {"--measured", recording}));
  EXPECT_THAT(text.out, HasSubstr("simulated s"));
  EXPECT_THAT(text.out, HasSubstr("+10.00 % of the replayed time, mean of 1 iteration\n"));
  EXPECT_THAT(text.out, ::testing::Not(HasSubstr("measured")));
  EXPECT_THAT(text.err, ::testing::Not(HasSubstr("other clocks")));
}

TEST_F(Commands, SimulateSaysThatARecordingIsOfOtherClocks) {
  const std::string plan = planned();
  plan::Plan other = plan::read_plan(read_file(plan), plan);
  for (std::vector<plan::PlannedOp>& ops : other.ranks) {
    for (plan::PlannedOp& op : ops) op.clock_mhz -= 15;
  }
  const std::string recording = (folder_ / "recording").string();
  write_recording_of(other, recording);
  EXPECT_THAT(run_lowgear(simulate(plan, {"--measured", recording})).err,
              HasSubstr("warning: 36 of 36 recorded units ran at other clocks than the plan's"));
}

TEST_F(Commands, SimulateRefusesRecordingsThatDoNotFit) {
  const std::string plan = planned();
  const std::string recording = (folder_ / "recording").string();
  write_recording_of(plan::read_plan(read_file(plan), plan), recording);
  const auto error = [&](std::vector<std::string> others) {
    const ProgramResult result = run_lowgear(simulate(plan, std::move(others)));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(lines_of(result.err).back(), HasSubstr("error: "));
    return result.err;
  };
  EXPECT_THAT(error({"--iteration", "1"}), HasSubstr("give --measured and --trace"));
  EXPECT_THAT(error({"--measured", recording, "--trace", (folder_ / "t").string(), "--iteration", "7"}),
              HasSubstr("--iteration 7: was not recorded completely; there are 3 from 0 to 2"));
  EXPECT_THAT(error({"--measured", (folder_ / "out").string()}), HasSubstr("holds no recording"));
  const std::filesystem::path header = folder_ / "recording/rank-00001/recording.json";
  std::string text = read_file(header);
  write_text(header, text.insert(text.rfind('}'), R"(,"invalid":"its kernels were too short")"));
  EXPECT_THAT(error({"--measured", recording, "--json"}),
              HasSubstr("rank-00001: the recording is marked invalid: its kernels were too short; its times and "
                        "energies mean nothing; record again"));
  std::filesystem::remove(folder_ / "recording/rank-00001/units.csv");
  EXPECT_THAT(error({"--measured", recording}), HasSubstr("rank-00001/units.csv"));
}

TEST_F(Commands, GiveAnExampleWhereAnArgumentIsMissing) {
  EXPECT_THAT(refusal_of({"verify"}),
              HasSubstr("folder is required; for example: lowgear verify plan; see lowgear verify --help"));
  EXPECT_THAT(run_lowgear({"published", "evaluate"}).err, HasSubstr("; for example: lowgear published evaluate dump;"));
  EXPECT_THAT(run_lowgear({"show", "1f1b"}).err,
              HasSubstr("missing: --stages and --microbatches; for example: lowgear show 1f1b --stages 4 "
                        "--microbatches 8"));
}

TEST_F(Commands, CompareShowsEveryPolicyAgainstTheBaseline) {
  const Json json = json_of(pipeline_command("compare", profile_, 3, 6));
  EXPECT_EQ(json["figures"], "replayed");
  EXPECT_EQ(json["baseline"]["policy"], "max");
  std::vector<std::string> policies;
  for (const Json& row : json["rows"]) {
    policies.push_back(row["policy"]);
    EXPECT_GE(row["gap_pct"].get<double>(), -1e-9) << row;
    const double saving_pct = 100 * (1 - row["energy_j"].get<double>() / json["baseline"]["energy_j"].get<double>());
    EXPECT_NEAR(row["saving_pct"], saving_pct, 1e-9);
  }
  for (const char* name :
       {"max", "zeus-global", "zeus-per-stage", "envpipe", "envpipe-offline", "perseus", "lowgear"}) {
    EXPECT_THAT(policies, ::testing::Contains(name));
  }
  EXPECT_EQ(json["skipped"], Json::array());
}

TEST_F(Commands, CompareNeverShowsLowgearWorseAtTheSameTime) {
  const Json json = json_of(pipeline_command("compare", profile_, 3, 12));
  const auto row_of = [&](const std::string& policy, const std::string& aim) -> const Json& {
    return *std::find_if(json["rows"].begin(), json["rows"].end(),
                         [&](const Json& row) { return row["policy"] == policy && row["aim"] == aim; });
  };
  for (const Json& lowgear : json["rows"]) {
    const std::string aim = lowgear["aim"];
    const std::string other = aim.substr(aim.rfind(' ') + 1);
    if (lowgear["policy"] != "lowgear" || aim == "T_min") continue;
    EXPECT_LE(lowgear["energy_j"], row_of(other, "")["energy_j"].get<double>() * (1 + 1e-9)) << aim;
    EXPECT_LE(lowgear["time_s"], row_of(other, "")["time_s"].get<double>() * (1 + 1e-9)) << aim;
  }
}

TEST_F(Commands, CompareTakesSomePoliciesAndAnotherBaseline) {
  const Json json =
      json_of(pipeline_command("compare", profile_, 3, 6, {"--policies", "perseus,max", "--baseline", "zeus-global"}));
  EXPECT_EQ(json["baseline"]["policy"], "zeus-global");
  ASSERT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["policy"], "perseus");
  EXPECT_EQ(run_lowgear(pipeline_command("compare", profile_, 3, 6, {"--policies", "magic"})).exit_code, 2);
}

TEST_F(Commands, CompareSkipsWhatCannotPlanThisPipeline) {
  const Json json =
      json_of(pipeline_command("compare", profile_, 3, 6, {"--schedule", "zb-h1", "--backward-split", "0.5"}));
  ASSERT_EQ(json["skipped"].size(), 1U);
  EXPECT_THAT(json["skipped"][0].get<std::string>(), StartsWith("envpipe: its own order "));
}

TEST_F(Commands, CompareShowsTimeAndSavingsAndMoreByWide) {
  const ProgramResult shown = run_lowgear(pipeline_command("compare", profile_, 3, 6));
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_THAT(shown.out, StartsWith("policy "));
  EXPECT_THAT(lines_of(shown.out).front(), HasSubstr("with late clocks"));
  EXPECT_THAT(shown.out, HasSubstr("\nClocks: requested 25 ms before their units, so that they change in time; late "));
  EXPECT_THAT(shown.out, Not(HasSubstr("gap %")));
  EXPECT_THAT(shown.out, HasSubstr("time steps of 1 ms (--perseus-unit"));
  for (const std::string& line : lines_of(shown.out)) EXPECT_LE(line.size(), 120U) << line;
  EXPECT_THAT(run_lowgear(pipeline_command("compare", profile_, 3, 6, {"--wide"})).out, HasSubstr("gap %"));
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--switch-latency", "instant"},
        std::vector<std::string>{"--switch-latency", "5", "--no-ask-ahead"}}) {
    EXPECT_THAT(run_lowgear(pipeline_command("compare", profile_, 3, 6, options)).out, Not(HasSubstr("late clocks")));
  }
}

TEST_F(Commands, ComparePlansAsPlanDoesAskingAhead) {
  const Json compared = json_of(pipeline_command("compare", profile_, 3, 6, {"--switch-latency", "5"}));
  EXPECT_EQ(compared["switch_latency"]["asked_ahead_s"], 0.005);
  EXPECT_EQ(compared["switch_latency"]["planned_with_s"], 0);
  const Json instant = json_of(pipeline_command("compare", profile_, 3, 6, {"--switch-latency", "instant"}));
  const auto fastest = [](const Json& json) {
    return *std::find_if(json["rows"].begin(), json["rows"].end(),
                         [](const Json& row) { return row["aim"] == "T_min"; });
  };
  EXPECT_EQ(fastest(compared)["energy_j"], fastest(instant)["energy_j"]);
  const Json late = json_of(pipeline_command("compare", profile_, 3, 6, {"--switch-latency", "5", "--no-ask-ahead"}));
  EXPECT_EQ(late["switch_latency"]["planned_with_s"], 0.005);
}

TEST_F(Commands, ShowTellsProfilesFromSchedules) {
  const std::string file = (folder_ / "order.csv").string();
  EXPECT_EQ(json_of({"show", profile_})["stages"], 3);
  const Json named = json_of({"show", "GPipe", "--stages", "4", "--microbatches", "8", "--out", file});
  EXPECT_EQ(named["schedule"], "gpipe");
  EXPECT_EQ(json_of({"show", file})["peak_in_flight_activations"], named["peak_in_flight_activations"]);
  EXPECT_EQ(json_of({"show", profile_, "--microbatches", "4"})["ranks"], 3) << "as the profile";
  EXPECT_THAT(run_lowgear({"show", profile_}).err, HasSubstr("blocking power: assumed")) << "as plan";
  EXPECT_THAT(run_lowgear({"show", planned()}).err,
              HasSubstr("this is a plan, and a profile is a CSV file; replay the plan: lowgear verify --replay"));
  EXPECT_THAT(refusal_of({"show"}), HasSubstr("lowgear show profile.csv"));
  std::filesystem::create_directories(folder_ / "recording/rank-00000");
  const std::string recording = (folder_ / "recording").string();
  EXPECT_THAT(refusal_of({"show", recording}),
              HasSubstr("is a recording of a run; make its profile, and show that: lowgear profile " + recording));
}

TEST_F(Commands, CompareWritesAPage) {
  const std::string page = (folder_ / "compare.html").string();
  const ProgramResult written = run_lowgear(pipeline_command("compare", profile_, 3, 6, {"--html", page}));
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.out, testing::AllOf(HasSubstr("page " + page + "\n"), Not(HasSubstr("More figures"))));
  EXPECT_THAT(read_file(page), StartsWith("<!DOCTYPE html>"));
}

TEST_F(Commands, InspectSummarisesEveryOperation) {
  const Json json = json_of({"show", "--profile", profile_, "--blocking-power", "70"});
  EXPECT_EQ(json["stages"], 3);
  EXPECT_EQ(json["modelled"], false);
  ASSERT_EQ(json["operations"].size(), 6U);
  EXPECT_EQ(json["operations"][0]["instruction"], "forward");
  EXPECT_EQ(json["operations"][0]["count"], 5);
  EXPECT_EQ(json["operations"][0]["clock_step_mhz"], 150);
  EXPECT_EQ(lines_of(run_lowgear({"show", "--profile", profile_}).out).size(), 8U);
}

TEST_F(Commands, ScheduleWritesWhatItDescribes) {
  const std::string file = (folder_ / "schedule.csv").string();
  const Json json = json_of({"show", "--schedule", "1f1b", "--stages", "4", "--microbatches", "8", "--out", file});
  EXPECT_EQ(json["peak_in_flight_activations"], Json({4, 3, 2, 1}));
  const schedule::Schedule written = schedule::read_torch_csv(read_file(file), file);
  EXPECT_EQ(action_count(written), json["actions"].get<std::size_t>());
  EXPECT_EQ(json_of({"show", "--schedule", file})["peak_in_flight_activations"], Json({4, 3, 2, 1}));
}

TEST_F(Commands, ScheduleCountsInputsThatAreRecomputedFrom) {
  const Json json = json_of({"show", "--schedule", "merak-full-critical-path", "--stages", "4", "--microbatches", "8"});
  EXPECT_EQ(json["peak_in_flight_activations"], Json({1, 1, 1, 1}));
  EXPECT_EQ(json["peak_inputs"], Json({4, 3, 3, 0}));
}

TEST_F(Commands, ScheduleKnowsEveryGenerator) {
  for (const schedule::ScheduleGenerator& generator : schedule::schedule_generators()) {
    std::vector<std::string> command{"show",     "--schedule", std::string(generator.name),
                                     "--stages", "3",          "--microbatches",
                                     "6",        "--profile",  profile_};
    const ProgramResult result = run_lowgear(command);
    if (generator.runs_chunks(1)) {
      EXPECT_EQ(result.exit_code, 0) << generator.name;
    } else {
      EXPECT_THAT(refusal_of(result), HasSubstr("it is 1f1b"));
    }
  }
}

TEST_F(Commands, ExampleCanBePlannedAndSaysThatItIsModelled) {
  const std::string example = (folder_ / "example").string();
  ASSERT_EQ(run_lowgear({"example", "--out", example}).exit_code, 0);
  const ProgramResult plan = run_lowgear(
      pipeline_command("plan", example + "/profile.csv", 8, 8, {"--plans", "2", "--out", example + "/plan"}));
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("modelled, not measured"));
  EXPECT_THAT(read_file(example + "/plan/report.html"), HasSubstr("modelled, not measured"));
  EXPECT_EQ(json_of({"show", "--profile", example + "/profile.csv"})["modelled"], true);
  // Made again, it leaves what has been made from it.
  ASSERT_EQ(run_lowgear({"example", "--out", example}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(example + "/plan/report.html"));
  // A plan's own folder has a profile of that name, which belongs to it.
  EXPECT_THAT(refusal_of({"example", "--out", example + "/plan"}), HasSubstr("holds a plan"));
}

}  // namespace
}  // namespace lowgear::cli
