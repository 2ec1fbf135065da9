#include "server/planning/planning_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::server {

namespace {

using testing::HasSubstr;

protocol::RankCells cells(int rank, int version, double time_s, double energy_j) {
  protocol::RankCells cells{.rank = rank, .plan_version = version, .cells = {}, .blocking = {}};
  cells.cells.push_back({.stage = 0,
                         .kind = OpKind::forward,
                         .clock_mhz = 1410,
                         .units = 10,
                         .time_s = time_s,
                         .time_error_s = 0.1,
                         .energy_j = energy_j,
                         .energy_error_j = 3});
  cells.blocking.push_back({.stage = 0, .power_w = 70.0 + rank, .error_w = 1});
  return cells;
}

TEST(MergeCells, TakesTheSlowestRanksTimeAndTheMeanEnergy) {
  const std::vector<protocol::RankCells> ranks{cells(0, 1, 1.0, 10), cells(1, 1, 2.0, 30)};
  const MeasuredProfile profile = merge_cells(ranks, 1);
  ASSERT_EQ(profile.cells.size(), 1U);
  EXPECT_EQ(profile.cells[0].time_s, 2.0);
  EXPECT_EQ(profile.cells[0].energy_j, 20);
  EXPECT_DOUBLE_EQ(profile.cells[0].energy_error_j, std::sqrt(18.0) / 2);
  EXPECT_EQ(profile.cells[0].units, 20);
  EXPECT_EQ(profile.blocking.at(0).power_w, 70.5);
  EXPECT_DOUBLE_EQ(profile.blocking.at(0).error_w, std::sqrt(2.0) / 2);
}

TEST(MergeCells, TakesTheLastOfACellThatARankNamesTwice) {
  protocol::RankCells twice = cells(0, 1, 1.0, 10);
  twice.cells.push_back(cells(0, 1, 2.0, 30).cells[0]);
  const MeasuredProfile profile = merge_cells(std::vector<protocol::RankCells>{twice}, 1);
  ASSERT_EQ(profile.cells.size(), 1U);
  EXPECT_EQ(profile.cells[0].time_s, 2.0);
  EXPECT_EQ(profile.cells[0].energy_j, 30);
}

TEST(MergeCells, NeedsABlockingPowerOfEachStage) {
  EXPECT_THAT(error_of([] { (void)merge_cells(std::vector<protocol::RankCells>{cells(0, 1, 1, 1)}, 2); }),
              HasSubstr("stage 1"));
}

TEST(MeasuredProfile, ReadsBackWhatManyRanksMeasuredInAllUnitsThatACellMayHave) {
  std::vector<protocol::RankCells> ranks;
  for (int rank = 0; rank < 5; ++rank) {
    ranks.push_back(cells(rank, 1, 1.0, 10));
    ranks.back().cells[0].units = protocol::kMaxCellUnits;
  }
  const std::string text = write_measured_profile(merge_cells(ranks, 1));
  EXPECT_EQ(write_measured_profile(read_measured_profile(text)), text);
}

TEST(MeasuredProfile, ReadsBackWhatItWrites) {
  MeasuredProfile profile = merge_cells(std::vector<protocol::RankCells>{cells(0, 1, 1.5, 10)}, 1);
  profile.simulated = true;
  const std::string text = write_measured_profile(profile);
  EXPECT_EQ(write_measured_profile(read_measured_profile(text)), text);
  EXPECT_THROW((void)read_measured_profile(R"({"format":"lowgear.measured_profile/2"})"), InputError);
}

Json job() {
  return Json::parse(R"({"run":"r","model":"m","gpu":"g","parallel":{"pp":2},"schedule":"1f1b","microbatches":4})");
}

std::string refusal(const Json& body) {
  return error_of([&] { (void)make_schedule(protocol::read_job_spec(JsonView(body, "body"))); });
}

TEST(JobSchedule, NamesAScheduleThatThereIsNot) {
  Json body = job();
  body["schedule"] = "none such";
  EXPECT_THAT(refusal(body), HasSubstr("none such"));
}

TEST(JobSchedule, BoundsTheUnitsOfASchedule) {
  Json body = job();
  body["parallel"] = {{"pp", 1000}};
  body["microbatches"] = 501;
  EXPECT_THAT(refusal(body), HasSubstr("1002000 units"));
}

TEST(JobSchedule, NamesAnOrderThatIsStated) {
  Json body = job();
  body["parallel"] = {{"pp", 2}};
  body["microbatches"] = 3;
  body["schedule"] = {{"csv", "0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"}};
  EXPECT_EQ(make_schedule(protocol::read_job_spec(JsonView(body, "job"))).name, "1f1b");
  body["schedule"] = {{"csv", "0F0,0B0,0F1,0B1,0F2,0B2\n1F0,1B0,1F1,1B1,1F2,1B2\n"}};
  EXPECT_EQ(make_schedule(protocol::read_job_spec(JsonView(body, "job"))).name, kOwnSchedule);
}

TEST(JobSchedule, WantsAScheduleOfItsSizes) {
  Json body = job();
  body["schedule"] = {{"csv", "0F0,0B0\n"}};
  EXPECT_THAT(refusal(body), HasSubstr("the schedule has 1 ranks"));
}

}  // namespace

}  // namespace lowgear::server
