#include "training/trainer/measuring/simulated_gpu.h"

#include <gtest/gtest.h>

namespace lowgear::trainer {
namespace {

double time_s(const StageRange& range, std::int64_t frozen_blocks, OpKind kind) {
  const launcher::SimulatedGpuConfig config{
      .layer_forward_s = 1, .embedding_forward_s = 0.5, .head_forward_s = 2, .backward_factor = 3};
  const UnitKernel kernel = simulated_kernel(config, range, frozen_blocks, kind);
  return kernel.compute_s + kernel.memory_s;
}

TEST(SimulatedKernel, LastsAsLongAsWhatIsComputed) {
  const StageRange first{.layers = {0, 4}, .first = true, .last = false};
  EXPECT_DOUBLE_EQ(time_s(first, 0, OpKind::forward), 4.5);
  EXPECT_DOUBLE_EQ(time_s(first, 0, OpKind::backward), 13.5);
  EXPECT_DOUBLE_EQ(time_s(first, 1, OpKind::forward), 4.5);
  EXPECT_DOUBLE_EQ(time_s(first, 1, OpKind::backward), 9) << "three blocks, without the embedding";
  const StageRange last{.layers = {4, 8}, .first = false, .last = true};
  EXPECT_DOUBLE_EQ(time_s(last, 4, OpKind::backward), 6) << "the output layer";
  EXPECT_DOUBLE_EQ(time_s(last, 2, OpKind::input_gradient), 6);
}

TEST(SimulatedKernel, LastsLongerForLongerDocuments) {
  const launcher::SimulatedGpuConfig config{
      .layer_forward_s = 1, .head_forward_s = 2, .backward_factor = 3, .attention_share = 0.6};
  const StageRange last{.layers = {0, 4}, .first = false, .last = true};
  const auto time_s = [&](OpKind kind, double attention) {
    const UnitKernel kernel = simulated_kernel(config, last, 0, kind, attention);
    return kernel.compute_s + kernel.memory_s;
  };
  EXPECT_DOUBLE_EQ(time_s(OpKind::forward, 1), 6);
  EXPECT_DOUBLE_EQ(time_s(OpKind::forward, 0.25), 2 + 4 * (0.4 + 0.6 * 0.25));
  EXPECT_DOUBLE_EQ(time_s(OpKind::backward, 0), 3 * (2 + 4 * 0.4));
}

}  // namespace
}  // namespace lowgear::trainer
