#include "control/client/server/server_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "control/client/one_op_plan.h"

namespace lowgear {
namespace {

using testing::HasSubstr;

Json offered() {
  return {{"version", 3},
          {"purpose", "profile"},
          {"from_iteration", 128},
          {"sweep", 2},
          {"trials", {{{"first_iteration", 130}, {"iterations", 2}, {"clock_mhz", 990}}}},
          {"settle_iterations", 1},
          {"settle_s", 0.1},
          {"plan", one_op_plan()}};
}

TEST(ServerMessages, ReadAnOfferedPlan) {
  const OfferedPlan plan = read_offered_plan(offered().dump(), "server");
  EXPECT_EQ(plan.version, 3);
  EXPECT_EQ(plan.purpose, "profile");
  EXPECT_EQ(plan.from_iteration, 128U);
  EXPECT_EQ(plan.sweep, 2);
  EXPECT_THAT(plan.trials, testing::ElementsAre(ClockTrial{130, 2, 990}));
  EXPECT_EQ(plan.settle_iterations, 1);
  EXPECT_EQ(plan.settle_s, 0.1);
  EXPECT_EQ(read_plan(plan.plan_json, "plan").ranks[0][0].clock_mhz, 1200);
}

TEST(ServerMessages, RefuseWhatIsNoOfferedPlan) {
  const auto error_with = [](const char* member, const Json& value) {
    Json wrong = offered();
    wrong[member] = value;
    return error_of([&] { (void)read_offered_plan(wrong.dump(), "server"); });
  };
  EXPECT_THAT(error_with("version", 0), HasSubstr("$.version"));
  EXPECT_THAT(error_with("from_iteration", -1), HasSubstr("$.from_iteration"));
  EXPECT_THAT(error_with("from_iteration", 1e300), HasSubstr("$.from_iteration"));
  EXPECT_THAT(error_with("sweep", 0), HasSubstr("$.sweep"));
  EXPECT_THAT(error_with("trials", nullptr), HasSubstr("$.trials"));
  EXPECT_THAT(error_with("settle_iterations", -1), HasSubstr("$.settle_iterations"));
  EXPECT_THAT(error_with("settle_s", 1e9), HasSubstr("$.settle_s"));
  EXPECT_THAT(error_with("purpose", 7), HasSubstr("$.purpose"));
  EXPECT_THAT(error_with("plan", Json::object()), HasSubstr("plan"));
  EXPECT_THAT(error_with("plan", nullptr), HasSubstr("plan"));
  EXPECT_NE(error_of([] { (void)read_offered_plan("", "server"); }), "no error");
}

TEST(ServerMessages, CompleteTheJob) {
  const auto completed = [](const char* text) { return parse_json(complete_job(text, "slurm-7", "H100"), "job"); };
  EXPECT_EQ(completed(R"({"name": "n"})"), (Json{{"name", "n"}, {"run", "slurm-7"}, {"gpu", "H100"}}));
  EXPECT_EQ(completed(R"({"run": "mine", "gpu": "A100"})"), (Json{{"run", "mine"}, {"gpu", "A100"}}));
  EXPECT_THAT(error_of([] { (void)complete_job("{}", "", ""); }), HasSubstr("LOWGEAR_RUN"));
  EXPECT_THAT(error_of([] { (void)complete_job("[]", "r", ""); }), HasSubstr("object"));
  EXPECT_THAT(error_of([] { (void)complete_job("{", "r", ""); }), HasSubstr("job:1"));
}

TEST(ServerMessages, SayWhatTheServerRefuses) {
  EXPECT_EQ(refusal_of(409, R"({"error": {"message": "ranks disagree\u001b[31m", "code": "disagrees"}})"),
            "ranks disagree\\x1b[31m (409)");
  EXPECT_EQ(refusal_of(502, "<html>"), "the server answers with status 502");
}

}  // namespace
}  // namespace lowgear
