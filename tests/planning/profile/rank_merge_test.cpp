#include "planning/profile/rank_merge.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planning/profile/plausibility.h"
#include "planning/profile/profile_file.h"

namespace lowgear::profile {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A stage that so many ranks run, at two clocks; the rows of `rank` multiplied.
std::string ranks_csv(int ranks, int rank, double times, double energies) {
  std::string csv = "stage,instruction,frequency,time,energy,rank\n";
  for (int each = 0; each < ranks; ++each) {
    const double t = each == rank ? times : 1;
    const double e = each == rank ? energies : 1;
    csv += fmt::format("0,forward,1410,{},{},{}\n0,forward,1200,{},{},{}\n", t * 0.05, e * 18, each, t * 0.056, e * 16,
                       each);
    csv += fmt::format("0,backward,1410,{},{},{}\n0,backward,1200,{},{},{}\n", t * 0.1, e * 36, each, t * 0.11, e * 32,
                       each);
  }
  return csv;
}

std::vector<std::string> rank_doubts(const std::string& csv) {
  return profile_doubts(read_profile_file(csv, "p.csv"), {.blocking_power_w = {}});
}

TEST(MergeRanks, SaysNothingOfRanksThatAreAboutAsFast) {
  EXPECT_THAT(rank_doubts(ranks_csv(4, 1, 1.2, 1.1)), IsEmpty());
  EXPECT_THAT(rank_doubts(ranks_csv(2, 1, 1.2, 1.1)), IsEmpty());
}

TEST(MergeRanks, NamesARankThatIsFarFromTheOthersOnce) {
  for (const double by : {1.0 / 3, 3.0, 30.0}) {
    EXPECT_THAT(
        rank_doubts(ranks_csv(2, 1, by, by)),
        ElementsAre(AllOf(StartsWith("p.csv:7: rank 1 takes"), HasSubstr("and rank 0 (line 3) 0.056 s and 285.7 W"),
                          HasSubstr("(and 3 more rows)"))))
        << by;
    EXPECT_THAT(rank_doubts(ranks_csv(4, 2, by, by)),
                ElementsAre(AllOf(StartsWith("p.csv:11: rank 2 takes"), HasSubstr("the 4 ranks of the stage"))))
        << by;
  }
  EXPECT_THAT(rank_doubts(ranks_csv(4, 2, 1, 2)), ElementsAre(HasSubstr("rank 2 takes 0.056 s and draws 571.4 W")));
}

TEST(MergeRanks, NamesTheClocksThatOneRankLacks) {
  std::string csv = ranks_csv(3, 0, 1, 1);
  csv += "0,forward,990,0.06,14,0\n0,forward,990,0.06,14,2\n";
  EXPECT_THAT(rank_doubts(csv),
              ElementsAre(AllOf(HasSubstr("stage 0 forward at 990 MHz is left out"), HasSubstr("rank 1 did not"))));
  EXPECT_EQ(read_profile_file(csv, "p.csv").profile.measurements(0, OpKind::forward).size(), 2);
}

TEST(MergeRanks, NamesAKindThatOneRankLacks) {
  const std::string csv = ranks_csv(1, 0, 1, 1) + "0,forward,1410,0.05,18,7\n0,forward,1200,0.056,16,7\n";
  EXPECT_THAT(rank_doubts(csv), ElementsAre(HasSubstr("rank 7 of stage 0 has no backward rows")));
}

TEST(ProfileFile, NamesColumnsThatNothingReads) {
  EXPECT_THAT(rank_doubts("stage,instruction,frequency,time,energy,host,dp_rank\n0,forward,1410,0.05,18,a,0\n"
                          "0,backward,1410,0.1,36,a,0\n"),
              ElementsAre("p.csv: nothing reads the column \"host\""));
}

}  // namespace
}  // namespace lowgear::profile
