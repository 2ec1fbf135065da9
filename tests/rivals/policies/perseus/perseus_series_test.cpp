#include "rivals/policies/perseus/perseus_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planning/api/plan_pipeline.h"
#include "planning/api/sample_pipeline.h"

namespace lowgear::policies {
namespace {

using ::testing::ElementsAre;

TEST(PerseusSeries, StartsWithTheSlowestPlan) {
  std::vector<PerseusCandidate> candidates;
  const api::PlanResult result = api::plan(api::sample_pipeline(), {.deadlines = {.plans = 3}},
                                           [&](const api::ProfiledPipeline& pipeline, int, const plan::Plan& made) {
                                             candidates.push_back(perseus_candidate(pipeline, made));
                                           });
  std::vector<int> numbers;
  std::vector<std::string> texts;
  write_perseus_series(candidates, formats::PerseusDialect::artifact, [&](int number, const std::string& text) {
    numbers.push_back(number);
    texts.push_back(text);
  });
  EXPECT_THAT(numbers, ElementsAre(0, 1, 2));
  const formats::PerseusPlan slowest = formats::read_perseus_plan(texts.front(), "00000.py");
  EXPECT_EQ(clocks_for(slowest, result.pipeline.dag), clocks_for(candidates.back().plan, result.pipeline.dag));
  EXPECT_LT(candidates.back().energy_j, candidates.front().energy_j) << "slower plans use less";
  EXPECT_LT(candidates.back().effective_energy_j, candidates.back().energy_j) << "without blocking";
}

}  // namespace
}  // namespace lowgear::policies
