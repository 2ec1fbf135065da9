#include "base/core/numbers/even_division.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Against all divisions of random sequences: tests/estimating/model/partition_test.cpp.

TEST(EvenDivision, TakesElementsFromPartsWithCostlyEnds) {
  EXPECT_THAT(divide_evenly({.first = 0, .elements = {1, 1, 1, 1, 1, 1}, .last = 0}, 3), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(divide_evenly({.first = 2, .elements = {1, 1, 1, 1, 1, 1}, .last = 0}, 2), ElementsAre(0, 2, 6));
  EXPECT_THAT(divide_evenly({.first = 0, .elements = {1, 1, 1, 1, 1, 1}, .last = 2}, 2), ElementsAre(0, 4, 6));
}

TEST(EvenDivision, IsEvenBelowTheCostliestPart) {
  EXPECT_THAT(divide_evenly({.first = 0, .elements = {9, 1, 1, 1, 1}, .last = 0}, 3), ElementsAre(0, 1, 3, 5));
}

TEST(EvenDivision, RefusesWhatIsNoCostAndMorePartsThanElements) {
  const auto refusal = [](const SequenceCosts& costs, int parts) {
    return error_of([&] { (void)divide_evenly(costs, parts); });
  };
  EXPECT_THAT(refusal({.first = 0, .elements = {1, -1}, .last = 0}, 1), HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal({.first = std::numeric_limits<double>::quiet_NaN(), .elements = {1}, .last = 0}, 1),
              HasSubstr("negative or not finite"));
  EXPECT_THAT(refusal({.first = 0, .elements = {1, 1}, .last = 0}, 3),
              HasSubstr("2 elements cannot be divided into 3"));
  EXPECT_THAT(refusal({.first = 0, .elements = {}, .last = 0}, 0), HasSubstr("0 parts"));
}

}  // namespace
}  // namespace lowgear
