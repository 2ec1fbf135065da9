#include <gmock/gmock.h>
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

using ::testing::HasSubstr;

/// Three stages of four layers, planned under 1F1B with six microbatches.
class ReplanCommand : public ::testing::Test {
 protected:
  ReplanCommand() {
    const std::string profile = write_text(folder_ / "profile.csv", small_profile(3));
    const ProgramResult planned =
        run_lowgear(pipeline_command("plan", profile, 3, 6, {"--out", out(), "--plans", "3", "--quiet"}));
    EXPECT_EQ(planned.exit_code, 0) << planned.err;
  }

  [[nodiscard]] std::string out() const { return (folder_ / "out").string(); }
  [[nodiscard]] std::string new_out() const { return (folder_ / "new").string(); }

  [[nodiscard]] ProgramResult replan(const std::vector<std::string>& others) const {
    std::vector<std::string> words = {"plan", "--change", out(), "--layers", "12"};
    words.insert(words.end(), others.begin(), others.end());
    return run_lowgear(words);
  }
  [[nodiscard]] Json replanned(std::vector<std::string> others) const {
    others.emplace_back("--json");
    const ProgramResult result = replan(others);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "stdout");
  }

  TemporaryFolder folder_;
};

double energy_j(const Json& work, const char* which) { return work.at(which).at("energy_j").get<double>(); }

TEST_F(ReplanCommand, SaysWhatFreezingSaves) {
  const Json json = replanned({"--freeze", "3"});
  EXPECT_EQ(json.at("figures"), "planned");
  EXPECT_EQ(json.at("before").at("partition"), "custom:0,4,8,12");
  EXPECT_GT(json.at("after").at("layers").at(0).get<int>(), 4);
  EXPECT_LE(json.at("after").at("plan").at("time_s").get<double>(),
            json.at("before").at("plan").at("time_s").get<double>() + 1e-9);
  EXPECT_LT(energy_j(json.at("after"), "plan"), energy_j(json.at("same_partition"), "plan"));
  EXPECT_LT(energy_j(json.at("same_partition"), "plan"), energy_j(json.at("before"), "plan"));
  EXPECT_GE(energy_j(json.at("after"), "plan"), json.at("after").at("plan").at("lower_bound_j").get<double>());
  EXPECT_LT(json.at("per_microbatch").at("against_plan").at("energy_pct").get<double>(), -10);
}

TEST_F(ReplanCommand, PrintsATableForPeople) {
  const ProgramResult result = replan({"--freeze", "3"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("changed, new partition"));
  EXPECT_THAT(result.out, HasSubstr("partition custom:0,4,8,12\nnew       custom:0,"));
  EXPECT_THAT(result.out, HasSubstr("against the plan before"));
}

TEST_F(ReplanCommand, KeepsThePartitionOfAnAttachedJobAndItsOwnTime) {
  const Json json = replanned({"--freeze", "4", "--keep-partition", "--time", "own"});
  EXPECT_EQ(json.at("after").at("partition"), "custom:0,4,8,12");
  EXPECT_EQ(json.at("after").at("forward_only_stages"), 1);
  EXPECT_DOUBLE_EQ(json.at("after").at("plan").at("deadline_s").get<double>(),
                   json.at("after").at("fastest_s").get<double>());
}

TEST_F(ReplanCommand, WritesAFolderThatVerifies) {
  const ProgramResult written = replan({"--freeze", "5", "--out", new_out()});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const ProgramResult verified = run_lowgear({"verify", new_out()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_THAT(read_file(folder_ / "new" / "report.html"), HasSubstr("5 of 12 layers frozen"));
  EXPECT_EQ(run_lowgear({"runs", "report", new_out()}).exit_code, 0);

  ASSERT_EQ(replan({"--freeze", "8", "--keep-partition", "--out", new_out()}).exit_code, 0);
  EXPECT_EQ(run_lowgear({"verify", new_out()}).exit_code, 0);
  EXPECT_THAT(read_file(folder_ / "new" / "schedule.csv"), testing::Not(HasSubstr("1B")));
  EXPECT_THAT(refusal_of({"plan", "--change", new_out(), "--layers", "12"}),
              HasSubstr("new: some of its layers are frozen or scaled already (lowgear plan --change"));
}

TEST_F(ReplanCommand, RemembersThePartitionOfAPlanOfChangedWork) {
  const Json scaled =
      json_of({"plan", "--change", out(), "--layers", "2,5,5", "--scale", "0-11=0.8", "--out", new_out()});
  EXPECT_NE(scaled.at("after").at("partition"), "custom:0,4,8,12") << "equal parts need no memory";
  const Json again = json_of({"plan", "--change", new_out(), "--layers", "12", "--freeze", "3"});
  EXPECT_EQ(again.at("before").at("partition"), scaled.at("after").at("partition"));
  const Json layers = parse_json(read_file(folder_ / "new" / "run.json"), "run").at("layers");
  EXPECT_EQ(layers.at("alike"), true);
  EXPECT_THAT(refusal_of({"plan", "--change", new_out(), "--layers", "9"}),
              HasSubstr("as it has moved them; give their sum"));

  EXPECT_EQ(replan({"--scale", "0-3=0.8", "--out", new_out()}).exit_code, 0);
  EXPECT_THAT(refusal_of({"plan", "--change", new_out(), "--layers", "12", "--freeze", "3"}),
              HasSubstr("give the folder of the plan before that, and state all changes"));
}

TEST_F(ReplanCommand, AsksForClocksAsFarAheadAsThePlanBefore) {
  const std::string ahead = (folder_ / "ahead").string();
  const ProgramResult planned =
      run_lowgear(pipeline_command("plan", (folder_ / "profile.csv").string(), 3, 6,
                                   {"--switch-latency", "13.7", "--out", ahead, "--plans", "3", "--quiet"}));
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const ProgramResult written =
      run_lowgear({"plan", "--change", ahead, "--layers", "12", "--freeze", "5", "--out", new_out()});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const Json plan = parse_json(read_file(folder_ / "new" / "plans" / "00000.json"), "plan");
  EXPECT_DOUBLE_EQ(plan.at("clock_lead_s").get<double>(), 0.0137);
  EXPECT_EQ(parse_json(read_file(folder_ / "new" / "run.json"), "run").at("late_by_s"), 0);
  EXPECT_EQ(run_lowgear({"verify", new_out()}).exit_code, 0);

  ASSERT_EQ(replan({"--freeze", "5", "--out", new_out()}).exit_code, 0);
  EXPECT_EQ(parse_json(read_file(folder_ / "new" / "plans" / "00000.json"), "plan")["clock_lead_s"], 0.025);
}

TEST_F(ReplanCommand, ScalesRecomputesAndChangesMicrobatches) {
  const double before_j = energy_j(replanned({}).at("before"), "plan");
  EXPECT_LT(energy_j(replanned({"--scale", "0-11=0.8"}).at("after"), "plan"), before_j);
  EXPECT_LT(energy_j(replanned({"--drop-weight-gradients", "0.25"}).at("after"), "plan"), before_j);
  EXPECT_GT(energy_j(replanned({"--recompute", "added", "--time", "own"}).at("after"), "plan"), before_j);
  const Json more = replanned({"--microbatches", "12", "--keep-partition"});
  EXPECT_EQ(more.at("after").at("microbatches"), 12);
  EXPECT_LE(more.at("per_microbatch").at("against_plan").at("energy_pct").get<double>(), 0);
}

TEST_F(ReplanCommand, RefusesWhatCannotBe) {
  const auto refusal = [&](const std::vector<std::string>& others) { return refusal_of(replan(others)); };
  EXPECT_THAT(refusal({"--freeze", "12"}), HasSubstr("at least the last layer has to train"));
  EXPECT_THAT(refusal({"--scale", "0-12=0.8"}), HasSubstr("the model has layers 0 to 11"));
  EXPECT_THAT(refusal({"--scale", "3=x"}), HasSubstr("expected FIRST-LAST=TIME[,ENERGY]"));
  EXPECT_THAT(refusal({"--scale", "4-3=1"}), HasSubstr("expected FIRST-LAST=TIME[,ENERGY]"));
  EXPECT_THAT(refusal({"--recompute", "added"}), testing::AllOf(HasSubstr("cannot be kept"), HasSubstr("--time own")));
  EXPECT_THAT(refusal({"--deadline", "1", "--time", "own"}), HasSubstr("--time excludes --deadline"));
  EXPECT_THAT(refusal_of({"plan", "--change", out(), "--layers", "6,6"}),
              HasSubstr("--layers names 2 stages and the pipeline has 3"));
  EXPECT_THAT(refusal_of({"plan", "--change", out(), "--layers", "6,,6"}), HasSubstr("as 96 or 12,12,12,10, not"));
  EXPECT_THAT(refusal_of({"plan", "--change", (folder_ / "nothing").string(), "--layers", "12"}),
              HasSubstr("nothing: no such folder; name a folder that lowgear plan has written"));
  EXPECT_THAT(refusal({"--freeze", "4", "--out", out() + "/."}), HasSubstr("--out: is the folder of --change"));
  const ProgramResult file = run_lowgear({"plan", "--change", out() + "/run.json", "--layers", "12"});
  EXPECT_THAT(file.err, HasSubstr("run.json: it is a file"));
  std::filesystem::create_directory(folder_ / "empty");
  const ProgramResult empty = run_lowgear({"plan", "--change", (folder_ / "empty").string(), "--layers", "12"});
  EXPECT_THAT(empty.err, HasSubstr("empty: holds no run.json"));
}

TEST_F(ReplanCommand, RefusesAPlanForConditionsThatItDoesNotKeep) {
  const std::string capped = (folder_ / "capped").string();
  const ProgramResult planned = run_lowgear({"plan", out() + "/profile.csv", "--microbatches", "8", "--blocking-power",
                                             "70", "--power-cap", "900:job", "--slow-rank", "1=1.2", "--out", capped});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(run_lowgear({"verify", capped}).exit_code, 0);
  EXPECT_THAT(refusal_of({"plan", "--change", capped, "--layers", "12", "--freeze", "3"}),
              HasSubstr("capped: its plan is for at most 900 W per job and rank 1 at 1.2 times the profile's times, "
                        "which a plan of changed work does not know"));
  const std::string other = (folder_ / "other").string();
  const ProgramResult perseus = run_lowgear({"plan", out() + "/profile.csv", "--microbatches", "8", "--blocking-power",
                                             "70", "--policy", "perseus", "--out", other});
  ASSERT_EQ(perseus.exit_code, 0) << perseus.err;
  EXPECT_THAT(refusal_of({"plan", "--change", other, "--layers", "12", "--freeze", "3"}),
              HasSubstr("other: its plan is one of the policy perseus, and changed work is planned with lowgear"));
}

TEST_F(ReplanCommand, ComparesWithThePlanOfTheFolderAlone) {
  const std::string sandwich = (folder_ / "sandwich").string();
  const ProgramResult planned = run_lowgear({"plan", out() + "/profile.csv", "--microbatches", "8", "--blocking-power",
                                             "70", "--frontier", "sandwich", "--epsilon", "0.05", "--out", sandwich});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const double planned_j = parse_json(read_file(sandwich + "/plans/00000.json"), "plan").at("energy_j").get<double>();
  const Json json = json_of({"plan", "--change", sandwich, "--layers", "12", "--freeze", "3"});
  EXPECT_DOUBLE_EQ(energy_j(json.at("before"), "plan"), planned_j);
}

/// The order is free, too.
class ReplanWithFreeOrder : public ReplanCommand {
 protected:
  [[nodiscard]] Json searched(const std::string& folder, const std::vector<std::string>& others) const {
    std::vector<std::string> words = {"plan",       "--change", folder,  "--layers", "12",
                                      "--schedule", "auto",     "--out", new_out()};
    words.insert(words.end(), others.begin(), others.end());
    return json_of(words);
  }
};

TEST_F(ReplanWithFreeOrder, NeedsNoMoreThanTheKeptOrderAndIsVerified) {
  const Json kept = replanned({"--freeze", "3"});
  const Json free = searched(out(), {"--freeze", "3", "--backward-split", "0.5"});
  const Json& plan = free.at("plans").at(0);
  EXPECT_LE(plan.at("time_s").get<double>(), kept.at("before").at("plan").at("time_s").get<double>() + 1e-9);
  EXPECT_LT(plan.at("energy_j").get<double>(), energy_j(kept.at("after"), "plan"));
  EXPECT_GE(plan.at("energy_j").get<double>(), plan.at("joint_bound_j").get<double>());
  EXPECT_LT(free.at("per_microbatch").at("energy_pct").get<double>(),
            kept.at("per_microbatch").at("against_plan").at("energy_pct").get<double>());
  EXPECT_EQ(free.at("before").at("order"), "1f1b");
  EXPECT_EQ(free.at("partition").at("given"), Json({4, 4, 4})) << "the layers that the job has";
  const ProgramResult verified = run_lowgear({"verify", new_out()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
}

TEST_F(ReplanWithFreeOrder, EqualsThePlanOfTheChangedWork) {
  const Json free = searched(out(), {"--microbatches", "9", "--keep-partition", "--time", "own"});
  const Json direct =
      json_of(pipeline_command("plan", (folder_ / "profile.csv").string(), 3, 9,
                               {"--schedule", "auto", "--slowdown", "0", "--out", (folder_ / "direct").string()}));
  const Json& plan = free.at("plans").at(0);
  EXPECT_NEAR(plan.at("time_s").get<double>(), direct.at("plans").at(0).at("time_s").get<double>(), 1e-9);
  EXPECT_NEAR(plan.at("energy_j").get<double>(), direct.at("plans").at(0).at("energy_j").get<double>(), 1e-6);
}

TEST_F(ReplanWithFreeOrder, StartsFromBalancedLayersWhereTheFirstRankWouldHaveNothingToTrain) {
  const Json free = searched(out(), {"--freeze", "4"});
  EXPECT_GT(free.at("partition").at("given").at(0).get<int>(), 4);
  EXPECT_THAT(free.at("warnings").dump(), HasSubstr("the plan's layers, 4,4,4 by rank, leave the first rank nothing"));
}

TEST_F(ReplanWithFreeOrder, StartsFromASearchedPlanWhoseLayersHaveMoved) {
  const std::string joint = (folder_ / "joint").string();
  const Json planned = json_of(pipeline_command("plan", (folder_ / "profile.csv").string(), 3, 6,
                                                {"--schedule", "auto", "--layers", "2,5,5", "--out", joint}));
  const Json free = searched(joint, {"--freeze", "2", "--microbatches", "9"});
  EXPECT_EQ(free.at("before").at("microbatches"), 6);
  EXPECT_LT(free.at("per_microbatch").at("energy_pct").get<double>(), 0);
  int layers = 0;
  for (const Json& stage : free.at("partition").at("chosen")) layers += stage.get<int>();
  EXPECT_EQ(layers, 12);
  const ProgramResult verified = run_lowgear({"verify", new_out()});
  EXPECT_EQ(verified.exit_code, 0) << verified.out << verified.err;
  EXPECT_THAT(refusal_of({"plan", "--change", new_out(), "--layers", "12"}), HasSubstr("frozen or scaled already"));
  EXPECT_THAT(refusal_of({"plan", "--change", joint, "--layers", "13"}),
              HasSubstr("as it has moved them; give their sum"));
  const ProgramResult kept = run_lowgear({"plan", "--change", joint, "--layers", "12", "--freeze", "2"});
  EXPECT_EQ(kept.exit_code, 0) << kept.err;
}

TEST_F(ReplanWithFreeOrder, RefusesWhatItCannotSearch) {
  const auto refusal = [&](const std::vector<std::string>& others) {
    const ProgramResult result = replan(others);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(new_out()));
    return result.err;
  };
  EXPECT_THAT(refusal({"--schedule", "auto"}), HasSubstr("--schedule auto needs --out"));
  EXPECT_THAT(refusal({"--memory-limit", "3"}), HasSubstr("--memory-limit: only a search of orders uses it"));
  EXPECT_THAT(refusal({"--backward-split", "0.5"}), HasSubstr("--backward-split: only a search of orders uses it"));
  EXPECT_THAT(refusal({"--schedule", "auto", "--out", new_out(), "--freeze", "8", "--keep-partition"}),
              HasSubstr("a stage has nothing left to train"));
  EXPECT_THAT(refusal({"--schedule", "auto", "--out", new_out(), "--memory-limit", "3,3"}), HasSubstr("memory"));
  EXPECT_THAT(refusal({"--schedule", "gpipe"}), HasSubstr("--schedule"));
}

}  // namespace
}  // namespace lowgear::cli
