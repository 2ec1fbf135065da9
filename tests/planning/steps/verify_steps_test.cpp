#include "planning/steps/verify_steps.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/profile/profile_file.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/torch_csv.h"
#include "planning/steps/sample_steps.h"
#include "planning/steps/step_folder.h"

namespace lowgear::steps {
namespace {

StepFolder folder_of(ClocksPer clocks_per, double late_by_s = 0) {
  const SampleFiles files = sample_files(4, 3, 2, 4, 0.02);
  const schedule::PipelineDag dag = sample_dag(2, 4);
  const profile::StageProfile profile = sample_profile(2);
  const std::vector<double> power_w{kBlockingW, kBlockingW};
  Quiet progress;
  const PredictedSteps predicted =
      predict_steps(dag, read_lengths(files.lengths + "7,0,0,5\n", "l.csv"), read_trace(files.trace, "t.csv"), 4);
  const StepRun run =
      plan_steps(predicted, dag, profile, power_w, {.clocks_per = clocks_per, .late_by_s = late_by_s}, progress);
  const StepsFile file{.version = "1",
                       .command = "lowgear plan",
                       .profile = "p.csv",
                       .lengths = "l.csv",
                       .recorded = "t.csv",
                       .schedule = "1f1b",
                       .steps = 5,
                       .fitted_steps = 4,
                       .replicas = 3,
                       .ranks = 2,
                       .microbatches = 4,
                       .blocking_power_w = power_w,
                       .clocks_per = clocks_per,
                       .late_by_s = late_by_s,
                       .margins = run.margins,
                       .model = predicted.model};
  return {{"run.json", write_steps_file(file)},
          {"profile.csv", profile::write_profile_file({.profile = profile})},
          {"schedule.csv", write_torch_csv(schedule::one_f_one_b_schedule(2, 4))},
          {"steps.csv", write_steps_table(run)},
          {"replicas.csv", write_replicas_table(run)}};
}

/// Of loads of experts, whose steps are planned as `foresight` says.
StepFolder folder_of_loads(Foresight foresight, std::size_t recorded = LoadedSteps::kSteps) {
  LoadedSteps steps;
  steps.trace.steps.resize(recorded);
  const schedule::PipelineDag dag = sample_dag(LoadedSteps::kStages, LoadedSteps::kMicrobatches);
  const profile::StageProfile profile = sample_profile(LoadedSteps::kStages);
  const std::vector<double> power_w(LoadedSteps::kStages, kBlockingW);
  Quiet progress;
  const PredictedSteps predicted = predict_steps(dag, steps.lengths, steps.trace, LoadedSteps::kSteps, foresight);
  const StepRun run = plan_steps(predicted, dag, profile, power_w, {}, progress);
  const StepsFile file{.version = "1",
                       .command = "lowgear plan",
                       .profile = "p.csv",
                       .lengths = "rec",
                       .recorded = "t.csv",
                       .schedule = "1f1b",
                       .steps = LoadedSteps::kSteps,
                       .fitted_steps = static_cast<int>(recorded),
                       .replicas = LoadedSteps::kReplicas,
                       .ranks = LoadedSteps::kStages,
                       .microbatches = LoadedSteps::kMicrobatches,
                       .foresight = foresight,
                       .expert_ranks = LoadedSteps::kRanks,
                       .blocking_power_w = power_w,
                       .margins = run.margins,
                       .model = predicted.model};
  return {{"run.json", write_steps_file(file)},
          {"profile.csv", profile::write_profile_file({.profile = profile})},
          {"schedule.csv",
           write_torch_csv(schedule::one_f_one_b_schedule(LoadedSteps::kStages, LoadedSteps::kMicrobatches))},
          {"steps.csv", write_steps_table(run)},
          {"replicas.csv", write_replicas_table(run)},
          planner::PlanFolder::File{"amounts.csv", write_amounts_table(steps.lengths)}};
}

StepVerifyReport verify(const StepFolder& folder) {
  Quiet progress;
  return verify_steps(folder, progress);
}

std::string failures(const StepFolder& folder) {
  std::string all;
  for (const std::string& failure : verify(folder).failures) all += failure + '\n';
  return all;
}

/// Replaces the cell of a column in the first row below the header whose line begins with `row`.
void change_cell(std::string& csv, const std::string& row, int column,
                 const std::function<std::string(std::string)>& change) {
  std::size_t at = csv.find('\n' + row) + 1;
  for (int i = 0; i < column; ++i) at = csv.find(',', at) + 1;
  const std::size_t end = csv.find_first_of(",\n", at);
  csv.replace(at, end - at, change(csv.substr(at, end - at)));
}

class VerifySteps : public ::testing::TestWithParam<std::pair<ClocksPer, double>> {};

TEST_P(VerifySteps, PassesPlansOfEveryKind) {
  const StepFolder folder = folder_of(GetParam().first, GetParam().second);
  EXPECT_EQ(failures(folder), "");
  const StepVerifyReport report = verify(folder);
  EXPECT_EQ(report.steps, 4U);
  EXPECT_EQ(report.safe_steps, 1U);
  EXPECT_EQ(report.replicas, 4U * 2 * 3);
  EXPECT_GT(report.max_gap_pct, 0);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VerifySteps,
                         ::testing::Values(std::pair{ClocksPer::unit, 0.0}, std::pair{ClocksPer::replica, 0.0},
                                           std::pair{ClocksPer::unit, 0.01}, std::pair{ClocksPer::replica, 0.01}));

TEST(VerifyStepsOf, ChangedFilesFail) {
  const StepFolder whole = folder_of(ClocksPer::unit);
  const auto changed = [&](const std::string& row, int column, const std::function<std::string(std::string)>& change) {
    StepFolder folder = whole;
    change_cell(folder.replicas.text, row, column, change);
    EXPECT_NE(folder.replicas.text, whole.replicas.text);
    return failures(folder);
  };
  const auto first_word = [](const std::string& word) {
    return [word](const std::string& cell) { return word + cell.substr(cell.find(' ')); };
  };
  EXPECT_NE(changed("0,given,0", 3, first_word("1:0")).find("is not as dealt"), std::string::npos);
  EXPECT_NE(changed("0,balanced,0", 3,
                    [](const std::string& cell) {
                      return cell.substr(0, cell.find(' ')) + cell.substr(0, 0) + ' ' + cell.substr(0, cell.find(' ')) +
                             cell.substr(cell.find(' ', cell.find(' ') + 1));
                    })
                .find("runs twice"),
            std::string::npos);
  EXPECT_NE(changed("0,balanced,1", 4, first_word("0.123")).find("are not those of its microbatches"),
            std::string::npos);
  EXPECT_NE(changed("0,given,0", 6, first_word("1411")).find("was not measured at 1411 MHz"), std::string::npos);
  EXPECT_NE(changed("0,given,0", 6,
                    [](const std::string& cell) {
                      return (cell.starts_with("810") ? "1410" : "810") + cell.substr(cell.find(' '));
                    })
                .find("replays to"),
            std::string::npos);
  EXPECT_NE(changed("0,given,0", 7, first_word("1")).find("is not conserved"), std::string::npos);
  EXPECT_NE(changed("0,given,2", 2, [](const std::string&) { return "5"; }).find("not the next replica"),
            std::string::npos);

  StepFolder folder = whole;
  change_cell(folder.steps.text, "0,given", 17, [](const std::string& cell) { return cell + "1"; });
  folder.steps.text.replace(folder.steps.text.find("\n1,given,1,") + 11, 1, "9");
  EXPECT_NE(failures(folder).find("replays to"), std::string::npos);
}

TEST(VerifyStepsOf, AmountsOfTheStepsBeforeMakePredictions) {
  for (const Foresight foresight : {Foresight::own, Foresight::last, Foresight::mean}) {
    const StepFolder whole = folder_of_loads(foresight);
    EXPECT_EQ(failures(whole), "");
    EXPECT_EQ(verify(whole).steps, foresight == Foresight::own ? 12U : 11U);
    for (const int step : {2, 3}) {
      StepFolder folder = whole;
      change_cell(folder.amounts->text, fmt::format("{},1,2,0", step), 4,
                  [](const std::string& cell) { return fmt::format("{}", std::stod(cell) + 1); });
      const std::string all = failures(folder);
      const auto fails = [&](int at) {
        return all.find(fmt::format("step {}, given: replica 1: ", at)) != std::string::npos;
      };
      const bool own = foresight == Foresight::own;
      EXPECT_EQ(fails(step - 1), false) << all;
      EXPECT_TRUE(fails(step)) << all;  // at least the share of its own times
      EXPECT_EQ(fails(step + 1), !own) << all;
    }
    StepFolder folder = whole;
    change_cell(folder.replicas.text, "5,given,1", 8,
                [](const std::string& cell) { return "0.5" + cell.substr(cell.find(' ')); });
    EXPECT_NE(failures(folder).find("a mean rank is not busy for that share"), std::string::npos);
    folder = whole;
    folder.amounts->text.erase(folder.amounts->text.rfind('\n', folder.amounts->text.size() - 2) + 1);
    EXPECT_THROW((void)verify(folder), InputError);
    folder.amounts.reset();
    EXPECT_THROW((void)verify(folder), InputError);
  }
}

TEST(VerifyStepsOf, FilesOfAnotherShapeAreRefused) {
  const auto refusal = [](const StepFolder& folder) { return error_of([&] { (void)verify(folder); }); };
  StepFolder folder = folder_of(ClocksPer::unit);
  const auto at = folder.run.text.find("\"microbatches\": 4");
  folder.run.text.replace(at, 17, "\"microbatches\": 3");
  EXPECT_NE(refusal(folder).find("schedule.csv: has 4 microbatches, and run.json states 3"), std::string::npos);

  folder = folder_of_loads(Foresight::own);
  change_cell(folder.amounts->text, "0,0,0,1", 3, [](const std::string&) { return "2"; });
  EXPECT_NE(refusal(folder).find("amounts.csv: has 3 stages, and the schedule 2"), std::string::npos);
}

TEST(VerifyStepsOf, StepsThatAreReplayedByTheFitHaveItsTimes) {
  const StepFolder whole = folder_of_loads(Foresight::last, 6);
  EXPECT_EQ(failures(whole), "");
  EXPECT_NE(whole.steps.text.find("\n9,given,0,"), std::string::npos);
  StepFolder folder = whole;
  change_cell(folder.replicas.text, "9,given,1", 5,
              [](const std::string& cell) { return "0.5" + cell.substr(cell.find(' ')); });
  EXPECT_NE(failures(folder).find("is not replayed with the time of the fit"), std::string::npos);
  folder = whole;
  change_cell(folder.steps.text, "3,given", 20, [](const std::string&) { return "1"; });
  EXPECT_NE(failures(folder).find("is replayed by the fit, and is fitted"), std::string::npos);
}

TEST(VerifyStepsOf, AReplicaThatIsNotThereFails) {
  StepFolder folder = folder_of_loads(Foresight::own);
  for (int step = 0; step < LoadedSteps::kSteps; ++step) {
    change_cell(folder.replicas.text, fmt::format("{},given,1", step), 2, [](const std::string&) { return "1048576"; });
  }
  EXPECT_NE(failures(folder).find("not the next replica"), std::string::npos);
}

TEST(VerifyStepsOf, ABoundThatItsFlowsDoNotProveFails) {
  StepFolder folder = folder_of(ClocksPer::replica);
  change_cell(folder.steps.text, "0,given", 17,
              [](const std::string& cell) { return fmt::format("{}", 0.99 * std::stod(cell)); });
  EXPECT_NE(failures(folder).find("its flows prove"), std::string::npos);
}

TEST(VerifyStepsOf, DroppedStepsAndStatedFiguresThatDoNotReplayFail) {
  const StepFolder whole = folder_of(ClocksPer::unit);
  const auto without = [&](const std::string& row) {
    StepFolder folder = whole;
    for (std::string* const csv : {&folder.steps.text, &folder.replicas.text}) {
      for (std::size_t at = 0; (at = csv->find('\n' + row)) != std::string::npos;) {
        csv->erase(at, csv->find('\n', at + 1) - at);
      }
    }
    return failures(folder);
  };
  EXPECT_NE(without("1,").find("has 4 steps, of which 3 were fitted"), std::string::npos);
  EXPECT_NE(without("1,balanced").find("step 1 has no row of the deal balanced"), std::string::npos);
  EXPECT_NE(without("7,").find("has 4 steps, of which 4 were fitted"), std::string::npos);
  for (const auto& [column, finding] :
       {std::pair(9, "the mean clock with predicted times"), std::pair(16, "the mean clock with recorded times"),
        std::pair(18, "the gap")}) {
    StepFolder folder = whole;
    change_cell(folder.steps.text, "0,balanced", column, [](const std::string&) { return "0.5"; });
    EXPECT_NE(failures(folder).find(finding), std::string::npos) << finding;
  }
  StepFolder folder = whole;
  folder.run.text.replace(folder.run.text.find("\"steps\": 5"), 10, "\"steps\": 0");
  EXPECT_THROW((void)verify(folder), InputError);
}

TEST(VerifyStepsOf, UnreadableFilesAreRefusedWithTheirPlace) {
  StepFolder folder = folder_of(ClocksPer::unit);
  change_cell(folder.replicas.text, "0,given,0", 6, [](const std::string&) { return "fast"; });
  EXPECT_THAT(error_of([&] { (void)verify(folder); }), testing::HasSubstr("replicas.csv:2"));
  folder = folder_of(ClocksPer::unit);
  folder.run.text.replace(folder.run.text.find("lowgear.steps/1"), 15, "lowgear.steps/9");
  EXPECT_THROW((void)verify(folder), InputError);
}

}  // namespace
}  // namespace lowgear::steps
