#include "report/experiment/run_validity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(run.reason(), HasSubstr("longer than the kernels of the simulated GPUs; times and energies are"));
  EXPECT_EQ(run.note(), "");
  run.add(marked(false));
  EXPECT_FALSE(run.invalid());
  EXPECT_THAT(run.note(), HasSubstr("1 of 2 steps are marked invalid, the last of them is the 1. from the first"));
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

}  // namespace
}  // namespace lowgear::experiment
