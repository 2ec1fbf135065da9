#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"
#include "planning/profile/made_up_recording.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// Writes a recording as the client library does.
void write_recording(const std::filesystem::path& folder, const profile::Recording& recording, int world_size) {
  std::filesystem::create_directories(folder);
  write_text(
      folder / "recording.json",
      fmt::format(R"({{"format":"lowgear.recording/1","rank":{},"world_size":{},"job":"j","gpu":{{"uuid":"GPU-{}",)"
                  R"("name":"A100"}},"simulated":true,"driver_version":"1","start_unix_s":1,"iterations":9,)"
                  R"("lost_units":0}})",
                  recording.rank, world_size, recording.rank));
  std::string units = "iteration,stage,instruction,microbatch,start_s,end_s,frequency\n";
  for (const profile::RecordedUnit& unit : recording.units) {
    units += fmt::format("{},{},{},{},{},{},{}\n", unit.iteration, recording.rank, name(unit.kind), unit.microbatch,
                         unit.start_s, unit.end_s, unit.clock_mhz);
  }
  write_text(folder / "units.csv", units);
  std::string samples = "time_s,energy_j,power_w,sm_mhz,temperature_c,throttle_reasons\n";
  for (const profile::EnergySample& sample : recording.samples) {
    samples += fmt::format("{},{},,,,0\n", sample.time_s, *sample.energy_j);
  }
  write_text(folder / "energy.csv", samples);
}

class ProfileCommand : public ::testing::Test {
 protected:
  ProfileCommand() {
    profile::MadeUpProcess process;
    for (const int clock_mhz : {1400, 1200, 1000, 800}) {
      process.power_w[{0, OpKind::forward, clock_mhz}] = 100 + 0.2 * clock_mhz;
      process.power_w[{0, OpKind::backward, clock_mhz}] = 120 + 0.2 * clock_mhz;
    }
    for (const int rank : {0, 1}) {
      process.seed = static_cast<unsigned>(rank) + 1;
      profile::Recording recording = process.record({1400, 1200, 1000, 800}, 12, 8);
      recording.rank = rank;
      write_recording(folder_ / fmt::format("job/rank-{:05}", rank), recording, 2);
    }
  }
  [[nodiscard]] std::string path(const char* name) const { return (folder_ / name).string(); }

  TemporaryFolder folder_;
};

TEST_F(ProfileCommand, RefusesARecordingThatIsMarkedInvalidUnlessItIsAccepted) {
  const std::string header = path("job/rank-00001/recording.json");
  std::string text = read_file(header);
  text.insert(text.rfind('}'), ",\"invalid\":\"its kernels were too short\"");
  write_text(header, text);
  const ProgramResult refused = run_lowgear({"profile", path("job"), "--out", path("p.csv")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("rank-00001: the recording is marked invalid: its kernels were too short; its "
                                     "times and energies mean nothing"));
  EXPECT_THAT(refused.err, HasSubstr("--accept-invalid"));
  EXPECT_FALSE(std::filesystem::exists(path("p.csv"))) << "a profile could not repeat the mark";

  const ProgramResult accepted = run_lowgear({"profile", path("job"), "--out", path("p.csv"), "--accept-invalid"});
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  EXPECT_THAT(accepted.err, HasSubstr("warning: "));
  EXPECT_THAT(accepted.err, HasSubstr("is marked invalid: its kernels were too short"));
  EXPECT_TRUE(std::filesystem::exists(path("p.csv")));
}

TEST_F(ProfileCommand, MakesAProfileOfRecordings) {
  const ProgramResult result =
      run_lowgear({"profile", path("job"), "--out", path("p.csv"), "--blocking-power-out", path("b.csv")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("simulated, not measured"));
  const profile::StageProfile profile = profile::read_profile_file(read_file(path("p.csv")), "p.csv").profile;
  EXPECT_EQ(profile.stages(), 2);
  EXPECT_EQ(profile.measurements(1, OpKind::backward).size(), 4);
  EXPECT_NEAR(profile.at_clock(0, OpKind::forward, 1000).time_s, 0.05, 1e-3);
  EXPECT_NEAR(profile.at_clock(0, OpKind::forward, 1000).energy_j, 15, 1.5);
  EXPECT_THAT(read_file(path("b.csv")), StartsWith("stage,blocking_power\n0,"));
  EXPECT_EQ(profile::read_profile_file(read_file(path("p.csv")), "p.csv").columns.blocking_power_w.size(), 2U);
  EXPECT_THAT(result.out, HasSubstr("switch latency: not known: clock changes are too few"));
  EXPECT_FALSE(profile::read_profile_file(read_file(path("p.csv")), "p.csv").switch_latency_s);
  EXPECT_THAT(read_file(path("p.csv.errors.csv")), HasSubstr(",simulated,"));
}

TEST_F(ProfileCommand, NamesMissingRanksAndRefusesWhereAStageMayBeAmongThem) {
  std::filesystem::remove_all(folder_ / "job/rank-00001");
  EXPECT_THAT(refusal_of({"profile", path("job"), "--out", path("p.csv")}),
              HasSubstr("rank 1 of 2 has no recording, and they may have run stages that no other rank"));
  EXPECT_FALSE(std::filesystem::exists(path("p.csv")));
  write_text(path("job/schedule.csv"), "0F0,0B0\n1F0,1B0\n");
  EXPECT_THAT(run_lowgear({"profile", path("job/rank-00000"), "--out", path("p.csv")}).err,
              HasSubstr("no rank recorded stage 1 of the 2 of the schedule; rank 1 of 2 has no recording"));
  write_text(path("job/schedule.csv"), "0F0,0B0\n");
  const ProgramResult replica = run_lowgear({"profile", path("job"), "--out", path("p.csv")});
  EXPECT_EQ(replica.exit_code, 0) << replica.err;
  EXPECT_THAT(replica.out,
              HasSubstr("Next: lowgear plan " + path("p.csv") + " --schedule " + path("job/schedule.csv")));
  EXPECT_THAT(replica.err, HasSubstr("warning: rank 1 of 2 has no recording: stages are profiled by the other ranks"));
}

TEST_F(ProfileCommand, PredictsLowerClocksByThePowerOfTheGpuAndMarksThem) {
  write_text(path("gpu.json"), R"({"format": "lowgear.gpu/1", "gpu": "A100", "driver": "1", "date": "2026-11-29",
 "simulated": true, "limit_w": 400, "max_clock_mhz": 1410, "multiprocessors": 108,
 "static_w": {"value": 80, "temperature_c": 40, "per_k": 0.4, "clock_tree": 20}, "operations": [{"type": "bf16", "pj": 1, "ops_per_cycle_sm": 2000}],
 "memory": {"pj_per_byte": 100, "clock_share": 0.5},
 "voltage": {"measured_from_mhz": 600,
             "points": [{"clock_mhz": 600, "relative_v2": 0.5}, {"clock_mhz": 1410, "relative_v2": 1}]}})");
  const std::vector<std::string> command = {
      "profile",        path("job"),          "--out",       path("p.csv"), "--gpu-file",
      path("gpu.json"), "--supported-clocks", "1500-600/100"};
  const ProgramResult result = run_lowgear(command);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Time that follows the clock"));
  EXPECT_THAT(result.err,
              HasSubstr("are predicted with the power in " + path("gpu.json") + ", measured on a simulated"));
  const profile::ProfileFile file = profile::read_profile_file(read_file(path("p.csv")), "p.csv");
  EXPECT_EQ(file.profile.measurements(0, OpKind::forward).size(), 9U) << "1400 to 600 MHz";
  EXPECT_EQ(file.predicted.size(), 2U * 2U * 5U);
  EXPECT_THAT(read_file(path("p.csv.errors.csv")), HasSubstr("0,forward,600,predicted,"));
  const ProgramResult plan = run_lowgear({"plan", path("p.csv"), "--microbatches", "4", "--out", path("plans")});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.err, HasSubstr("20 of 36 rows are predicted, not measured"));
  const profile::ProfileFile kept = profile::read_profile_file(read_file(path("plans/profile.csv")), "plans");
  EXPECT_EQ(kept.predicted, file.predicted) << "in the plan's folder, with their errors";
  EXPECT_GT(kept.predicted.front().energy_error_j, 0);

  const auto of_job = [&](const std::string& parallel) {
    write_text(path("job.yaml"),
               "model: llama-3-8b\ngpu: {name: a100-80gb-sxm, file: gone.json}\nbatch: {global: 8, sequence: 4096}\n" +
                   parallel);
    std::vector<std::string> with_job = command;
    with_job.insert(with_job.end(), {"--job", path("job.yaml")});
    return run_lowgear(with_job);
  };
  const ProgramResult estimated = of_job("parallel: {pp: 2}\n");
  ASSERT_EQ(estimated.exit_code, 0) << estimated.err;
  EXPECT_NE(profile::read_profile_file(read_file(path("p.csv")), "p.csv").predicted, file.predicted);
  EXPECT_THAT(of_job("parallel: {tp: 2}\n").err, HasSubstr("job.yaml: the job has 1 stage, and the profile 2"));
  const ProgramResult alone = run_lowgear({"profile", path("job"), "--out", path("p.csv"), "--job", path("job.yaml")});
  EXPECT_THAT(alone.err, HasSubstr("--gpu-file predicts clocks; name both"));
}

TEST_F(ProfileCommand, RemovesTimesByLengthOfAnEarlierRecording) {
  write_text(path("p.csv.work.json"), R"({"format": "lowgear.work/1"})");
  write_text(path("q.csv.work.json"), "by hand");
  const ProgramResult result = run_lowgear({"profile", path("job"), "--out", path("p.csv")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FALSE(std::filesystem::exists(path("p.csv.work.json")));
  EXPECT_THAT(result.err, HasSubstr("p.csv.work.json is removed: it was of an earlier recording"));
  EXPECT_EQ(run_lowgear({"profile", path("job"), "--out", path("q.csv")}).exit_code, 0);
  EXPECT_EQ(read_file(path("q.csv.work.json")), "by hand");
  EXPECT_THAT(
      run_lowgear({"profile", path("job"), "--out", path("p.csv"), "--errors-out", path("p.csv.work.json")}).err,
      HasSubstr("is named for two results"));
}

TEST_F(ProfileCommand, PredictsOtherClocksAndSaysSo) {
  const ProgramResult result = run_lowgear({"profile", path("job"), "--out", path("p.csv"), "--clocks", "few",
                                            "--supported-clocks", "1500-800/100", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  int predicted = 0;
  for (const Json& row : json["filled"]["rows"]) predicted += row["origin"] == "predicted" ? 1 : 0;
  EXPECT_EQ(predicted, 2 * 2 * 3) << "1300, 1100 and 900 MHz";
  EXPECT_THAT(result.err, HasSubstr("nothing is extrapolated"));
  const CsvTable errors(read_file(path("p.csv.errors.csv")), "errors");
  for (std::size_t row = 0; row < errors.rows(); ++row) {
    const bool between = errors.integer(row, errors.column("frequency")) % 200 != 0;
    EXPECT_EQ(errors.text(row, errors.column("origin")), between ? "predicted" : "simulated");
    EXPECT_GT(errors.number(row, errors.column("energy_error")), 0);
  }
  EXPECT_EQ(profile::read_profile_file(read_file(path("p.csv")), "p").profile.measurements(0, OpKind::forward).size(),
            7);
}

TEST_F(ProfileCommand, FillsAProfileThatIsThere) {
  ASSERT_EQ(run_lowgear({"profile", path("job"), "--out", path("few.csv"), "--freqevents", path("events")}).exit_code,
            0);
  EXPECT_THAT(read_file(path("events/0.freqevents.csv")), testing::StartsWith("freq,start,end\n"));
  EXPECT_GT(lines_of(read_file(path("events/0.freqevents.csv"))).size(), 2U);
  const ProgramResult result = run_lowgear({"profile", "--fill", path("few.csv"), "--supported-clocks", "1400-800/50",
                                            "--out", path("all.csv"), "--html", path("all.html")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("predicted"));
  EXPECT_EQ(
      profile::read_profile_file(read_file(path("all.csv")), "p").profile.measurements(1, OpKind::backward).size(), 13);
  EXPECT_THAT(read_file(path("all.html")), HasSubstr("given and predicted"));
  EXPECT_THAT(result.out, Not(HasSubstr("measured  ")));
  EXPECT_THAT(read_file(path("all.csv.errors.csv")), Not(HasSubstr(",measured,")));
}

TEST_F(ProfileCommand, TextsAndPlansOfSimulatedGpusSaySo) {
  ASSERT_EQ(run_lowgear({"profile", path("job"), "--out", path("p.csv")}).exit_code, 0);
  const std::vector<std::string> words = {path("p.csv"), "--microbatches", "4"};
  const auto with_pipeline = [&](std::vector<std::string> command, const std::vector<std::string>& others = {}) {
    command.insert(command.end(), words.begin(), words.end());
    command.insert(command.end(), others.begin(), others.end());
    return command;
  };
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"show", path("p.csv")},
           {"profile", "--fill", path("p.csv"), "--supported-clocks", "1400-800/50", "--out", path("all.csv")},
           with_pipeline({"compare"}),
           with_pipeline({"compare"}, {"--wide"}),
           with_pipeline({"plan"}, {"--out", path("plan")}),
           with_pipeline({"plan"}, {"--out", path("free"), "--schedule", "auto"}),
           {"plan", "--change", path("plan"), "--layers", "8", "--freeze", "1", "--out", path("changed")},
           {"verify", path("plan")},
           {"verify", path("free")},
           {"verify", "--replay", path("changed/plans/00000.json")},
       }) {
    SCOPED_TRACE(testing::PrintToString(command));
    const ProgramResult result = run_lowgear(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("simulated, not measured"));
  }
  for (const char* const folder : {"plan", "free", "changed"}) {
    EXPECT_THAT(read_file(path(folder) + "/plans/00000.json"), HasSubstr("\"origin\": \"simulated\"")) << folder;
    EXPECT_THAT(read_file(path(folder) + "/profile.csv"), HasSubstr("simulated")) << folder;
  }
}

TEST_F(ProfileCommand, StatesWhatActivationsTakeAndPlansWithIt) {
  write_text(path("job/rank-00000/activations.csv"), "iteration,stage,activation_bytes\n1,0,3000000\n");
  const ProgramResult some = run_lowgear({"profile", path("job"), "--out", path("p.csv")});
  EXPECT_THAT(some.err, HasSubstr("the activations of stage 1 were not measured"));
  EXPECT_THAT(profile::read_profile_file(read_file(path("p.csv")), "p").columns.activation_bytes, IsEmpty());

  write_text(path("job/rank-00001/activations.csv"), "iteration,stage,activation_bytes\n1,1,2000000\n9,1,1000000\n");
  const ProgramResult result = run_lowgear({"profile", path("job"), "--out", path("p.csv")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("stage 0: a microbatch's activations take 3 MB\n"));
  EXPECT_THAT(profile::read_profile_file(read_file(path("p.csv")), "p").columns.activation_bytes,
              ElementsAre(3e6, 2e6));
  ASSERT_EQ(
      run_lowgear({"profile", "--fill", path("p.csv"), "--supported-clocks", "1400-800/50", "--out", path("all.csv")})
          .exit_code,
      0);
  EXPECT_THAT(profile::read_profile_file(read_file(path("all.csv")), "p").columns.activation_bytes,
              ElementsAre(3e6, 2e6));

  const ProgramResult plan =
      run_lowgear({"plan", "--profile", path("p.csv"), "--microbatches", "6", "--policy", "envpipe", "--schedule",
                   "1f1b", "--memory-limit", "9MB", "--blocking-power", "70", "--out", path("plan")});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(
      refusal_of({"plan", "--profile", path("p.csv"), "--microbatches", "6", "--policy", "envpipe", "--schedule",
                  "1f1b", "--memory-limit", "5MB", "--blocking-power", "70", "--out", path("small")}),
      HasSubstr("rank 0 holds 2 activations under 1F1B"));
}

TEST_F(ProfileCommand, RefusesActivationsThatAreNoneWithTheirPlace) {
  write_text(path("job/rank-00001/activations.csv"), "iteration,stage,activation_bytes\n1,1,-7\n");
  EXPECT_THAT(refusal_of({"profile", path("job"), "--out", path("p.csv")}),
              HasSubstr("rank-00001/activations.csv:2:5: -7 is not in 1 to"));
  EXPECT_FALSE(std::filesystem::exists(path("p.csv")));
}

TEST_F(ProfileCommand, ChoosesClocksToMeasure) {
  const ProgramResult result = run_lowgear({"profile", "--choose", "6", "--supported-clocks", "1410-855/15"});
  EXPECT_EQ(result.out, "1410,1305,1185,1080,960,855\n");
}

TEST_F(ProfileCommand, RefusesWhatDoesNotFitInOneLineWithoutWriting) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {path("job")},
      {path("job"), "--fill", path("few.csv"), "--out", path("p.csv")},
      {path("job"), "--out", path("p.csv"), "--clocks", "few"},
      {path("job"), "--out", path("p.csv"), "--skip-iterations", "1000"},
      {path("job"), "--out", (folder_ / "job/rank-00000/units.csv").string()},
      {path("job"), "--out", path("p.csv"), "--errors-out", path("p.csv")},
      {path("job"), "--out", path("p.csv"), "--html", path("./p.csv")},
      {path("no"), "--out", path("p.csv")},
      {"--fill", path("no.csv"), "--supported-clocks", "1400-800/50", "--out", path("p.csv")},
      {"--merak", path("job"), "--supported-clocks", "1410", "--out", path("p.csv")},
      {"--choose", "3", "--supported-clocks", "1410-855/15"},
  };
  const std::string units = read_file(folder_ / "job/rank-00000/units.csv");
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), "profile");
    const ProgramResult result = run_lowgear(arguments);
    EXPECT_EQ(result.exit_code, 2) << fmt::format("{}", result.err);
    EXPECT_EQ(lines_of(result.err).size(), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("p.csv")));
  }
  EXPECT_EQ(read_file(folder_ / "job/rank-00000/units.csv"), units);
}

/// Merak's files with its own labels: 2 warm-up windows, then one per clock.
TEST_F(ProfileCommand, ReadsMerakWithItsWindowsRight) {
  constexpr int kIterations = 5;  // where the published script labels clocks two steps off
  profile::MadeUpProcess process;
  process.reading_period_s = 2e-3;
  std::vector<int> windows = {1400, 1400, 1200, 1000};
  for (const int clock_mhz : windows) {
    process.power_w[{0, OpKind::forward, clock_mhz}] = 100 + 0.2 * clock_mhz;
    process.power_w[{0, OpKind::backward, clock_mhz}] = 120 + 0.2 * clock_mhz;
  }
  windows.insert(windows.begin(), 1400);
  profile::Recording recording = process.record(windows, kIterations, 8);
  std::string instructions = "instruction,start,end\n";
  for (const OpKind kind : {OpKind::backward, OpKind::forward}) {
    for (const profile::RecordedUnit& unit : recording.units) {
      if (unit.kind != kind) continue;
      instructions += fmt::format("{}_microstep,{:.6f},{:.6f}\n", name(kind), 1e9 + unit.start_s, 1e9 + unit.end_s);
    }
  }
  std::filesystem::create_directory(folder_ / "merak");
  write_text(folder_ / "merak/instructions-0.csv", instructions);
  std::string energy = "time,energy\n";
  double before_j = -1;
  for (const profile::EnergySample& sample : recording.samples) {
    if (*sample.energy_j == before_j) continue;
    before_j = *sample.energy_j;
    energy += fmt::format("{:.6f},{:.3f}\n", 1e9 + sample.time_s, before_j);
  }
  write_text(folder_ / "merak/time-energy-0.csv", energy);
  const ProgramResult result =
      run_lowgear({"profile", "--merak", path("merak"), "--microbatches", "8", "--iterations", "5",
                   "--supported-clocks", "1400,1200,1000", "--skip-iterations", "0", "--out", path("m.csv")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const profile::StageProfile profile = profile::read_profile_file(read_file(path("m.csv")), "m.csv").profile;
  for (const int clock_mhz : {1400, 1200, 1000}) {
    EXPECT_NEAR(profile.at_clock(0, OpKind::forward, clock_mhz).time_s, 50.0 / clock_mhz, 1e-3);
    EXPECT_NEAR(profile.at_clock(0, OpKind::backward, clock_mhz).energy_j, 100.0 / clock_mhz * (120 + 0.2 * clock_mhz),
                2);
  }
}

/// Two stages of two parts with two settings each, at three clocks, and an overhead.
std::string parts_csv() {
  std::string text = "stage,instruction,part,frequency,setting,time,energy,count\n";
  for (const int stage : {0, 1}) {
    for (const std::string_view instruction : {"forward", "backward"}) {
      for (const int clock_mhz : {1400, 1100, 800}) {
        for (const std::string_view part : {"attn", "mlp"}) {
          const double time_s = (part == "mlp" ? 2e-3 : 1e-3) * (0.3 + 0.7 * 1400 / clock_mhz);
          const double energy_j = time_s * (100 + 0.2 * clock_mhz);
          text += fmt::format("{},{},{},{},sm12,{},{},8\n", stage, instruction, part, clock_mhz, time_s, energy_j);
          text += fmt::format("{},{},{},{},sm3,{},{},8\n", stage, instruction, part, clock_mhz, 1.1 * time_s,
                              0.9 * energy_j);
        }
      }
      text += fmt::format("{},{},launch,,,0.0002,0.02,1\n", stage, instruction);
    }
  }
  return text;
}

class ProfileCompose : public ::testing::Test {
 protected:
  ProfileCompose() : parts_(write_text(folder_ / "parts.csv", parts_csv())) {}

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] ProgramResult compose(std::vector<std::string> others = {}) const {
    others.insert(others.begin(), {"profile", "compose", parts_, "--out", path("profile.csv")});
    return run_lowgear(others);
  }

  TemporaryFolder folder_;
  std::string parts_;
};

TEST_F(ProfileCompose, MakesAProfileThatIsPlannedVerifiedReplayedAndCompared) {
  const ProgramResult composed = compose();
  ASSERT_EQ(composed.exit_code, 0) << composed.err;
  EXPECT_THAT(composed.out, HasSubstr("Next: lowgear plan "));
  EXPECT_THAT(read_file(path("profile.csv")), HasSubstr("attn=sm12;mlp=sm12"));
  const std::vector<std::string> given{"--profile", path("profile.csv"), "--blocking-power", "80"};
  const auto run = [&given](std::vector<std::string> words) {
    words.insert(words.end(), given.begin(), given.end());
    return run_lowgear(words);
  };
  const ProgramResult planned = run({"plan", "--microbatches", "6", "--plans", "3", "--out", path("out")});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_THAT(planned.err + planned.out, HasSubstr("lowgear train refuses such a plan"));
  EXPECT_THAT(read_file(path("out/plans/00001.json")), HasSubstr("\"setting\":\"attn=sm"));
  EXPECT_EQ(run_lowgear({"verify", path("out")}).exit_code, 0);
  const ProgramResult replayed =
      run({"verify", "--replay", path("out/plans/00001.json"), "--json", "--trace", path("t")});
  ASSERT_EQ(replayed.exit_code, 0) << replayed.err;
  const Json json = parse_json(replayed.out, "stdout");
  EXPECT_DOUBLE_EQ(json["energy_j"].get<double>(), json["planned"]["energy_j"].get<double>());
  EXPECT_THAT(read_file(path("t")), HasSubstr("\"setting\":\"attn=sm"));
  const ProgramResult compared = run({"compare", "--microbatches", "6"});
  EXPECT_EQ(compared.exit_code, 0) << compared.err;
  EXPECT_THAT(refusal_of(run({"plan", "--microbatches", "6", "--perseus-format", "--out", path("out2")})),
              HasSubstr("Perseus' file format sets clocks alone"));
  EXPECT_FALSE(std::filesystem::exists(path("out2")));
}

TEST_F(ProfileCompose, SaysAsJsonWhatWasComposed) {
  const ProgramResult composed = compose({"--max-options", "2", "--blocking-power", "80", "--json"});
  ASSERT_EQ(composed.exit_code, 0) << composed.err;
  const Json json = parse_json(composed.out, "stdout");
  ASSERT_EQ(json["cells"].size(), 12);
  EXPECT_EQ(json["cells"][0]["combinations"], 4);
  EXPECT_EQ(json["cells"][0]["parts"], 3);
  EXPECT_EQ(json["cells"][0]["options"], 2);
}

TEST_F(ProfileCompose, RefusesWhatItCannotComposeInOneLine) {
  const auto refused = [this](const std::string& text, std::vector<std::string> others = {}) {
    write_text(parts_, text);
    const ProgramResult result = compose(std::move(others));
    EXPECT_EQ(result.exit_code, 2) << result.out;
    EXPECT_EQ(lines_of(result.err).size(), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(path("profile.csv")));
    return result.err;
  };
  EXPECT_THAT(refused("stage,instruction,part,frequency,setting,time,energy\n0,forward,a,900,,-1,2\n"),
              HasSubstr("parts.csv:2:"));
  EXPECT_THAT(refused("stage,instruction,part,frequency,setting,time,energy\n0,forward,a,900,,1,2\n"),
              HasSubstr("stage 0 has no backward rows"));
  EXPECT_THAT(refused(parts_csv(), {"--fill", "x"}), HasSubstr("--fill does not go with `profile compose`"));
  EXPECT_THAT(refused(parts_csv(), {"more.csv"}), HasSubstr("compose reads one file"));
  EXPECT_THAT(refused(parts_csv(), {"--max-options", "1"}), HasSubstr("--max-options"));
}

}  // namespace
}  // namespace lowgear::cli
