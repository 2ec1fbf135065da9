#include "client/server/server_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ServerMessages, ReportSharesOfTheIterationsTime) {
  MeasuredIteration measured;
  measured.iteration = 40;
  measured.time_s = 2.5;
  measured.compute_s = 1.93;
  measured.energy_j = 1302.7;
  measured.energy_error_j = 4.1;
  measured.throttled_power_s = 0.5;
  EXPECT_EQ(report_of(measured, 3), (protocol::IterationReport{.iteration = 40,
                                                               .plan_version = 3,
                                                               .time_s = 2.5,
                                                               .compute_s = 1.93,
                                                               .energy_j = 1302.7,
                                                               .energy_error_j = 4.1,
                                                               .throttled_power = 0.2}));
  measured.time_s = 0;
  EXPECT_EQ(report_of(measured, 0).throttled_power, 0) << "no time has passed";
}

TEST(ServerMessages, CutTextsOfDecisionsToWhatTheServerTakes) {
  protocol::TrainingDecision decision;
  decision.technique = "freezing";
  decision.change = "adopt";
  const protocol::TrainingDecision empty = sendable(decision);
  EXPECT_EQ(empty.configuration, "not named");
  EXPECT_EQ(empty.reason, "the program gives no reason");
  for (int i = 0; i < 2000; ++i) decision.reason += "\u00e4";
  decision.configuration = "two\nlines";
  const protocol::TrainingDecision cut = sendable(decision);
  EXPECT_EQ(cut.configuration, "two\\x0alines");
  EXPECT_LE(cut.reason.size(), protocol::kMaxReasonBytes);
  EXPECT_GT(cut.reason.size(), protocol::kMaxReasonBytes / 2);
  const Json body = Json::parse(protocol::write_rank_decisions({.rank = 0, .work = {}, .decisions = {cut}}));
  EXPECT_EQ(protocol::read_rank_decisions(JsonView(body, "body")).decisions[0], cut);
}

TEST(ServerMessages, RefuseDecisionsAndWorkThatTheServerDoesNotTake) {
  protocol::TrainingDecision decision;
  decision.technique = "Mine";
  EXPECT_THAT(error_of([&] { (void)sendable(decision); }), HasSubstr("technique: \"Mine\""));
  decision.technique = "mine";
  EXPECT_THAT(error_of([&] { (void)sendable(decision); }), HasSubstr("change"));
  EXPECT_THAT(error_of([] { (void)sendable(protocol::JobWork{.layers = 4, .frozen_layers = 5, .precision = "bf16"}); }),
              HasSubstr("5 of 4 layers"));
  EXPECT_THAT(error_of([] { (void)sendable(protocol::JobWork{.layers = 0, .precision = "bf16"}); }),
              HasSubstr("layers"));
  EXPECT_THAT(error_of([] { (void)sendable(protocol::JobWork{.layers = 4, .precision = ""}); }),
              HasSubstr("precision"));
}

TEST(ServerMessages, LeaveOutCellsWhoseEnergyIsNotKnown) {
  ProfileResult result{.plan_version = 2, .profile = {}, .problem = {}};
  for (const double energy_j : {21.4, 0.0}) {
    profile::RecordedCell cell;
    cell.key = {.stage = 3, .kind = OpKind::forward, .clock_mhz = 1215};
    cell.is_identified = true;
    cell.energy_j = energy_j;
    result.profile.cells.push_back(cell);
  }
  result.profile.cells.push_back({});
  result.profile.cells.back().is_identified = false;
  result.profile.blocking.resize(2);
  result.profile.blocking[0].is_identified = false;
  result.profile.blocking[1].is_identified = true;
  result.profile.blocking[1].stage = 3;
  const protocol::RankCells cells = cells_of(7, result);
  EXPECT_EQ(cells.rank, 7);
  EXPECT_EQ(cells.plan_version, 2);
  ASSERT_EQ(cells.cells.size(), 1U);
  EXPECT_EQ(cells.cells[0].energy_j, 21.4);
  EXPECT_EQ(cells.cells[0].clock_mhz, 1215);
  ASSERT_EQ(cells.blocking.size(), 1U);
  EXPECT_EQ(cells.blocking[0].stage, 3);
}

TEST(ServerMessages, CompleteTheJob) {
  RankInfo rank;
  rank.run = "slurm-7";
  const auto completed = [&](const char* text) { return parse_json(complete_job(text, rank, "H100"), "job"); };
  EXPECT_EQ(completed(R"({"name": "n"})"), (Json{{"name", "n"}, {"run", "slurm-7"}, {"gpu", "H100"}}));
  EXPECT_EQ(completed(R"({"run": "mine", "gpu": "A100"})"), (Json{{"run", "mine"}, {"gpu", "A100"}}));
  EXPECT_THAT(error_of([] { (void)complete_job("{}", {}, ""); }), HasSubstr("LOWGEAR_RUN"));
  EXPECT_THAT(error_of([&] { (void)complete_job("[]", rank, ""); }), HasSubstr("object"));
  EXPECT_THAT(error_of([&] { (void)complete_job("{", rank, ""); }), HasSubstr("job:1"));
  rank.user = "ada";
  EXPECT_EQ(completed("{}")["user"], "ada");
  EXPECT_EQ(completed(R"({"user": "grace"})")["user"], "grace");
}

TEST(ServerMessages, SayWhatTheServerRefuses) {
  const http::Endpoint tcp = http::Endpoint::parse("http://planner:7787");
  EXPECT_EQ(refusal_of(409, R"({"error": {"message": "ranks disagree\u001b[31m", "code": "disagrees"}})", tcp),
            "ranks disagree\\x1b[31m (409)");
  EXPECT_EQ(refusal_of(502, "<html>", tcp), "no reason is given (502)");
  const std::string no_token = R"({"error": {"message": "no token was sent", "code": "no_token"}})";
  EXPECT_THAT(refusal_of(401, no_token, tcp), AllOf(StartsWith("no token was sent (401); "), HasSubstr("unix:PATH")));
  EXPECT_EQ(refusal_of(401, no_token, http::Endpoint::parse("unix:/s.sock")), "no token was sent (401)");
}

}  // namespace
}  // namespace lowgear::client
