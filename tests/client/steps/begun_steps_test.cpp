#include "client/steps/begun_steps.h"

#include <gtest/gtest.h>

namespace lowgear::client {
namespace {

TEST(BegunSteps, AreAnUnbrokenRun) {
  BegunSteps begun;
  EXPECT_TRUE(begun.run().is_empty());
  begun.expect(7);
  EXPECT_TRUE(begun.run().is_empty());
  begun.begins(7);
  begun.begins(8);
  EXPECT_EQ(begun.run().first, 7);
  EXPECT_EQ(begun.run().newest, 8);
  begun.begins(1'000'000'000);
  EXPECT_EQ(begun.run().first, 1'000'000'000) << "numbers were skipped";
}

TEST(BegunSteps, GoBack) {
  BegunSteps begun;
  for (const int step : {0, 1, 2}) begun.begins(step);
  const BegunSteps::Run before = begun.run();
  EXPECT_FALSE(before.goes_back_in(before));
  begun.begins(3);
  EXPECT_FALSE(before.goes_back_in(begun.run()));
  begun.begins(9);
  EXPECT_FALSE(before.goes_back_in(begun.run()));
  begun.begins(0);
  EXPECT_TRUE(before.goes_back_in(begun.run())) << "to where the run began";
  for (const int step : {2, 3, 4}) begun.begins(step);
  EXPECT_TRUE(before.goes_back_in(begun.run())) << "although it is ahead again";
}

}  // namespace
}  // namespace lowgear::client
