#include "protocol/rank_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {

namespace {

using testing::HasSubstr;

RankReports read_reports(const Json& body) { return read_rank_reports(JsonView(body, "body")); }
RankReports read_text(const std::string& text) { return read_reports(Json::parse(text)); }

RankReports reports() {
  return {.rank = 3,
          .reports = {{.iteration = 40,
                       .plan_version = 3,
                       .time_s = 2.5,
                       .compute_s = 1.93,
                       .energy_j = 1302.7,
                       .energy_error_j = 4.1,
                       .throttled_power = 0.2},
                      {.iteration = 41, .time_s = 2, .compute_s = 1, .energy_j = {}}},
          .gpu = {.power_w = 312,
                  .sm_clock_mhz = 1215,
                  .sm_clock_min_mhz = 1005,
                  .sm_clock_max_mhz = 1410,
                  .temperature_c = 61}};
}

constexpr std::string_view kReports =
    R"({"rank":3,"reports":[{"iteration":40,"plan_version":3,"time_s":2.5,"compute_s":1.93,"energy_j":1302.7,)"
    R"("energy_error_j":4.1,"throttled_power":0.2,"throttled_thermal":0.0},{"iteration":41,"plan_version":0,)"
    R"("time_s":2.0,"compute_s":1.0,"energy_j":null,"energy_error_j":0.0,"throttled_power":0.0,)"
    R"("throttled_thermal":0.0}],"gpu":{"power_w":312.0,"sm_clock_mhz":1215.0,)";

TEST(RankReports, HaveOneFormOnTheWire) {
  EXPECT_EQ(write_rank_reports(reports()),
            std::string(kReports) + R"("sm_clock_min_mhz":1005,"sm_clock_max_mhz":1410,"temperature_c":61}})");
}

TEST(RankReports, HaveOneFormInTheStore) {
  EXPECT_EQ(to_json(reports()).dump(),
            std::string(kReports) + R"("sm_clock_min_mhz":1005.0,"sm_clock_max_mhz":1410.0,"temperature_c":61.0}})");
}

TEST(RankReports, SayNullOfWhatIsNotKnown) {
  EXPECT_EQ(write_rank_reports({.rank = 3, .reports = {}, .gpu = {}}),
            R"({"rank":3,"reports":[],"gpu":{"power_w":null,"sm_clock_mhz":null,"sm_clock_min_mhz":null,)"
            R"("sm_clock_max_mhz":null,"temperature_c":null}})");
  EXPECT_EQ(read_text(R"({"rank": 0, "reports": []})"), RankReports{});
}

TEST(RankReports, CarryWaitsWhereThePolicyDecidesByThem) {
  RankReports waited = reports();
  waited.reports[0].wait_s = {0.25, 0, std::numeric_limits<double>::quiet_NaN()};
  const Json written = Json::parse(write_rank_reports(waited));
  EXPECT_EQ(written["reports"][0]["wait_s"].dump(), "[0.25,0.0,null]");
  EXPECT_FALSE(written["reports"][1].contains("wait_s")) << "servers before the policy refuse it";
  const std::vector<double> read = read_reports(written).reports[0].wait_s;
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0], 0.25);
  EXPECT_TRUE(std::isnan(read[2]));
  Json negative = written;
  negative["reports"][0]["wait_s"][1] = -1;
  EXPECT_THAT(error_of([&] { (void)read_reports(negative); }), HasSubstr("wait_s[1]"));
}

TEST(RankReports, CarryPredictionsWhereTheJobPlansItsOwnSteps) {
  RankReports predicted = reports();
  predicted.reports[0].units_time_s = 2.25;
  predicted.reports[0].predicted_time_s = 2.5;
  predicted.reports[0].full_clocks = true;
  const Json written = Json::parse(write_rank_reports(predicted));
  EXPECT_EQ(written["reports"][0]["units_time_s"], 2.25);
  EXPECT_EQ(written["reports"][0]["predicted_time_s"], 2.5);
  EXPECT_EQ(written["reports"][0]["full_clocks"], true);
  for (const char* const member : {"units_time_s", "predicted_time_s", "full_clocks"}) {
    EXPECT_FALSE(written["reports"][1].contains(member)) << "servers before the policy refuse it";
  }
  EXPECT_EQ(read_reports(written), predicted);
}

TEST(RankReports, SayWhyARankRefusesPlans) {
  RankReports refused = reports();
  refused.refusal = "the schedule differs";
  EXPECT_EQ(to_json(refused)["refusal"], "the schedule differs");
  EXPECT_EQ(read_text(write_rank_reports(refused)), refused);
  EXPECT_EQ(read_text(R"({"rank": 0, "reports": [], "refusal": null})"), RankReports{});
  EXPECT_THAT(error_of([] { (void)read_text(R"({"rank": 0, "reports": [], "refusal": ""})"); }),
              HasSubstr("$.refusal"));
}

TEST(RankReports, NameWhatIsWrong) {
  const auto refusal = [](const char* member, const Json& value) {
    Json wrong = to_json(reports());
    wrong["reports"][1][member] = value;
    return error_of([&] { (void)read_reports(wrong); });
  };
  EXPECT_THAT(refusal("iteration", 40), HasSubstr("$.reports[1].iteration: does not rise"));
  EXPECT_THAT(refusal("iteration", -1), HasSubstr("$.reports[1].iteration"));
  EXPECT_THAT(refusal("iteration", std::int64_t{1} << 41), HasSubstr("$.reports[1].iteration"));
  EXPECT_THAT(refusal("time_s", 0), HasSubstr("$.reports[1].time_s"));
  EXPECT_THAT(refusal("throttled_power", 1.5), HasSubstr("$.reports[1].throttled_power"));
  for (const char* const member : {"units_time_s", "predicted_time_s"}) {
    for (const Json& value :
         {Json(0), Json(-1), Json(1.1e6), Json(std::numeric_limits<double>::infinity()), Json("1")}) {
      EXPECT_THAT(refusal(member, value), HasSubstr(std::string("$.reports[1].") + member)) << value;
    }
    EXPECT_EQ(refusal(member, nullptr), "no error");
  }
  EXPECT_THAT(refusal("full_clocks", 1), HasSubstr("$.reports[1].full_clocks"));
  EXPECT_THAT(refusal("energy", 1), HasSubstr("did you mean \"energy_j\""));
  Json many = {{"rank", 0}, {"reports", Json::array()}};
  for (std::size_t i = 0; i <= kMaxReportsPerRequest; ++i) many["reports"].push_back(Json::object());
  EXPECT_THAT(error_of([&] { (void)read_reports(many); }), HasSubstr("1,000"));
}

TEST(RankReports, ReadBackAnythingThatTheyWrite) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    RankReports written{.rank = random.whole(0, 1'000), .reports = {}, .gpu = {}};
    std::int64_t iteration = random.whole64(0, 1'000'000'000);
    for (int left = random.whole(0, 5); left > 0; --left) {
      iteration += random.whole(1, 10);
      written.reports.push_back({.iteration = iteration,
                                 .plan_version = random.whole(0, 1 << 30),
                                 .time_s = random.number(1e-9, 1e6),
                                 .compute_s = random.number(0, 1e6),
                                 .energy_j = random.maybe(random.number(0, 1e12)),
                                 .energy_error_j = random.number(0, 1e12),
                                 .throttled_power = random.number(0, 1),
                                 .throttled_thermal = random.number(0, 1),
                                 .units_time_s = random.maybe(random.number(1e-9, 1e6)),
                                 .predicted_time_s = random.maybe(random.number(1e-9, 1e6)),
                                 .full_clocks = random.coin()});
    }
    written.gpu = {.power_w = random.maybe(random.number(0, 1e6)),
                   .sm_clock_mhz = random.maybe(random.number(0, 1e5)),
                   .sm_clock_min_mhz = random.maybe(random.number(0, 1e5)),
                   .sm_clock_max_mhz = random.maybe(random.number(0, 1e5)),
                   .temperature_c = random.maybe(random.number(-273.15, 1e4))};
    if (random.coin()) written.refusal = "for " + std::to_string(random.whole(0, 9)) + " reasons";
    EXPECT_EQ(read_text(write_rank_reports(written)), written) << write_rank_reports(written);
    EXPECT_EQ(read_text(to_json(written).dump()), written) << to_json(written);
  }
}

RankFinish read_finish(const std::string& text, int ranks) {
  const Json body = Json::parse(text);
  return read_rank_finish(JsonView(body, "body"), ranks);
}

TEST(RankFinish, HasOneFormOnTheWire) {
  EXPECT_EQ(write_rank_finish({.rank = 3}), R"({"rank": 3})");
  EXPECT_EQ(read_finish(write_rank_finish({.rank = 3, .failure = "KeyError"}), 4).failure, "KeyError");
}

TEST(RankFinish, ReadsBackAnythingThatItWrites) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    const RankFinish finish{.rank = random.whole(0, 99'999), .failure = random.coin() ? "OSError" : ""};
    EXPECT_EQ(read_finish(write_rank_finish(finish), 100'000), finish);
  }
}

TEST(RankFinish, RefusesARankThatTheJobDoesNotHave) {
  EXPECT_THAT(error_of([] { (void)read_finish(R"({"rank": 4})", 4); }), HasSubstr("$.rank"));
  EXPECT_THAT(error_of([] { (void)read_finish(R"({"rank": 0, "state": "finished"})", 4); }), HasSubstr("state"));
}

RankDecisions read_decisions(const std::string& text) {
  const Json body = Json::parse(text);
  return read_rank_decisions(JsonView(body, "body"));
}

RankDecisions decisions() {
  return {.rank = 3,
          .work = JobWork{.layers = 24, .frozen_layers = 6, .precision = "bf16"},
          .decisions = {{.number = 2,
                         .age_s = 0.5,
                         .from_iteration = 1200,
                         .technique = "freezing",
                         .change = "adopt",
                         .configuration = "6 of 24 blocks frozen",
                         .reason = "energy -3.1 % +- 0.4 %"}}};
}

/// The document of `decisions()` with another text in the place of a part of it.
RankDecisions read_changed(const std::string& part, const std::string& other) {
  std::string text = write_rank_decisions(decisions());
  const std::size_t at = text.find(part);
  if (at == std::string::npos) throw Error("the document has no " + part);
  return read_decisions(text.replace(at, part.size(), other));
}

TEST(RankDecisions, HaveOneFormOnTheWire) {
  EXPECT_EQ(write_rank_decisions(decisions()),
            R"({"rank":3,"work":{"layers":24,"frozen_layers":6,"precision":"bf16"},"decisions":[{"number":2,)"
            R"("age_s":0.5,"from_iteration":1200,"technique":"freezing","change":"adopt",)"
            R"("configuration":"6 of 24 blocks frozen","reason":"energy -3.1 % +- 0.4 %"}]})");
  EXPECT_EQ(write_rank_decisions({.rank = 0, .work = {}, .decisions = {}}), R"({"rank":0,"work":null,"decisions":[]})");
  EXPECT_EQ(read_decisions(R"({"rank": 0, "decisions": []})"), RankDecisions{});
}

TEST(RankDecisions, ReadBackAnythingThatTheyWrite) {
  RandomDocument random;
  for (int round = 0; round < kRoundTrips; ++round) {
    const int layers = random.whole(1, kMaxLayers);
    RankDecisions written{.rank = random.whole(0, 99'999), .work = {}, .decisions = {}};
    if (random.coin()) {
      written.work = JobWork{.layers = layers, .frozen_layers = random.whole(0, layers), .precision = "fp8"};
    }
    std::int64_t number = 0;
    for (int left = random.whole(0, 5); left > 0; --left) {
      written.decisions.push_back({.number = number += random.whole(1, 1000),
                                   .age_s = random.number(0, 1e8),
                                   .from_iteration = random.whole64(0, std::int64_t{1} << 40),
                                   .technique = "slowdown",
                                   .change = "cut_off",
                                   .configuration = random.name(),
                                   .reason = random.name()});
    }
    EXPECT_EQ(read_decisions(write_rank_decisions(written)), written);
  }
}

TEST(RankDecisions, RefuseWhatIsOutOfBounds) {
  const auto problem = [](const std::string& part, const std::string& other) {
    return error_of([&] { (void)read_changed(part, other); });
  };
  EXPECT_THAT(problem("\"number\":2", "\"number\":0"), HasSubstr("$.decisions[0].number"));
  EXPECT_THAT(problem("\"from_iteration\":1200", "\"from_iteration\":-1"), HasSubstr("from_iteration"));
  EXPECT_THAT(problem("\"age_s\":0.5", "\"age_s\":-0.5"), HasSubstr("age_s"));
  EXPECT_THAT(problem("\"freezing\"", "\"Freezing!\""), HasSubstr("a-z, 0-9 and _"));
  EXPECT_THAT(problem("\"adopt\"", '"' + std::string(kMaxWordBytes + 1, 'a') + '"'), HasSubstr("change"));
  EXPECT_THAT(problem("6 of 24 blocks frozen", std::string(201, 'x')), HasSubstr("1 to 200 bytes"));
  EXPECT_THAT(problem("energy -3.1 % +- 0.4 %", std::string(kMaxReasonBytes + 1, 'x')), HasSubstr("1 to 1000 bytes"));
  EXPECT_THAT(problem("energy -3.1 % +- 0.4 %", R"(two\nlines)"), HasSubstr("cannot be printed"));
  EXPECT_THAT(problem("\"frozen_layers\":6", "\"frozen_layers\":25"), HasSubstr("$.work.frozen_layers"));
  EXPECT_THAT(problem("\"layers\":24", "\"layers\":0"), HasSubstr("$.work.layers"));
  EXPECT_THAT(problem("\"rank\":3", "\"rank\":3,\"more\":1"), HasSubstr("more"));
}

TEST(RankDecisions, RefuseNumbersThatDoNotRiseAndTooManyDecisions) {
  RankDecisions twice = decisions();
  twice.decisions.push_back(twice.decisions.front());
  EXPECT_THAT(error_of([&] { (void)read_decisions(write_rank_decisions(twice)); }), HasSubstr("does not rise"));
  RankDecisions many = decisions();
  while (many.decisions.size() <= kMaxDecisionsPerRequest) {
    many.decisions.push_back(many.decisions.back());
    ++many.decisions.back().number;
  }
  EXPECT_THAT(error_of([&] { (void)read_decisions(write_rank_decisions(many)); }),
              HasSubstr("more than 100 decisions"));
}

}  // namespace

}  // namespace lowgear::protocol
