#include "protocol/rank_decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"
#include "protocol/random_document.h"

namespace lowgear::protocol {
namespace {

using testing::HasSubstr;

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
