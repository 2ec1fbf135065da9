#include "training/trainer/run/progress_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::trainer {

namespace {

TEST(ServerPresence, IsNoNewsWhileTheServerAnswers) {
  ServerPresence server("http://planner:7787", 4);
  EXPECT_EQ(server.observe(0, ""), "");
  server.count_step();
  EXPECT_EQ(server.summary(), "");
  EXPECT_EQ(server.steps_without(), 0);
}

TEST(ServerPresence, SaysOnceThatTheServerIsAwayAndOnceThatItIsBack) {
  ServerPresence server("http://planner:7787", 4);
  EXPECT_EQ(server.observe(1, "http://planner:7787: cannot be reached: Connection refused"),
            "no server: http://planner:7787: cannot be reached: Connection refused; training continues without plans "
            "of the server until it responds");
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(server.observe(4, "http://planner:7787: cannot be reached: it does not respond"), "");
    server.count_step();
  }
  EXPECT_EQ(server.observe(0, ""), "the server http://planner:7787 responds again");
  server.count_step();
  EXPECT_EQ(server.steps_without(), 3);
  EXPECT_EQ(
      server.summary(),
      "3 of 4 steps were done with up to 4 of 4 ranks without the server: http://planner:7787: cannot be reached: "
      "it does not respond");
}

TEST(ServerPresence, StatesInTheEndTheReasonOfAllRanksAndNotThatOfTheLastToReturn) {
  ServerPresence server("http://planner:7787", 4);
  (void)server.observe(4, "http://planner:7787: cannot be reached: Connection refused");
  server.count_step();
  EXPECT_EQ(server.observe(1, ""), "");
  server.count_step();
  EXPECT_EQ(
      server.summary(),
      "2 of 2 steps were done with up to 4 of 4 ranks without the server: http://planner:7787: cannot be reached: "
      "Connection refused");
}

TEST(ServerPresence, CountsRanksThatAloneHaveNoAnswer) {
  ServerPresence server("unix:/run/server.sock", 8);
  EXPECT_EQ(server.observe(3, ""),
            "no server: unix:/run/server.sock: 3 of 8 ranks get no response; training continues without plans of the "
            "server until it responds");
}

IterationResult step(double time_s, std::optional<double> energy_j) {
  IterationResult result;
  result.time_s = time_s;
  result.energy_j = energy_j;
  result.mfu = 0.5;
  result.loss = time_s;
  return result;
}

TEST(RunTotals, LeaveTheFirstStepsOutOfTheMeans) {
  RunTotals totals(0, 4, 100);
  for (const double time_s : {90.0, 80.0, 1.0, 3.0}) totals.add(step(time_s, 10 * time_s));
  const RunSummary& summary = totals.summary();
  EXPECT_EQ(summary.steps, 4);
  EXPECT_EQ(summary.counted_steps, 2);
  EXPECT_EQ(summary.first_loss, 90);
  EXPECT_EQ(summary.last_loss, 3);
  EXPECT_DOUBLE_EQ(summary.step_time_s, 2);
  EXPECT_DOUBLE_EQ(*summary.step_energy_j, 20);
  EXPECT_DOUBLE_EQ(summary.tokens_per_s, 50);
  EXPECT_DOUBLE_EQ(*summary.mfu, 0.5);
  EXPECT_THAT(summary.text(), testing::HasSubstr("20 J a step"));
  EXPECT_THAT(summary.text(), testing::HasSubstr("means without the first 2 steps"));
}

TEST(RunTotals, CountTheLastStepWhereThereAreNoOthers) {
  RunTotals totals(6, 7, 100);
  totals.add(step(2, 30));
  EXPECT_EQ(totals.summary().first_step, 6);
  EXPECT_EQ(totals.summary().counted_steps, 1);
  EXPECT_DOUBLE_EQ(totals.summary().step_time_s, 2);
}

TEST(RunTotals, HaveNoTimesBeforeAStepCounts) {
  RunTotals totals(0, 4, 100);
  totals.add(step(1, 10));
  EXPECT_THAT(totals.summary().text(), testing::EndsWith(", too few for times and energy: none of them counts yet"));
  for (const char* member : {"step_time_s", "tokens_per_s", "energy"}) {
    EXPECT_THAT(totals.summary().json(), testing::HasSubstr(fmt::format("\"{}\":null", member)));
  }
}

TEST(RunTotals, HaveNoEnergyUnlessEveryStepHasOne) {
  RunTotals totals(0, 4, 100);
  for (int i = 0; i < 3; ++i) totals.add(step(1, 10));
  EXPECT_TRUE(totals.summary().step_energy_j);
  totals.add(step(1, std::nullopt));
  EXPECT_FALSE(totals.summary().step_energy_j);
}

/// The rule is that of `lowgear runs report` (run_record.h).
TEST(RunTotals, AreInvalidAsTheReportOfTheirMetricsIs) {
  RunTotals totals(0, 4, 100);
  IterationResult marked = step(1, 10);
  marked.simulated = true;
  marked.invalid = true;
  totals.add(marked);
  totals.add(marked);
  EXPECT_NE(totals.summary().text().find("\ninvalid: these times and energies do not count: the real "),
            std::string::npos);
  EXPECT_NE(totals.summary().json().find("\"invalid\":true"), std::string::npos);
  IterationResult valid = marked;
  valid.invalid = false;
  totals.add(valid);
  EXPECT_EQ(totals.summary().invalid, "");
  EXPECT_NE(totals.summary().text().find("\nnote: 2 of 3 steps are marked invalid"), std::string::npos);
}

using testing::HasSubstr;
using testing::Not;

class Metrics : public testing::Test {
 protected:
  Metrics() {
    config_.steps = 4;
    config_.metrics = folder_ / "metrics.jsonl";
  }
  /// Reports steps from `first` to before `end`, each with a loss of its own.
  void report(std::int64_t first, std::int64_t end, double loss) {
    ProgressReport report(config_, ProgressReport::Output::summary_json, first);
    for (std::int64_t step = first; step < end; ++step) {
      IterationResult result;
      result.iteration = step;
      result.loss = loss + static_cast<double>(step);
      result.time_s = 0.5;
      report.add(result);
    }
    summary_ = report.summary();
  }
  [[nodiscard]] std::string content() const { return read_file(*config_.metrics); }
  /// The first line of a process that continues from a checkpoint.
  [[nodiscard]] static std::string continued(int step, const std::string& loss) {
    std::string text = line(step, loss);
    return text.insert(text.rfind('}'), ",\"continued\":true");
  }
  [[nodiscard]] static std::string line(int step, const std::string& loss) {
    return "{\"step\":" + std::to_string(step) + ",\"loss\":" + loss +
           ",\"gradient_norm\":0.0,\"learning_rate\":0.0,\"time_s\":0.5,\"tokens\":0}\n";
  }

  TemporaryFolder folder_;
  launcher::TrainConfig config_;
  RunSummary summary_;
};

TEST_F(Metrics, OfANewRunReplaceOlderOnes) {
  report(0, 3, 10);
  report(0, 1, 20);
  EXPECT_EQ(content(), line(0, "20.0"));
}

TEST_F(Metrics, StateWhatActivationsTakeWhereThatWasMeasured) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  IterationResult result;
  result.time_s = 1;
  report.add(result);
  result.iteration = 1;
  result.activation_bytes = {4096, 0};
  report.add(result);
  EXPECT_THAT(content(), HasSubstr("\"activation_bytes\":[4096,0]"));
  EXPECT_THAT(content().substr(0, content().find('\n')), Not(HasSubstr("activation_bytes")));
}

TEST_F(Metrics, CountRanksWhoseEnergyIsThatOfPowerReadings) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  IterationResult result;
  result.time_s = 1;
  result.energy_j = 100;
  report.add(result);
  result.ranks_by_power = 1;
  result.energy_problem = "the energy counter shows no energy for 2 s";
  testing::internal::CaptureStderr();
  report.add(result);
  report.add(result);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("the energy of 1 of 1 ranks is that of power readings"));
  EXPECT_THAT(said, HasSubstr("shows no energy for 2 s"));
  EXPECT_EQ(said.find("step 1"), said.rfind("step 1")) << "said once";
  EXPECT_THAT(content(), HasSubstr("\"ranks_by_power_readings\":1"));
  EXPECT_THAT(content().substr(0, content().find('\n')), Not(HasSubstr("ranks_by_power_readings")));
}

TEST_F(Metrics, SayOnceInTheFirstStepsThatTheyAreInvalidAndOnceThatTheyCountAgain) {
  config_.simulated_gpu.emplace();
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  IterationResult result;
  result.time_s = 1;
  result.simulated = result.invalid = true;
  testing::internal::CaptureStderr();
  report.add(result);
  report.add(result);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "the first steps take longer";
  testing::internal::CaptureStderr();
  result.iteration = 2;
  report.add(result);
  report.add(result);
  const std::string said = testing::internal::GetCapturedStderr();
  constexpr const char* kWarning = "step 3: the real computation took longer than the kernels";
  EXPECT_THAT(said, HasSubstr(kWarning));
  EXPECT_EQ(said.find("do not count while that lasts"), said.rfind("do not count while that lasts"));
  testing::internal::CaptureStderr();
  result.invalid = false;
  result.iteration = 4;
  report.add(result);
  report.add(result);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "step 5: times and energies count again: the real computation does not take longer than the kernels of the "
            "simulated GPUs\n");
}

TEST_F(Metrics, SayOnceThatSimulatedGpusIdleWithoutKernels) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  IterationResult result;
  result.time_s = 1;
  testing::internal::CaptureStderr();
  report.add(result);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "real GPUs";
  testing::internal::CaptureStderr();
  result.simulated = true;
  report.add(result);
  report.add(result);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("those of idle GPUs; add simulated_gpu"));
  EXPECT_EQ(said.find("idle"), said.rfind("idle"));
}

TEST(ProgressLine, StatesTheRemainingTimeOfARunThatEnds) {
  const auto line_of = [](std::int64_t steps) {
    launcher::TrainConfig config;
    config.steps = steps;
    ProgressReport report(config, ProgressReport::Output::lines, 0);
    IterationResult result;
    result.time_s = 1;
    testing::internal::CaptureStdout();
    report.add(result);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(line_of(121), testing::AllOf(HasSubstr("step 1/121 "), HasSubstr("2:00 left")));
  EXPECT_THAT(line_of(1'000'000'000), testing::AllOf(HasSubstr("step 1 "), Not(HasSubstr("left"))));
}

TEST_F(Metrics, OfARunThatContinuesKeepTheStepsBeforeIt) {
  report(0, 3, 10);
  report(2, 4, 20);
  EXPECT_EQ(content(), line(0, "10.0") + line(1, "11.0") + continued(2, "22.0") + line(3, "23.0"));
}

TEST_F(Metrics, ThatAreCutInTheMiddleOfALineLoseThatLine) {
  write_file_atomically(*config_.metrics, line(0, "10.0") + "{\"step\":1,\"lo");
  report(2, 3, 20);
  EXPECT_EQ(content(), line(0, "10.0") + continued(2, "22.0"));
}

TEST_F(Metrics, MayBeMissingWhenARunGoesOn) {
  report(3, 4, 20);
  EXPECT_EQ(content(), continued(3, "23.0"));
}

TEST_F(Metrics, HaveTheOperatingPointAndWhatWasDecided) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  IterationResult result;
  result.operating_point = "1200 MHz";
  result.decisions = {
      {1, adapt::ChangeKind::slowdown, adapt::ChangeAction::adopt, {.frozen_blocks = 0, .point = 1}, "it saves"}};
  report.add(result);
  EXPECT_THAT(content(), HasSubstr("\"operating_point\":\"1200 MHz\",\"decisions\":[{\"frozen_blocks\":0,\"point\":1,"
                                   "\"technique\":\"slowdown\",\"change\":\"adopt\",\"reason\":\"it saves\"}]"));
}

TEST_F(Metrics, HaveThePrecisionThatAProbeChose) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  IterationResult first;
  first.precision = {.fp8 = true, .reason = "it saves", .steps = 40, .time_s = 1.5, .energy_j = 300};
  report.add(first);
  IterationResult second;
  second.iteration = 1;
  report.add(second);
  EXPECT_THAT(content(), HasSubstr("\"precision\":{\"type\":\"fp8\",\"reason\":\"it saves\",\"probe_steps\":40,"
                                   "\"probe_time_s\":1.5,\"probe_energy_j\":300.0}}\n{\"step\":1"));
  EXPECT_EQ(content().find("precision"), content().rfind("precision")) << "in one line";
}

TEST_F(Metrics, OfTheLastStepAloneCountInTheSummary) {
  report(3, 4, 20);
  EXPECT_EQ(summary_.first_step, 3);
  EXPECT_EQ(summary_.counted_steps, 1);
  EXPECT_EQ(summary_.step_time_s, 0.5);
}

TEST_F(Metrics, HaveTheUtilisationWhereItIsKnown) {
  config_.steps = 5;
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  for (int step = 0; step < 5; ++step) {
    IterationResult result;
    result.iteration = step;
    result.time_s = step < 4 ? 0.5 : 1;
    result.mfu = step < 4 ? 0.5 : 0.25;
    report.add(result);
  }
  EXPECT_THAT(content(), HasSubstr("\"mfu\":0.25"));
  // Steps 2, 3 and 4 count: 0.75 s of work in 2 s.
  EXPECT_DOUBLE_EQ(report.summary().mfu.value(), 0.375);
  EXPECT_THAT(report.summary().text(), HasSubstr(", 37.5 % MFU"));
  EXPECT_THAT(report.summary().json(), HasSubstr("\"mfu\":0.375"));
}

TEST_F(Metrics, HaveTheHeldOutLossOfTheStepsWhereItWasMeasured) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  for (int step = 0; step < 4; ++step) {
    IterationResult result;
    result.iteration = step;
    result.time_s = 0.5;
    if (step == 1) result.held_out_loss = 2.5;
    if (step == 2) result.held_out_loss = 2.25;
    report.add(result);
  }
  EXPECT_THAT(content(), HasSubstr("\"held_out_loss\":2.25"));
  EXPECT_EQ(report.summary().held_out_loss, 2.25) << "as measured last";
  EXPECT_THAT(report.summary().json(), HasSubstr("\"held_out_loss\":2.25"));
  EXPECT_THAT(report.summary().text(), HasSubstr(", held-out loss 2.2500"));
}

TEST_F(Metrics, HaveNoUtilisationWhereAStepHasNone) {
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  for (int step = 0; step < 4; ++step) {
    IterationResult result;
    result.iteration = step;
    result.time_s = 0.5;
    if (step != 3) result.mfu = 0.5;
    report.add(result);
  }
  EXPECT_EQ(report.summary().mfu, std::nullopt);
  EXPECT_THAT(report.summary().json(), Not(HasSubstr("mfu")));
}

TEST_F(Metrics, ThatCannotBeWrittenAreToldAtTheFirstAndAtTheEnd) {
  config_.metrics = "/dev/full";
  testing::internal::CaptureStderr();
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  for (int step = 0; step < 3; ++step) {
    IterationResult result;
    result.iteration = step;
    result.time_s = 0.5;
    report.add(result);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "/dev/full: 1 of 1 lines could not be written: No space left on device; training continues\n");
  testing::internal::CaptureStderr();
  report.finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "/dev/full: 3 of 3 lines could not be written: No space left on device\n");
  EXPECT_THAT(report.summary().json(), HasSubstr("\"lost_metrics\":3"));
}

TEST_F(Metrics, SayAtTheEndWhichRecordingsEndedBefore) {
  config_.recording = "rec";
  config_.parallel.pp = 4;
  ProgressReport report(config_, ProgressReport::Output::summary_json, 0);
  EXPECT_THAT(report.summary().json(), HasSubstr("\"ranks_without_recording\":0"));
  IterationResult result;
  result.time_s = 1;
  result.ranks_without_recording = 3;
  report.add(result);
  testing::internal::CaptureStderr();
  report.finish();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "the recordings of 3 of 4 ranks ended before the last step; each has said why\n");
  EXPECT_THAT(report.summary().json(), HasSubstr("\"ranks_without_recording\":3"));
}

TEST_F(Metrics, AreNoneWhenAllWasDoneBefore) {
  report(4, 4, 20);
  EXPECT_THAT(summary_.text(), HasSubstr("4 steps were done before"));
}

launcher::TrainConfig config() {
  launcher::TrainConfig config;
  config.model.layers = 24;
  config.adapt.freezing = true;
  return config;
}

adapt::ChangeDecision adopted() {
  return {.steps_done = 1200,
          .kind = adapt::ChangeKind::freezing,
          .action = adapt::ChangeAction::adopt,
          .configuration = {.frozen_blocks = 6, .point = 1},
          .reason = "energy -3.1 % +- 0.4 %"};
}

TEST(DecisionReports, SayHowTheJobRunsFromThenOn) {
  const protocol::TrainingDecision decision = reported(adopted(), config());
  EXPECT_EQ(decision.from_iteration, 1200) << "steps are numbered from 0";
  EXPECT_EQ(decision.technique, "freezing");
  EXPECT_EQ(decision.change, "adopt");
  EXPECT_EQ(decision.configuration, "6 of 24 blocks frozen");
  EXPECT_EQ(decision.reason, "energy -3.1 % +- 0.4 %");
}

TEST(DecisionReports, NameEveryChangeAsTheServerTakesIt) {
  for (int action = 0; action <= static_cast<int>(adapt::ChangeAction::wait); ++action) {
    adapt::ChangeDecision decision = adopted();
    decision.action = static_cast<adapt::ChangeAction>(action);
    EXPECT_TRUE(protocol::is_word(reported(decision, config()).change)) << action;
  }
}

TEST(DecisionReports, NameTheOperatingPointAndThePlacebo) {
  launcher::TrainConfig both = config();
  both.adapt.slowdown.emplace();
  both.adapt.slowdown->clocks_mhz = {1980, 1755};
  both.adapt.placebo = true;
  EXPECT_EQ(reported(adopted(), both).configuration,
            "placebo: 6 of 24 blocks frozen, " + both.adapt.slowdown->names().at(1));
}

TEST(DecisionReports, CountWhatDidNotReachTheServer) {
  client::Status status;
  status.server_connected = true;
  status.decisions_waiting = 3;
  EXPECT_EQ(unsent_decisions(status), "") << "they are on their way";
  status.decisions_lost = 1;
  EXPECT_EQ(unsent_decisions(status), "1 decision has not reached the server; the metrics and adapt.log have them");
  status.server_connected = false;
  status.server_problem = "http://s:1: cannot be reached";
  EXPECT_EQ(unsent_decisions(status),
            "4 decisions have not reached the server: http://s:1: cannot be reached; the metrics and adapt.log have "
            "them");
}

}  // namespace

}  // namespace lowgear::trainer
