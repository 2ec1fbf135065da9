#include "planning/schedule/torch_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "planning/schedule/communication.h"
#include "planning/schedule/dag.h"
#include "planning/schedule/generators.h"
#include "planning/schedule/schedule_testing.h"

namespace lowgear::schedule {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Schedule read(std::string_view text) { return read_torch_csv(text, "s.csv"); }
std::string read_error(std::string_view text) {
  return error_of([&] { (void)read(text); });
}

TEST(TorchCsv, ReadsOneRowPerRank) {
  const Schedule schedule = read("0F0,0F1,0B0,0B1\n1F0,1I0,1F1,1I1,1W0,1W1\n");
  EXPECT_EQ(schedule.name, "s.csv");
  EXPECT_EQ(schedule.stages, 2);
  EXPECT_EQ(schedule.microbatches, 2);
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(row(schedule, 1), "1F0 1I0 1F1 1I1 1W0 1W1");
}

TEST(TorchCsv, ReadsSendsAndReceives) {
  EXPECT_EQ(row(read("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n"), 1), "1RECV_F0 1F0 1B0 1SEND_B0");
}

TEST(TorchCsv, SkipsBubblesAndEmptyLines) {
  const Schedule schedule = read("0F0,0F1,,,0B0,,0B1\n\n,1F0,1B0,1F1,1B1,,\n\n");
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(row(schedule, 1), "1F0 1B0 1F1 1B1");
}

TEST(TorchCsv, AcceptsWhatSpreadsheetsWrite) {
  const Schedule schedule = read("\xEF\xBB\xBF\"0F0\" , 0B0,\t\r\n1F0,\" 1B0 \",\r\n");
  EXPECT_EQ(row(schedule, 0), "0F0 0B0");
  EXPECT_EQ(row(schedule, 1), "1F0 1B0");
}

TEST(TorchCsv, LeavesOutWhatMovesParameters) {
  EXPECT_EQ(row(read("0UNSHARD,0F0,0B0,0REDUCE_GRAD0,0RESHARD\n"), 0), "0F0 0B0");
}

TEST(TorchCsv, ReadsOverlappedComputationsOneAfterTheOther) {
  EXPECT_EQ(row(read("0F0,(0F1;0B0)OVERLAP_F_B,( 0I1 ; 0W1 )OVERLAP_F_B\n"), 0), "0F0 0F1 0B0 0I1 0W1");
}

TEST(TorchCsv, NamesThePlaceOfWhatIsNoAction) {
  EXPECT_EQ(read_error("0F0,0B0\n1F0, 1X0\n"),
            "s.csv:2:6: \"1X0\" is not an action; write [stage][type][microbatch], as 0F3, 1B0, 2I1, 2W1, 0R3, 0C4, "
            "0SEND_F3 or 1RECV_F3");
  for (const char* cell :
       {"F0", "0F", "0", "0f0", "0F0x", "0F0F1", "-1F0", "0SEND0", "0UNSHARDx", "0 F0", "0OVERLAP_F_B"}) {
    EXPECT_THAT(read_error(std::string("0B0,") + cell), AllOf(StartsWith("s.csv:1:5: "), HasSubstr("is not an action")))
        << cell;
  }
}

TEST(TorchCsv, RecognisesTheLettersOfOlderPyTorch) {
  const std::string names = "as older PyTorch wrote it: BW is now B, B is I";
  EXPECT_EQ(read_error("0F0,0F1,0BW0,0BW1\n1F0,1B0,1F1,1W0,1B1,1W1\n"),
            "s.csv:1:9: \"0BW0\" is not an action; " + names);
  EXPECT_THAT(read_error("0F0,0F1,0B0,0W0,0B1,0W1\n1F0,1B0,1F1,1W0,1B1,1W1\n"),
              AllOf(HasSubstr("0W0: a backward is either whole (B) or split (I and W), not both"), HasSubstr(names)));
  EXPECT_THAT(read_error("0F0,0I0,0B0,0W0\n"), Not(HasSubstr(names))) << "today's letters, mixed up";
}

TEST(TorchCsv, NamesOtherSeparatorsAndComments) {
  EXPECT_THAT(read_error("0F0;0B0\n"), HasSubstr("separate the actions by commas"));
  EXPECT_THAT(read_error("# two ranks\n0F0,0B0\n"), HasSubstr("remove the comment: every line is a rank"));
}

TEST(TorchCsv, ReadsRecomputations) {
  const Schedule schedule = read("0F0,0F1,0R0,0B0,0C1,0RESHARD\n1F0,1B0,1F1,1R1,1I1,1W1\n");
  EXPECT_EQ(row(schedule, 0), "0F0 0F1 0R0 0B0 0C1");
  EXPECT_EQ(row(schedule, 1), "1F0 1B0 1F1 1R1 1I1 1W1");
  for (const char* cell : {"0R", "R0", "0RC0", "0r0", "0CB0"}) {
    EXPECT_THAT(read_error(std::string("0F0,") + cell), StartsWith("s.csv:1:5: ")) << cell;
  }
}

TEST(TorchCsv, RefusesOverlapsOfAnythingElse) {
  EXPECT_THAT(read_error("(0F0;0SEND_F0)OVERLAP_F_B"), HasSubstr("only computations overlap"));
  EXPECT_THAT(read_error("(0F0;0UNSHARD)OVERLAP_F_B"), HasSubstr("only computations overlap"));
  for (const char* cell : {"(0F0;0B0", "(0F0;0B0)", "(0F0;0B0)B", "()OVERLAP_F_B", "(0F0;)OVERLAP_F_B", "("}) {
    EXPECT_THAT(read_error(cell), HasSubstr("is not an action")) << cell;
  }
}

TEST(TorchCsv, RefusesNumbersThatAreTooLarge) {
  EXPECT_THAT(read_error("99999999999999999999F0"), HasSubstr("the stage is too large; at most 67108863"));
  EXPECT_THAT(read_error("0F67108864"), HasSubstr("the microbatch is too large"));
  EXPECT_THAT(read_error("0F67108863,0B67108863"), HasSubstr("2 computations cannot be"));
  EXPECT_THAT(read_error("67108863F67108863,67108863B0"), HasSubstr("2 computations cannot be"));
}

TEST(TorchCsv, RefusesAnEmptyFile) {
  EXPECT_EQ(read_error(""), "s.csv: is empty; a schedule has one row per rank");
  EXPECT_EQ(read_error("\n \n"), "s.csv: is empty; a schedule has one row per rank");
  EXPECT_THAT(read_error(",,\n"), StartsWith("s.csv: "));
}

TEST(TorchCsv, ValidatesWhatItReads) {
  EXPECT_EQ(read_error("0F0,0B0,0F1,0B1\n1F0,1B0,1F1\n"),
            "s.csv: 7 computations cannot be a forward and a backward of each of 2 microbatches on each of 2 stages");
  EXPECT_EQ(read_error("0F0,0B0,0F1,0B1\n1F0,1I0,1F1,1B1\n"), "s.csv: rank 1 lacks 1W0");
  EXPECT_EQ(read_error("0F0,0B0\n0F1,0B1\n"),
            "s.csv: rank 1, step 0: 0F1: stage 0 runs on rank 0 already; a stage belongs to one rank");
}

TEST(TorchCsv, LeavesCyclesToTheGraph) {
  const Schedule schedule = read("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
  EXPECT_THAT(error_of([&] { (void)build_dag(schedule); }), StartsWith("s.csv: the dependencies cycle: "));
}

TEST(TorchCsv, WritesWhatItReads) {
  const std::string text = "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1B0,1SEND_B0\n";
  EXPECT_EQ(write_torch_csv(read(text)), text);
}

TEST(TorchCsv, KeepsEveryScheduleThroughARoundTrip) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(trial);
    Schedule schedule = random_schedule(random);
    if (trial % 2 == 0) schedule = with_communication(schedule);
    const Schedule again = read(write_torch_csv(schedule));
    EXPECT_EQ(again.ranks, schedule.ranks);
    EXPECT_EQ(again.stages, schedule.stages);
    EXPECT_EQ(again.microbatches, schedule.microbatches);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lowgear::schedule
