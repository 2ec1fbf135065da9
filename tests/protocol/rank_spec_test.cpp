#include "protocol/rank_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using Members = std::vector<std::pair<std::string, Json>>;

using testing::HasSubstr;

constexpr JobParallel kParallel{.pp = 4, .dp = 3, .tp = 2, .chunks = 1};

RankSpec read_rank(const std::string& text) {
  const Json body = Json::parse(text);
  return read_rank_spec(JsonView(body, "body"), kParallel);
}

TEST(RankSpec, RefusesARankThatHasNoPlace) {
  const JobParallel parallel{.pp = 2, .dp = 3, .tp = 1, .chunks = 1};
  const Json good = Json::parse(R"({"rank":5,"pp_rank":1,"dp_rank":2,"tp_rank":0,"instance":"i","host":"h",
                                    "clocks_mhz":[900,1410,900]})");
  const auto read_rank = [&](const Json& body) { return read_rank_spec(JsonView(body, "body"), parallel); };
  EXPECT_EQ(read_rank(good).clocks_mhz, (std::vector<int>{1410, 900}));
  for (const auto& [member, value] : Members{{"rank", 6},
                                             {"rank", -1},
                                             {"pp_rank", 2},
                                             {"dp_rank", 3},
                                             {"tp_rank", 1},
                                             {"host", ""},
                                             {"clocks_mhz", {0}},
                                             {"power_limit_w", 0},
                                             {"gpu", 3},
                                             {"unknown", 1},
                                             {"clocks_mhz", "all"},
                                             {"instance", nullptr}}) {
    Json body = good;
    body[member] = value;
    EXPECT_THROW((void)read_rank(body), InputError) << member << value;
  }
  Json without_clocks = good;
  without_clocks.erase("clocks_mhz");
  without_clocks["follows_plans"] = true;
  EXPECT_THAT(error_of([&] { (void)read_rank(without_clocks); }), HasSubstr("clocks_mhz"));
}

TEST(RankSpec, HasOneFormOnTheWire) {
  RankSpec rank{.rank = 3,
                .pp_rank = 1,
                .dp_rank = 0,
                .tp_rank = 1,
                .instance = "0f7c",
                .host = "node-1",
                .gpu_uuid = "GPU-1",
                .gpu = "NVIDIA A100",
                .simulated = true,
                .clocks_mhz = {1410, 1395},
                .power_limit_w = 400,
                .follows_plans = true};
  EXPECT_EQ(write_rank_spec(rank),
            R"({"rank":3,"pp_rank":1,"dp_rank":0,"tp_rank":1,"instance":"0f7c","host":"node-1","gpu_uuid":"GPU-1",)"
            R"("gpu":"NVIDIA A100","simulated":true,"clocks_mhz":[1410,1395],"power_limit_w":400.0,)"
            R"("follows_plans":true})");
  rank.host = "node-\xff";
  EXPECT_THAT(write_rank_spec(rank), HasSubstr("node-\xef\xbf\xbd"));
}

/// A rank without a GPU names none: an empty name would be refused.
TEST(RankSpec, SaysNullOfAGpuThatIsNotThere) {
  RankSpec rank;
  rank.instance = "i";
  rank.host = "h";
  EXPECT_THAT(write_rank_spec(rank), HasSubstr(R"("gpu_uuid":null,"gpu":null,"simulated":false,"clocks_mhz":[],)"));
  EXPECT_EQ(read_rank(write_rank_spec(rank)), rank);
}

TEST(RankSpec, ReadsBackAnythingThatItWrites) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    RankSpec rank{.rank = random.whole(0, 23),
                  .pp_rank = random.whole(0, 3),
                  .dp_rank = random.whole(0, 2),
                  .tp_rank = random.whole(0, 1),
                  .instance = random.name(),
                  .host = random.name(),
                  .gpu_uuid = random.maybe(random.name()).value_or(""),
                  .gpu = random.maybe(random.name()).value_or(""),
                  .simulated = random.coin(),
                  .clocks_mhz = {},
                  .power_limit_w = random.maybe(random.number(1, 1'000)),
                  .follows_plans = random.coin()};
    for (int clock = random.whole(300, 2'000); clock > 250; clock -= random.whole(1, 200)) {
      rank.clocks_mhz.push_back(clock);
    }
    EXPECT_EQ(read_rank(write_rank_spec(rank)), rank) << write_rank_spec(rank);
  }
}

}  // namespace
}  // namespace lowgear::protocol
