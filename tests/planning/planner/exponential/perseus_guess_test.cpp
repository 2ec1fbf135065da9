#include "planning/planner/exponential/perseus_guess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::planner {
namespace {

using testing::HasSubstr;

TEST(InitialGuess, ReadsPythonsAndJsonsLiterals) {
  const InitialGuess guess = read_initial_guess(
      "# fitted by hand\n{'Forward': [(100, -0.02, 10), (1e2, -0.03, 20.5,)],\n \"Backward\": ([7, -1, 3],),}\n",
      "guess.py");
  ASSERT_EQ(guess.size(), 3U);
  EXPECT_EQ(guess.at({0, OpKind::forward}).scale_j, 100);
  EXPECT_EQ(guess.at({1, OpKind::forward}).rate_per_unit, -0.03);
  EXPECT_EQ(guess.at({1, OpKind::forward}).offset_j, 20.5);
  EXPECT_EQ(guess.at({0, OpKind::backward}).scale_j, 7);
}

TEST(InitialGuess, RefusesAnythingElseWithItsPlace) {
  for (const char* text : {"", "{}", "[]", "{'Forward'}", "{'Forward': [(1, 2)]}", "{'forward': [(1, 2, 3)]}",
                           "{'Forward': [(1, 2, 3)]", "{'Forward': [(1, nan, 3)]}", "{'Forward': [(1, 2, 3)]} x",
                           "{'Forward': [(1, 2, 3)], 'Forward': [(1, 2, 3)]}", "{'Forward': __import__('os')}"}) {
    EXPECT_THAT(error_of([&] { (void)read_initial_guess(text, "guess.py"); }), HasSubstr("guess.py")) << text;
  }
  EXPECT_THAT(error_of([] { (void)read_initial_guess("{'Forward':\n [(1, 2, x)]}", "guess.py"); }),
              HasSubstr("guess.py:2:10"));
}

}  // namespace
}  // namespace lowgear::planner
