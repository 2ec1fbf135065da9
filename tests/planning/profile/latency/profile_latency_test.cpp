#include "planning/profile/latency/profile_latency.h"

#include <gmock/gmock.h>

#include "base/core/error_of.h"
#include "planning/profile/stage_profile.h"

namespace lowgear::profile {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kProfile =
    "stage,instruction,frequency,time,energy\n0,forward,1410,0.1,30\n0,forward,1200,0.12,25\n0,backward,1410,0.2,60\n";

TEST(ProfileLatency, IsReadBackFromTheColumn) {
  EXPECT_EQ(read_switch_latency(kProfile, "p.csv"), std::nullopt);
  EXPECT_EQ(with_switch_latency(kProfile, std::nullopt), kProfile);
  const std::string text = with_switch_latency(kProfile, 0.025);
  EXPECT_EQ(text,
            "stage,instruction,frequency,time,energy,switch_latency\n0,forward,1410,0.1,30,0.025\n"
            "0,forward,1200,0.12,25,0.025\n0,backward,1410,0.2,60,0.025\n");
  EXPECT_EQ(read_switch_latency(text, "p.csv"), 0.025);
  EXPECT_EQ(write_stage_profile(read_stage_profile(text, "p.csv")), kProfile) << "rows read alike with the column";
  EXPECT_EQ(read_switch_latency(with_switch_latency(kProfile, 0), "p.csv"), 0);
}

TEST(ProfileLatency, IsThatOfTheSlowestRow) {
  const std::string header = "stage,instruction,frequency,time,energy,switch_latency\n";
  EXPECT_EQ(read_switch_latency(header + "0,forward,1410,1,1,0.02\n0,backward,1410,1,1,0.03\n", "p.csv"), 0.03);
  EXPECT_EQ(read_switch_latency(header + "0,forward,1410,1,1,\n0,backward,1410,1,1,\n", "p.csv"), std::nullopt);
}

TEST(ProfileLatency, RefusesWhatIsNoTime) {
  const std::string header = "stage,instruction,frequency,time,energy,switch_latency\n";
  const auto error = [&header](const std::string& cell) {
    return error_of([&] { (void)read_switch_latency(header + "0,forward,1410,1,1," + cell + "\n", "p.csv"); });
  };
  EXPECT_THAT(error("-1"), AllOf(StartsWith("p.csv:2:20:"), HasSubstr("switch latency of -1 s is not in 0 to 1")));
  EXPECT_THAT(error("25"), AllOf(HasSubstr("switch latency of 25 s is not in 0 to 1"),
                                 HasSubstr("give seconds: did you mean 0.025?")));
  EXPECT_THAT(error("late"), StartsWith("p.csv:2:20:"));
}

}  // namespace
}  // namespace lowgear::profile
