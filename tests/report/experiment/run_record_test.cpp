#include "report/experiment/run_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::experiment {

namespace {

using ::testing::HasSubstr;

StepValidity marked(bool invalid, bool continued = false) {
  return {.time_s = 1, .simulated = true, .invalid = invalid, .continued = continued};
}

TEST(RunValidity, OfARunIsThatOfItsEnd) {
  RunValidity run;
  EXPECT_FALSE(run.invalid());
  run.add(marked(true));
  EXPECT_THAT(run.reason(), HasSubstr("longer than the kernels of the simulated GPUs"));
  EXPECT_EQ(run.note(), "");
  run.add(marked(false));
  EXPECT_FALSE(run.invalid());
  EXPECT_THAT(run.note(), HasSubstr("1 of 2 steps are marked invalid, the last of them is number 1:"));
}

TEST(RunValidity, IsLostWithOneOfTheProcessesOfARun) {
  RunValidity run;
  run.add(marked(true));
  run.add(marked(false, true));
  run.add(marked(false));
  EXPECT_TRUE(run.invalid());
}

TEST(RunValidity, IsLostIfTheMachineStoodStill) {
  RunValidity run;
  for (int step = 0; step < 20; ++step) run.add(marked(false));
  EXPECT_EQ(run.reason(), "");
  run.add({.time_s = 20, .simulated = true});
  EXPECT_THAT(run.reason(), HasSubstr("the machine stood still"));
}

using ::testing::AllOf;

std::string line(int step, const std::string& more = R"("energy_j":10,"energy":"measured")") {
  return R"({"step":)" + std::to_string(step) + R"(,"loss":2.5,"time_s":0.5,"tokens":100)" +
         (more.empty() ? "" : "," + more) + "}\n";
}

void expect_refused(const std::string& text, const ::testing::Matcher<std::string>& message) {
  EXPECT_THAT(error_of([&] { (void)read_metrics(text, "m.jsonl"); }), message);
}

TEST(ReadMetrics, ReadsWhatTheTrainerWrites) {
  const RunRecord run = read_metrics(
      R"({"step":0,"loss":5.5,"gradient_norm":1,"learning_rate":0.1,"time_s":0.5,"tokens":100,"energy_j":10,)"
      R"("energy_uncertainty_j":0.1,"energy":"simulated"})"
      "\n" +
          line(1, R"("energy_j":12,"energy":"simulated","ranks_without_server":0)"),
      "m.jsonl");
  ASSERT_EQ(run.steps.size(), 2U);
  EXPECT_EQ(run.steps[0].work, 100);
  EXPECT_EQ(run.steps[0].time_s, 0.5);
  EXPECT_EQ(run.steps[0].loss, 5.5);
  EXPECT_EQ(run.steps[1].energy_j, 12);
  EXPECT_EQ(run.basis, Basis::simulated);
  EXPECT_EQ(run.unit, WorkUnit::token);
  EXPECT_TRUE(run.has_energy());
  EXPECT_EQ(run.invalid, "");
}

TEST(ReadMetrics, ReadsHeldOutLossesWhereTheyWereMeasured) {
  const RunRecord run = read_metrics(line(0) + line(1, R"("held_out_loss":2.25)"), "m.jsonl");
  EXPECT_FALSE(run.steps[0].held_out_loss);
  EXPECT_EQ(run.steps[1].held_out_loss, 2.25);
}

TEST(ReadMetrics, ARunOnCpusHasNoEnergy) {
  const RunRecord run = read_metrics(line(0, ""), "m.jsonl");
  EXPECT_FALSE(run.basis);
  EXPECT_FALSE(run.has_energy());
  EXPECT_TRUE(run.warnings.empty());
}

TEST(ReadMetrics, SaysWhereEnergyIsMissing) {
  const RunRecord run = read_metrics(line(0) + line(1, ""), "m.jsonl");
  EXPECT_FALSE(run.has_energy());
  EXPECT_THAT(run.warnings, ::testing::ElementsAre(HasSubstr("1 of 2 steps have no energy")));
}

TEST(ReadMetrics, LeavesOutALineThatWasCutOff) {
  const RunRecord run = read_metrics(line(0) + R"({"step":1,"lo)", "m.jsonl");
  EXPECT_EQ(run.steps.size(), 1U);
  EXPECT_THAT(run.warnings, ::testing::ElementsAre(HasSubstr("m.jsonl:2: the last line is cut off")));
}

TEST(ReadMetrics, IsInvalidAsARunThatEndsInvalid) {
  const RunRecord run = read_metrics(line(0) + line(1, R"("invalid":true)"), "m.jsonl");
  EXPECT_THAT(run.invalid, HasSubstr("took longer than the kernels of the simulated GPUs"));
}

TEST(ReadMetrics, IsInvalidIfItWasBeforeItWasContinued) {
  const std::string before = line(0) + line(1, R"("invalid":true)");
  EXPECT_NE(read_metrics(before + line(2, R"("continued":true)") + line(3), "m.jsonl").invalid, "");
  EXPECT_EQ(read_metrics(before + line(2) + line(3), "m.jsonl").invalid, "");
}

TEST(ReadMetrics, SaysThatStepsAreMarkedThatDoNotCountAgainstTheRun) {
  const std::string marked = R"("energy_j":10,"energy":"simulated","invalid":true)";
  const std::string valid = R"("energy_j":10,"energy":"simulated")";
  const RunRecord run = read_metrics(line(0, marked) + line(1, marked) + line(2, valid), "m.jsonl");
  EXPECT_EQ(run.invalid, "");
  EXPECT_THAT(run.warnings, ::testing::ElementsAre(
                                HasSubstr("m.jsonl: 2 of 3 steps are marked invalid, the last of them is number 2:")));
}

TEST(ReadMetrics, StatesThePolicyThatWasFollowedLast) {
  EXPECT_EQ(read_metrics(line(0, R"("policy":"envpipe")"), "m.jsonl").policy, "envpipe");
  EXPECT_EQ(read_metrics(line(0, R"("policy":"envpipe")") + line(1, ""), "m.jsonl").policy, "");
}

TEST(ReadMetrics, IsInvalidIfAMachineWithSimulatedGpusStoodStill) {
  const auto run_with = [](double last_s, const std::string& energy) {
    std::string text;
    for (int step = 0; step < 52; ++step) {
      const double time_s = step == 0 ? 90 : step == 51 ? last_s : 0.5;  // the first ones do not count
      text += R"({"step":)" + std::to_string(step) + R"(,"time_s":)" + std::to_string(time_s) +
              R"(,"tokens":100,"energy_j":10,"energy":")" + energy + "\"}\n";
    }
    return !read_metrics(text, "m.jsonl").invalid.empty();
  };
  EXPECT_FALSE(run_with(0.5, "simulated"));
  EXPECT_FALSE(run_with(3.9, "simulated"));  // as at a low clock
  EXPECT_TRUE(run_with(4.1, "simulated"));
  EXPECT_FALSE(run_with(4.1, "measured"));
}

/// 40 steps of 0.5 s and 250 J, one of which or more is changed.
RunRecord run_of(const std::function<void(int step, double& time_s, double& energy_j)>& change) {
  std::string text;
  for (int step = 0; step < 40; ++step) {
    double time_s = 0.5;
    double energy_j = 250;
    change(step, time_s, energy_j);
    text += fmt::format(R"({{"step":{},"loss":2,"time_s":{},"tokens":100,"energy_j":{},"energy":"measured"}})", step,
                        time_s, energy_j) +
            '\n';
  }
  return read_metrics(text, "m.jsonl");
}

TEST(ReadMetrics, LeavesOutStepsThatCannotBe) {
  const auto expect_left_out = [](const RunRecord& run, const ::testing::Matcher<std::string>& warning) {
    EXPECT_THAT(run.warnings, ::testing::ElementsAre(warning));
    ASSERT_EQ(run.steps.size(), 40);
    double time_s = 0;
    double energy_j = 0;
    for (const RunStep& step : run.steps) {
      time_s += step.time_s;
      energy_j += step.energy_j.value();
    }
    EXPECT_NEAR(time_s, 20, 1e-9);
    EXPECT_NEAR(energy_j, 10'000, 1e-6);
  };
  expect_left_out(run_of([](int step, double&, double& energy_j) { energy_j = step == 7 ? 1e12 : energy_j; }),
                  AllOf(HasSubstr("m.jsonl: 1 of 40 steps cannot be right (step 7 shows 1000000000000 J"),
                        HasSubstr("the mean of the others replaces them")));
  expect_left_out(run_of([](int step, double&, double& energy_j) { energy_j = step == 7 ? 4.5e6 : energy_j; }),
                  HasSubstr("1 of 40 steps"));
  expect_left_out(run_of([](int step, double& time_s, double&) { time_s = step == 9 ? 0 : time_s; }),
                  HasSubstr("1 of 40 steps cannot be right (step 9 takes no time"));
  expect_left_out(run_of([](int step, double& time_s, double&) { time_s = step == 9 ? 500 : time_s; }),
                  HasSubstr("step 9 shows 250 J in 500 s, and most steps draw 500 W"));
  expect_left_out(run_of([](int step, double&, double& energy_j) { energy_j = step > 20 ? 0 : energy_j; }),
                  HasSubstr("19 of 40 steps cannot be right (the sum of steps 21 to 39 shows no energy for 9.5 s"));
}

TEST(ReadMetrics, HasNoEnergyWhereMostStepsCannotBe) {
  const RunRecord run = run_of([](int step, double&, double& energy_j) { energy_j = step > 10 ? 0 : energy_j; });
  EXPECT_FALSE(run.has_energy());
  EXPECT_EQ(run.steps[20].time_s, 0.5);
  EXPECT_THAT(run.warnings, ::testing::ElementsAre(HasSubstr("29 of 40 steps cannot be right"),
                                                   HasSubstr("40 of 40 steps have no energy")));
}

TEST(ReadMetrics, TakesShortStepsOfACounterThatMovesEveryTenthOfASecond) {
  const RunRecord run = run_of([](int step, double& time_s, double& energy_j) {
    time_s = 0.02;
    energy_j = step % 5 == 0 ? 50 : 0;
  });
  EXPECT_THAT(run.warnings, ::testing::IsEmpty());
}

TEST(ReadMetrics, RefusesWithFileAndLine) {
  expect_refused("", HasSubstr("m.jsonl: holds no step"));
  expect_refused("{\"step\":0", HasSubstr("holds no step"));
  expect_refused("not JSON\n", HasSubstr("m.jsonl:1:1"));
  expect_refused("[]\n", HasSubstr("m.jsonl:1: $: expected an object"));
  expect_refused("\n", HasSubstr("m.jsonl:1"));
  expect_refused(line(0) + line(2), AllOf(HasSubstr("m.jsonl:2: $.step"), HasSubstr("step 2"), HasSubstr("step 1")));
  expect_refused(line(0) + line(0), HasSubstr("one run from its first step"));
  expect_refused(line(7), HasSubstr("step 7 stands where step 0"));
  expect_refused(line(0, R"("energy_j":-1,"energy":"measured")"), HasSubstr("$.energy_j"));
  expect_refused(line(0, R"("energy_j":1)"), HasSubstr("\"energy\" is missing"));
  expect_refused(line(0, R"("energy_j":1,"energy":"guessed")"), HasSubstr("measured, simulated, replayed"));
  expect_refused(R"({"step":0,"loss":null,"time_s":1,"tokens":1})"
                 "\n",
                 HasSubstr("$.loss: expected a number"));
  expect_refused(R"({"step":0,"time_s":1,"tokens":0})"
                 "\n",
                 HasSubstr("$.tokens"));
  expect_refused(R"({"step":0,"time_s":-1,"tokens":1})"
                 "\n",
                 HasSubstr("$.time_s"));
}

TEST(ReadMetrics, NeverAddsMeasuredAndSimulatedEnergies) {
  expect_refused(line(0) + line(1, R"("energy_j":1,"energy":"simulated")"), HasSubstr("measured and simulated"));
}

/// Losses 10, 9, ..., with 100 tokens, 1 s and 5 J a step, 50 J in the first.
RunRecord falling(int steps) {
  RunRecord run;
  for (int i = 0; i < steps; ++i) {
    run.steps.push_back({.number = i, .work = 100, .time_s = 1, .energy_j = i == 0 ? 50 : 5, .loss = 10.0 - i});
  }
  return run;
}

TEST(RunSums, CountEveryStep) {
  const RunSums sums = all_sums(falling(4));
  EXPECT_EQ(sums.work, 400);
  EXPECT_EQ(sums.time_s, 4);
  EXPECT_EQ(sums.energy_j, 65);
}

TEST(RunSums, AStepThatReachesTheWorkCountsInProportion) {
  EXPECT_DOUBLE_EQ(sums_at_work(falling(4), 250).energy_j, 57.5);
  EXPECT_DOUBLE_EQ(sums_at_work(falling(4), 400).energy_j, 65);
}

TEST(RunSums, MeansLeaveOutWhatSettles) {
  RunRecord run = falling(4);
  EXPECT_DOUBLE_EQ(mean_per_work(run, 400, 2).energy_j, 0.05);
  EXPECT_DOUBLE_EQ(mean_per_work(falling(1), 100, 2).energy_j, 0.5) << "there is no other step";
  run.steps[3].energy_j = 15;
  EXPECT_DOUBLE_EQ(mean_per_work(run, 400, 2).energy_j, 0.1);
  EXPECT_DOUBLE_EQ(mean_per_work(run, 300, 2).energy_j, 0.05) << "of this work";
  run.steps.erase(run.steps.begin());
  EXPECT_DOUBLE_EQ(mean_per_work(run, 300, 2).energy_j, 0.1) << "steps 2 and 3, by their numbers";
}

TEST(RunSums, LossAtEqualTokensIsTheMeanBeforeThem) {
  EXPECT_EQ(loss_at_work(falling(10), 1000, 50), 1);
  EXPECT_EQ(loss_at_work(falling(10), 1000, 200), 1.5);
  EXPECT_EQ(loss_at_work(falling(10), 599, 200), 6.5) << "only whole steps";
  EXPECT_FALSE(loss_at_work(falling(10), 99, 200));
}

TEST(RunSums, LossAtEqualEnergyCountsAllEnergyBefore) {
  EXPECT_EQ(loss_at_energy(falling(10), 65, 100), 7);
  EXPECT_EQ(loss_at_energy(falling(10), 64, 100), 8);
  EXPECT_FALSE(loss_at_energy(falling(10), 49, 100));
}

TEST(RunSums, EnergyToALossIsThatOfAllStepsUntilThen) {
  EXPECT_EQ(sums_at_loss(falling(10), 7, 100)->energy_j, 65);
  EXPECT_EQ(sums_at_loss(falling(10), 7, 300)->energy_j, 70) << "the mean over three steps falls later";
  EXPECT_FALSE(sums_at_loss(falling(10), 0.5, 100));
}

TEST(RunSums, OneGoodStepIsNotALossThatWasReached) {
  RunRecord run = falling(8);
  run.steps[1].loss = 2;
  EXPECT_EQ(sums_at_loss(run, 4, 300)->time_s, 8) << "the mean of 5, 4 and 3";
}

TEST(RunSums, AHeldOutLossIsTheLastOneBefore) {
  RunRecord run = falling(4);
  EXPECT_FALSE(held_out_loss_at_work(run, 400));
  run.steps[1].held_out_loss = 8;
  run.steps[3].held_out_loss = 6;
  EXPECT_FALSE(held_out_loss_at_work(run, 199));
  EXPECT_EQ(held_out_loss_at_work(run, 399), 8) << "only whole steps";
  EXPECT_EQ(held_out_loss_at_work(run, 400), 6);
}

TEST(RunSums, AStepWithoutLossHasNoMean) {
  RunRecord run = falling(4);
  run.steps[3].loss.reset();
  EXPECT_FALSE(loss_at_work(run, 400, 100));
  EXPECT_EQ(loss_at_work(run, 300, 100), 8);
}

}  // namespace

}  // namespace lowgear::experiment
