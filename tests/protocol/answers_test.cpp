#include "protocol/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using testing::HasSubstr;

template <typename Read>
auto read_text(Read read, const std::string& text) {
  const Json answer = Json::parse(text);
  return read(JsonView(answer, "server"));
}

TEST(Answers, HaveOneFormOnTheWire) {
  EXPECT_EQ(to_json(JobAnswer{.job = "j-7f3a", .created = true, .state = "registering"}).dump(),
            R"({"job":"j-7f3a","created":true,"state":"registering"})");
  EXPECT_EQ(to_json(RankAnswer{.rank_key = "0f", .plan_version = 0}).dump(), R"({"rank_key":"0f","plan_version":0})");
  EXPECT_EQ(to_json(ReportsAnswer{.last_iteration = 41, .plan_version = 3}).dump(),
            R"({"last_iteration":41,"plan_version":3})");
  EXPECT_EQ(to_json(CellsAnswer{.accepted = 12}).dump(), R"({"accepted":12})");
  EXPECT_EQ(to_json(DecisionsAnswer{.accepted = 2}).dump(), R"({"accepted":2})");
  EXPECT_EQ(to_json(FinishAnswer{.state = "finished"}).dump(), R"({"state":"finished"})");
}

TEST(Answers, ReadBackAnythingThatTheyWrite) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    const JobAnswer job{.job = random.name(), .created = random.coin(), .state = random.name()};
    EXPECT_EQ(read_text(read_job_answer, to_json(job).dump()), job);
    const RankAnswer rank{.rank_key = random.name(), .plan_version = random.whole(0, 1 << 30)};
    EXPECT_EQ(read_text(read_rank_answer, to_json(rank).dump()), rank);
    const ReportsAnswer reports{.last_iteration = random.whole64(-1, std::int64_t{1} << 40),
                                .plan_version = random.whole(0, 1 << 30)};
    EXPECT_EQ(read_text(read_reports_answer, to_json(reports).dump()), reports);
  }
}

/// Another release may leave out what a rank can do without, and add what it does not know.
TEST(Answers, NeedNoMoreThanARankDoes) {
  EXPECT_EQ(read_text(read_job_answer, R"({"job": "j-1", "since": 3})").job, "j-1");
  EXPECT_EQ(read_text(read_rank_answer, R"({"rank_key": "k"})").rank_key, "k");
  EXPECT_THAT(error_of([] { (void)read_text(read_job_answer, "{}"); }), HasSubstr("job"));
  EXPECT_THAT(error_of([] { (void)read_text(read_rank_answer, "[]"); }), HasSubstr("server"));
}

}  // namespace
}  // namespace lowgear::protocol
