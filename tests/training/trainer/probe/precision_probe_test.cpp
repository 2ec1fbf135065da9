#include "training/trainer/probe/precision_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "training/trainer/state_job.h"
#include "training/trainer/thread_training.h"

namespace lowgear::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// What a job saw of a probe, on its first rank.
struct Seen {
  ChosenPrecision chosen;
  bool fp8 = false;                                  ///< at the end
  std::vector<std::pair<bool, std::int64_t>> steps;  ///< as they were trained: in fp8 or not, on which data
  bool restored = false;                             ///< state and number of steps are those of before
  bool began_equal = true;                           ///< every block began with the state of before
};

/// Probes a job of two replicas that share their state, in which a step in bf16 takes `bf16_s` and one in fp8 next to
/// nothing.
Seen probe(double bf16_s, double fp8_loss, int asked_to_end_in_step = 1'000'000) {
  launcher::TrainConfig config = small_job({.dp = 2});
  config.optimizer.zero1 = true;
  Seen seen;
  run_state_job(config, [&](StateRank& rank) {
    AdamW& optimizer = rank.optimizer();
    optimizer.set_steps(7);
    optimizer.state().master.fill_(3);
    optimizer.publish();
    bool fp8 = false;
    int trained = 0;
    double now_s = 0;
    Seen mine;
    const ProbedJob job{.use_fp8 =
                            [&](bool on) {
                              fp8 = on;
                              const bool values = (rank.store().values().narrow(0, 0, 10) == 3).all().item<bool>();
                              mine.began_equal = mine.began_equal && values && optimizer.steps() == 7;
                            },
                        .train =
                            [&](std::int64_t step) {
                              ++trained;
                              mine.steps.emplace_back(fp8, step);
                              optimizer.state().master.add_(1);
                              optimizer.set_steps(optimizer.steps() + 1);
                              optimizer.publish();
                              now_s += fp8 ? 0.001 : bf16_s;
                              return rank.place().dp == 0 ? (fp8 ? fp8_loss : 2.0) : 0.0;
                            },
                        .asked_to_end = [&] { return trained >= asked_to_end_in_step && rank.place().dp == 1; },
                        .optimizer = &optimizer,
                        .world = rank.ranks().world.get(),
                        .first_step = 10,
                        .steps = 13,
                        .now_s = [&] { return now_s; }};
    PrecisionProbe probe({.pairs = 3, .block_s = 0.001, .loss_margin_pct = 0.5}, job);
    mine.chosen = probe.run();
    mine.fp8 = fp8;
    mine.restored = (optimizer.state().master == 3).all().item<bool>() && optimizer.steps() == 7 &&
                    (rank.store().values().narrow(0, 0, 10) == 3).all().item<bool>();
    if (rank.place().dp == 0) seen = mine;
  });
  return seen;
}

TEST(PrecisionProbe, TakesTheFasterOneAndLeavesTheJobAsItWas) {
  const Seen seen = probe(0.1, 2.0);
  EXPECT_TRUE(seen.chosen.fp8);
  EXPECT_TRUE(seen.fp8);
  EXPECT_TRUE(seen.began_equal);
  EXPECT_TRUE(seen.restored);
  EXPECT_THAT(seen.chosen.reason, HasSubstr("3 pairs of blocks: time per token (no energy was measured)"));
  EXPECT_EQ(seen.chosen.steps, 10);
  EXPECT_FALSE(seen.chosen.energy_j);
  // Two steps of each to warm up, and then a step of each in turns, each pair on data of its own; the job has three.
  const auto in = [](bool fp8, std::int64_t step) { return std::pair(fp8, step); };
  EXPECT_THAT(seen.steps, ElementsAre(in(false, 10), in(false, 11), in(true, 10), in(true, 11), in(false, 10),
                                      in(true, 10), in(true, 11), in(false, 11), in(false, 12), in(true, 12)));
}

TEST(PrecisionProbe, KeepsBf16AtAHigherLoss) {
  const Seen seen = probe(0.1, 2.1);
  EXPECT_FALSE(seen.chosen.fp8);
  EXPECT_FALSE(seen.fp8);
  EXPECT_TRUE(seen.restored);
  EXPECT_THAT(seen.chosen.reason, HasSubstr("loss +5.00 %"));
}

TEST(PrecisionProbe, IsCutOffWhenTheJobIsAskedToEndOnAnyRank) {
  const Seen seen = probe(0.001, 2.0, 3);
  EXPECT_FALSE(seen.chosen.fp8);
  EXPECT_TRUE(seen.restored);
  EXPECT_EQ(seen.steps.size(), 4);
  EXPECT_THAT(seen.chosen.reason, HasSubstr("cut off"));
}

}  // namespace
}  // namespace lowgear::trainer
