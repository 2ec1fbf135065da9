#include "planning/workflow/planning_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::workflow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(PlanningMemory, RefusesWhatDoesNotFitWithTheEstimate) {
  EXPECT_NO_THROW(require_planning_memory(8, 96, 1, kGib));
  const std::string error = error_of([] { require_planning_memory(1024, 100000, 2, 4 * kGib); });
  EXPECT_THAT(error, AllOf(HasSubstr("2048 stages x 100000 microbatches"), HasSubstr("4 GiB are available"),
                           HasSubstr("plan fewer stages or microbatches")));
}

TEST(PlanningMemory, AnUnknownAmountIsNotChecked) {
  EXPECT_NO_THROW(require_planning_memory(1024, 100000, 2, std::nullopt));
}

TEST(PlanningMemory, TheLargestNumbersDoNotOverflow) {
  EXPECT_NE(error_of([] { require_planning_memory(65536, 1'000'000, 1024, kGib); }), "");
}

}  // namespace
}  // namespace lowgear::workflow
