#include "app/cli/terminal/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t kGib = std::uint64_t{1} << 30;

TEST(Memory, RefusesWhatDoesNotFitWithTheEstimate) {
  EXPECT_NO_THROW(require_planning_memory(8, 96, 1, kGib));
  const std::string error = error_of([] { require_planning_memory(1024, 100000, 2, 4 * kGib); });
  EXPECT_THAT(error, AllOf(HasSubstr("2048 stages x 100000 microbatches"), HasSubstr("4 GiB are available"),
                           HasSubstr("plan fewer stages or microbatches")));
}

TEST(Memory, AnUnknownAmountIsNotChecked) { EXPECT_NO_THROW(require_planning_memory(1024, 100000, 2, std::nullopt)); }

TEST(Memory, TheLargestNumbersDoNotOverflow) {
  EXPECT_NE(error_of([] { require_planning_memory(65536, 1'000'000, 1024, kGib); }), "");
}

TEST(Memory, ThisMachineHasSome) {
  const auto available = available_memory_bytes();
  if (!available) GTEST_SKIP() << "SKIPPED: this system does not say how much memory it has";
  EXPECT_GT(*available, std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace lowgear
