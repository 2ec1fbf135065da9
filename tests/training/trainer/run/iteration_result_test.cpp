#include "training/trainer/run/iteration_result.h"

#include <gtest/gtest.h>

#include "training/trainer/test_models.h"

namespace lowgear::trainer {
namespace {

double mfu(bool tied, std::int64_t frozen_blocks) {
  launcher::TrainConfig config;
  config.model = tiny_llama(tied);
  config.sequence_length = 16;
  IterationTotals totals;
  totals.peak_flop_s = 1e9;
  IterationResult result;
  result.time_s = 1;
  result.frozen_blocks = frozen_blocks;
  totals.describe(config, result);
  return result.mfu.value();
}

TEST(IterationTotals, CountsNoFlopsThatFrozenBlocksSave) {
  // A token: of each of 8 blocks, forward and backward.
  const double weights = 32 * (32 + 16 + 16) + 32 * 32 + 3 * 32 * 48;
  const double block = 6 * weights + 12 * 32 * 16;
  const double head = 6 * 64 * 32;
  EXPECT_DOUBLE_EQ(mfu(false, 0), 16 * (8 * block + head) / 1e9);
  EXPECT_DOUBLE_EQ(mfu(false, 3), 16 * (5 * block + 3 * block / 3 + head) / 1e9);
  EXPECT_DOUBLE_EQ(mfu(true, 3), 16 * (5 * block + 3 * block / 3 + 2 * head / 3) / 1e9);
}

}  // namespace
}  // namespace lowgear::trainer
