#include "protocol/rank_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using Members = std::vector<std::pair<std::string, Json>>;

using testing::HasSubstr;

constexpr int kStages = 4;

RankCells read_cells(const Json& body) { return read_rank_cells(JsonView(body, "body"), kStages); }

RankCells cells() {
  return {.rank = 3,
          .plan_version = 2,
          .cells = {{.stage = 3,
                     .kind = OpKind::forward,
                     .clock_mhz = 1215,
                     .units = 40,
                     .time_s = 0.0712,
                     .time_error_s = 0.0001,
                     .energy_j = 21.4,
                     .energy_error_j = 0.2}},
          .blocking = {{.stage = 3, .power_w = 82.1, .error_w = 0.5}}};
}

TEST(RankCells, HaveOneFormOnTheWire) {
  EXPECT_EQ(write_rank_cells(cells()),
            R"({"rank":3,"plan_version":2,"cells":[{"stage":3,"instruction":"forward","clock_mhz":1215,"units":40,)"
            R"("time_s":0.0712,"time_error_s":0.0001,"energy_j":21.4,"energy_error_j":0.2}],)"
            R"("blocking":[{"stage":3,"power_w":82.1,"error_w":0.5}]})");
}

TEST(RankCells, RefuseWhatIsNoCell) {
  for (const auto& [member, value] : Members{{"stage", kStages},
                                             {"stage", -1},
                                             {"instruction", "p2p"},
                                             {"clock_mhz", 0},
                                             {"units", 0},
                                             {"time_s", 0},
                                             {"energy_j", -1},
                                             {"more", 1}}) {
    Json wrong = to_json(cells());
    wrong["cells"][0][member] = value;
    EXPECT_THAT(error_of([&] { (void)read_cells(wrong); }), HasSubstr("$.cells[0]")) << member;
  }
}

TEST(RankCells, ReadBackAnythingThatTheyWrite) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    RankCells written{
        .rank = random.whole(0, 1'000), .plan_version = random.whole(1, 1 << 30), .cells = {}, .blocking = {}};
    for (int left = random.whole(0, 5); left > 0; --left) {
      written.cells.push_back({.stage = random.whole(0, kStages - 1),
                               .kind = random.coin() ? OpKind::forward : OpKind::weight_gradient,
                               .clock_mhz = random.whole(1, 100'000),
                               .units = random.whole(1, 1 << 30),
                               .time_s = random.number(1e-9, 1e5),
                               .time_error_s = random.number(0, 1e5),
                               .energy_j = random.number(1e-9, 1e8),
                               .energy_error_j = random.number(0, 1e8)});
      written.blocking.push_back(
          {.stage = random.whole(0, kStages - 1), .power_w = random.number(0, 1e5), .error_w = random.number(0, 1e5)});
    }
    EXPECT_EQ(read_cells(Json::parse(write_rank_cells(written))), written) << write_rank_cells(written);
  }
}

}  // namespace
}  // namespace lowgear::protocol
