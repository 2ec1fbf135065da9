#include "app/cli/terminal/memory.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lowgear::cli {
namespace {

TEST(Memory, ThisMachineHasSome) {
  const auto available = available_memory_bytes();
  if (!available) GTEST_SKIP() << "SKIPPED: this system does not say how much memory it has";
  EXPECT_GT(*available, std::uint64_t{1} << 20);
}

}  // namespace
}  // namespace lowgear::cli
