#include "planning/steps/step_input.h"

#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "planning/steps/sample_steps.h"

namespace lowgear::steps {
namespace {

constexpr const char* kTraceHeader = "step,dp_rank,stage,op,microbatch,duration_us\n";

TEST(Trace, ReadsThePublicColumnsAndTakesTheSlowestTensorRank) {
  const Trace trace = read_trace(
      "step,dp_rank,stage,tp_rank,op,microbatch,sequence,start_us,duration_us\n"
      "16,0,0,0,params-all-gather,-1,0,524.0,15079.0\n"
      "16,0,0,0,forward-compute,0,0,38988.6,100.5\n"
      "16,0,0,1,forward-compute,0,0,38988.6,120.5\n"
      "16,0,0,0,backward-compute,0,1,40000.0,250\n",
      "t.csv");
  EXPECT_EQ(trace.replicas, 1);
  ASSERT_EQ(trace.steps.size(), 1U);
  EXPECT_EQ(trace.steps[0].number, 16);
  EXPECT_EQ(trace.steps[0].fault, "");
  EXPECT_DOUBLE_EQ(trace.steps[0].time_s[trace.unit(0, 0, OpKind::forward, 0)], 120.5e-6);
}

TEST(Trace, NamesTheUnitThatAStepLacks) {
  const Trace trace = read_trace(std::string(kTraceHeader) +
                                     "1,0,0,forward-compute,0,5\n1,0,0,backward-compute,0,5\n"
                                     "2,0,0,forward-compute,0,5\n2,1,0,forward-compute,0,5\n",
                                 "t.csv");
  EXPECT_EQ(trace.steps[0].fault, "replica 1 has no forward of microbatch 0 on stage 0");
  EXPECT_EQ(trace.steps[1].fault, "replica 0 has no backward of microbatch 0 on stage 0");
}

TEST(Trace, RefusesWhatCannotBe) {
  const auto refusal = [](const std::string& rows) {
    return error_of([&] { (void)read_trace(kTraceHeader + rows, "t.csv"); });
  };
  EXPECT_EQ(refusal("1,0,0,forward-compute,0,-3\n").substr(0, 21), "t.csv:2:25: -3 us are");
  EXPECT_EQ(refusal("1,-1,0,forward-compute,0,3\n").substr(0, 12), "t.csv:2:3: -");
  EXPECT_NE(refusal("1,0,0,forward-compute,0,3\n1,0,0,forward-compute,0,3\n").find("t.csv:3"), std::string::npos);
  EXPECT_NE(refusal("1,0,0,forward-compute,0,x\n").find("t.csv:2:25"), std::string::npos);
  EXPECT_NE(refusal("").find("no row"), std::string::npos);
  EXPECT_NE(refusal("1,65535,65535,forward-compute,65535,3\n").find("is the most"), std::string::npos);
}

TEST(Lengths, AddsDocumentsUp) {
  const Lengths lengths = read_lengths(
      "step,replica,microbatch,lengths,tokens\n3,0,0,100 200,300\n3,0,1,50,60\n4,0,0,1,1\n5,0,0,7,7\n5,0,1,8,8\n",
      "l.csv");
  EXPECT_EQ(lengths.microbatches, 2);
  EXPECT_EQ(lengths.steps[0].amounts[0], (Amounts{300, 50'000}));
  EXPECT_EQ(lengths.steps[0].fault, "microbatch 1 of replica 0 has 60 tokens, and its lengths add up to 50");
  EXPECT_EQ(lengths.steps[1].fault, "microbatch 1 of replica 0 is missing");
  EXPECT_EQ(lengths.steps[2].fault, "");
}

TEST(Lengths, ChecksSumsThatAreStated) {
  const Lengths lengths =
      read_lengths("step,replica,microbatch,tokens,squared_tokens\n1,0,0,10,52\n2,0,0,10,101\n3,0,0,10,9\n", "l.csv");
  EXPECT_EQ(lengths.steps[0].fault, "");
  EXPECT_NE(lengths.steps[1].fault, "");
  EXPECT_NE(lengths.steps[2].fault, "");
}

TEST(Lengths, RefusesWhatCannotBeRead) {
  const auto refusal = [](const std::string& rows) {
    return error_of([&] { (void)read_lengths("step,replica,microbatch,lengths\n" + rows, "l.csv"); });
  };
  EXPECT_EQ(refusal("1,0,0,12 x\n").substr(0, 19), "l.csv:2:7: \"x\" is n");
  EXPECT_NE(refusal("1,0,0,12\n1,0,0,13\n").find("l.csv:3"), std::string::npos);
  EXPECT_NE(refusal("1,0,0,-4\n").find("l.csv:2:7"), std::string::npos);
  EXPECT_NE(refusal("").find("no rows"), std::string::npos);
}

TEST(PredictedSteps, PredictStepsTheFitHasNotSeen) {
  const SampleFiles files = sample_files(8, 3, 2, 4, 0.01);
  const PredictedSteps predicted =
      predict_steps(sample_dag(2, 4), read_lengths(files.lengths, "l.csv"), read_trace(files.trace, "t.csv"), 5);
  ASSERT_EQ(predicted.steps.size(), 8U);
  EXPECT_TRUE(predicted.steps[4].fitted);
  EXPECT_FALSE(predicted.steps[5].fitted);
  EXPECT_NEAR(predicted.error, 0.01, 0.004);
}

TEST(PredictedSteps, LengthsBeyondTheFitRunAtFullClocks) {
  const SampleFiles files = sample_files(3, 1, 2, 2, 0);
  const PredictedSteps predicted =
      predict_steps(sample_dag(2, 2), read_lengths(files.lengths + "9,0,0,5\n9,0,1,900000\n", "l.csv"),
                    read_trace(files.trace, "t.csv"), 0);
  EXPECT_EQ(predicted.steps.back().fault.substr(0, 54), "microbatch 1 of replica 0 has 900000 tokens, and the f");
  EXPECT_TRUE(predicted.steps.back().predicted_s.empty());
  EXPECT_TRUE(predicted.steps[0].recorded_s.size() == 1 && predicted.steps[0].fault.empty());
}

TEST(PredictedSteps, RefuseTimesOfOtherSteps) {
  const SampleFiles files = sample_files(2, 1, 2, 2, 0);
  EXPECT_NE(error_of([&] {
              (void)predict_steps(sample_dag(2, 2),
                                  read_lengths("step,replica,microbatch,lengths\n7,0,0,5\n7,0,1,5\n", "l"),
                                  read_trace(files.trace, "t"), 0);
            }).find("no recorded step has lengths"),
            std::string::npos);
  EXPECT_NE(
      error_of([&] { (void)predict_steps(sample_dag(2, 3), read_trace(files.trace, "t"), 0); }).find("2 microbatches"),
      std::string::npos);
}

}  // namespace
}  // namespace lowgear::steps
