#include "planning/planner/planners/split_plan.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "planning/planner/planners/rounding.h"
#include "planning/planner/random_instances.h"
#include "planning/planner/random_pipelines.h"

namespace lowgear::planner {
namespace {

std::vector<std::int32_t> random_choice(const PlanningModel& model, std::mt19937_64& random) {
  std::vector<std::int32_t> choice;
  for (int op = 0; op < model.instance.op_count(); ++op) {
    const auto last = static_cast<std::int64_t>(model.choices_of(op).size()) - 1;
    choice.push_back(static_cast<std::int32_t>(random_in(random, 0, last)));
  }
  return choice;
}

/// Against a makespan of all ops with the mixed clocks.
TEST(SplitPlan, HasTheMakespanOfTheMixedClocks) {
  std::mt19937_64 random(81);
  for (int i = 0; i < 100; ++i) {
    const PlanningModel model = random_pipeline(random).model();
    Rounder rounder(model);
    const std::vector<std::int32_t> first = random_choice(model, random);
    const std::vector<std::int32_t> rest = random_choice(model, random);
    const std::span<const std::int32_t> order = rounder.graph().order();
    const SplitPlan split(model, rounder.graph(), order, first, rest);
    std::vector<std::int32_t> mixed = rest;
    for (std::size_t count = 0; count <= order.size(); ++count) {
      ASSERT_EQ(split.makespan_ps(count), rounder.makespan_ps(mixed)) << "pipeline " << i << ", " << count << " ops";
      if (count == order.size()) break;
      const auto op = static_cast<std::size_t>(order[count]);
      mixed[op] = first[op];
    }
  }
}

}  // namespace
}  // namespace lowgear::planner
