#include "planning/joint/orders/joint_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "base/core/error_of.h"
#include "planning/joint/orders/sample_orders.h"
#include "planning/schedule/generators.h"

namespace lowgear::joint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MemoryLimit, OneFOneBIsWhatThatScheduleHolds) {
  for (const int microbatches : {1, 3, 9}) {
    EXPECT_EQ(most_activations({}, 4, microbatches, 1),
              peak_in_flight_activations(schedule::one_f_one_b_schedule(4, microbatches)));
  }
}

TEST(MemoryLimit, CountsStageMicrobatchesWhereARankRunsSeveralStages) {
  EXPECT_THAT(most_activations({}, 3, 9, 2), ElementsAre(6, 4, 2));
  EXPECT_THAT(most_activations({.microbatches = {5}}, 3, 9, 2), ElementsAre(10, 10, 10));
  EXPECT_THAT(most_activations({.microbatches = {5}}, 3, 4, 2), ElementsAre(8, 8, 8));
}

TEST(MemoryLimit, HasALowerOneOfWholeHalfRounds) {
  const auto lower = [](MemoryLimit memory) {
    return sample_orders({0.05, 0.05, 0.05, 0.05}, 8, std::move(memory)).whole_half_rounds();
  };
  EXPECT_EQ(lower({{7}}), (MemoryLimit{{6}}));
  EXPECT_EQ(lower({{5, 4, 3, 1}}), (MemoryLimit{{4, 4, 2, 1}}));
  EXPECT_EQ(lower({{9}}), (MemoryLimit{{9}})) << "all microbatches fit";
  EXPECT_EQ(lower({}), MemoryLimit{});
}

TEST(JointProblem, MayNotDivideStagesWhereTheLastOneTakesOtherTimes) {
  const auto may_divide = [](double last_s) {
    return sample_orders({0.06, 0.05, 0.05, last_s}, 8).may_divide_stages();
  };
  EXPECT_TRUE(may_divide(0.05));
  EXPECT_TRUE(may_divide(0.054));
  EXPECT_FALSE(may_divide(0.06));
  EXPECT_FALSE(may_divide(0.04));
  EXPECT_TRUE(sample_orders({0.05, 0.08}, 8).may_divide_stages()) << "no stage shows what layers take";
}

TEST(MemoryLimit, MayDifferByRankWithANumberForEach) {
  EXPECT_THAT(most_activations({{4, 2, 2}}, 3, 3, 2), ElementsAre(6, 4, 4));
  EXPECT_THAT(error_of([] { (void)most_activations({{4, 2}}, 3, 3, 2); }), HasSubstr("2 numbers for 3 ranks"));
}

TEST(MemoryLimit, IsReadAsItIsWritten) {
  EXPECT_EQ(parse_memory_limit("1f1b"), MemoryLimit{});
  EXPECT_EQ(parse_memory_limit("12"), MemoryLimit{{12}});
  EXPECT_THAT(parse_memory_limit("8,6,4").microbatches, ElementsAre(8, 6, 4));
  EXPECT_EQ(to_string(parse_memory_limit("8,6,4")), "8,6,4");
  EXPECT_EQ(to_string(MemoryLimit{}), "1f1b");
  EXPECT_EQ(to_string(MemoryLimit{{12}}), "12");
}

TEST(MemoryLimit, OfBytesHasWhatFits) {
  const std::vector<double> bytes{3e9, 1e9};
  const auto fit = [&bytes](std::string_view text) { return parse_memory_limit(text, bytes).microbatches; };
  EXPECT_THAT(fit("10GB"), ElementsAre(3, 10));
  EXPECT_THAT(fit("3.1 GB,2000 MB"), ElementsAre(1, 2));
  EXPECT_THAT(fit("4GiB"), ElementsAre(1, 4));
  EXPECT_THAT(error_of([&] { (void)fit("9000000GiB"); }), AllOf(HasSubstr("1000000"), HasSubstr("activation_bytes")));
  for (const char* text : {"2GB", "3GB,512MB", "-1GB", "GB", "1XB", "9GB,9GB,9GB", "9GB,9", "1e999GB", "nanGB"}) {
    EXPECT_THAT(error_of([&] { (void)fit(text); }), HasSubstr("--memory-limit")) << text;
  }
}

TEST(MemoryLimit, StatesBytesBeforeItIsKnownWhatActivationsTake) {
  EXPECT_TRUE(states_bytes("12GiB"));
  EXPECT_FALSE(states_bytes("12"));
  EXPECT_FALSE(states_bytes("1f1b"));
  EXPECT_THAT(bytes_by_rank("2 MB", 3), ElementsAre(2e6, 2e6, 2e6));
  EXPECT_THAT(bytes_by_rank("1GiB,1KiB", 2), ElementsAre(1024.0 * 1024 * 1024, 1024));
  EXPECT_THAT(error_of([] { (void)bytes_by_rank("1GB,2GB", 3); }), HasSubstr("2 amounts for 3 ranks"));
  EXPECT_THAT(error_of([] { (void)bytes_by_rank("1XB", 3); }), HasSubstr("not an amount of bytes"));
}

TEST(MemoryLimit, RefusesWhatItCannotCountWithAndSaysWhatItCan) {
  EXPECT_THAT(error_of([] { (void)parse_memory_limit("40GiB"); }), AllOf(HasSubstr("bytes"), HasSubstr("1f1b")));
  EXPECT_THAT(error_of([] { (void)parse_memory_limit("0"); }), HasSubstr("needs memory for at least 1 microbatch"));
  for (const char* text : {"", "-1", "1.5", "3,", ",3", "3,,4", "3,0", "2f2b", "99999999999999999999", "12 "}) {
    EXPECT_THAT(error_of([&] { (void)parse_memory_limit(text); }), HasSubstr("--memory-limit")) << text;
  }
}

}  // namespace
}  // namespace lowgear::joint
