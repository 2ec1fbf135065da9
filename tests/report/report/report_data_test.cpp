#include "report/report/report_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planning/profile/profile_file.h"

namespace lowgear::report {
namespace {

using testing::ElementsAre;

TEST(Valleys, HaveTheLeastEnergyOfEachClock) {
  const profile::StageProfile profile = profile::read_profile_file(
                                            "stage,instruction,frequency,time,energy,setting\n"
                                            "0,forward,1410,1,9,a\n0,forward,1410,2,7,b\n0,forward,900,3,5,a\n"
                                            "0,backward,1410,1,20,a\n0,backward,900,2,18,a\n",
                                            "p.csv")
                                            .profile;
  const std::vector<Valley> valleys = valleys_of(profile);
  ASSERT_EQ(valleys.size(), 2U);
  EXPECT_EQ(valleys[0].kind, OpKind::forward);
  EXPECT_THAT(valleys[0].clocks_mhz, ElementsAre(900, 1410));
  EXPECT_THAT(valleys[0].energy_j, ElementsAre(5, 7));
  EXPECT_EQ(valleys[1].kind, OpKind::backward);
}

TEST(Valleys, OfOneClockAreNone) {
  const profile::StageProfile profile =
      profile::read_profile_file("stage,instruction,frequency,time,energy\n0,forward,1410,1,9\n0,backward,1410,1,20\n",
                                 "p.csv")
          .profile;
  EXPECT_TRUE(valleys_of(profile).empty());
}

TEST(Valleys, AreWrittenForThePage) {
  const Json json = valleys_json({{.stage = 2,
                                   .kind = OpKind::backward,
                                   .clocks_mhz = {900, 1410},
                                   .energy_j = {5, 7},
                                   .envpipe_clock_mhz = 900}});
  EXPECT_EQ(json[0]["kind"], "B");
  EXPECT_EQ(json[0]["clock_mhz"], Json::array({900, 1410}));
  EXPECT_EQ(json[0]["envpipe_clock_mhz"], 900);
}

}  // namespace
}  // namespace lowgear::report
