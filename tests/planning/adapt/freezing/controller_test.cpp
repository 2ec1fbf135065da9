#include "planning/adapt/freezing/controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/core/error.h"

namespace lowgear::adapt::freezing {

namespace {

using testing::HasSubstr;

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// Two windows between changes, and one of steadiness.
Options quick() {
  return {.cap = 0.5, .dwell_windows = 2, .steady_windows = 1, .steady_drift = 0.1, .loss_margin = 0.01};
}

/// Fine-tuning of 8 blocks in which the first ones change least: the gradient of block b changes by b % a window, and
/// drifts in proportion to b + 1.
class Calm {
 public:
  Observation next() {
    Observation seen{.steps_done = 100 * ++window_,
                     .warming_up = false,
                     .learning_rate = 1e-4,
                     .held_out_loss = 2.0 - 0.001 * window_};
    for (int block = 0; block < 8; ++block) {
      seen.gradients.push_back(std::pow(1 + 0.01 * block, window_));
      seen.drifts.push_back(0.1 * (block + 1));
    }
    return seen;
  }

 private:
  int window_ = 0;
};

/// Until so many blocks are frozen.
Controller frozen_to(std::int64_t blocks, Calm& calm) {
  Controller controller(8, quick());
  for (int window = 0; window < 50 && controller.state().blocks < blocks; ++window)
    (void)controller.observe(calm.next());
  EXPECT_EQ(controller.state().blocks, blocks);
  return controller;
}

TEST(FreezingController, FreezesOneCalmBlockAfterAnotherUpToItsCap) {
  Calm calm;
  Controller controller(8, quick());
  std::vector<std::int64_t> blocks;
  for (int window = 0; window < 12; ++window) blocks.push_back(controller.observe(calm.next()).blocks);
  EXPECT_THAT(blocks, testing::ElementsAre(0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 4, 4));
  EXPECT_THAT(controller.observe(calm.next()).reason, HasSubstr("cap of 4 frozen blocks is reached"));
}

TEST(FreezingController, NeverFreezesABlockThatChangesOrDriftsMoreThanHalfOfTheOthers) {
  for (const bool gradient : {true, false}) {
    Calm calm;
    Controller controller(8, quick());
    Decision decision;
    for (int window = 0; window < 20; ++window) {
      Observation seen = calm.next();
      if (gradient) seen.gradients[0] = std::pow(1.05, window);
      if (!gradient) seen.drifts[0] = 0.55;
      decision = controller.observe(seen);
      EXPECT_EQ(decision.blocks, 0);
    }
    EXPECT_THAT(decision.reason, HasSubstr(gradient ? "more change than half" : "more drift than half"));
  }
}

TEST(FreezingController, WaitsUntilTheDriftIsSteady) {
  Options options = quick();
  options.steady_windows = 3;
  Calm calm;
  Controller controller(8, options);
  double drift = 0.001;
  for (int window = 0; window < 10; ++window) {
    Observation seen = calm.next();
    seen.drifts[0] = drift *= 1.3;
    EXPECT_EQ(controller.observe(seen).blocks, 0) << window;
  }
  std::vector<std::int64_t> blocks;
  for (int window = 0; window < 3; ++window) {
    Observation seen = calm.next();
    seen.drifts[0] = drift;
    blocks.push_back(controller.observe(seen).blocks);
  }
  EXPECT_THAT(blocks, testing::ElementsAre(0, 0, 1));
}

TEST(FreezingController, DoesNothingInTheWarmUp) {
  Calm calm;
  Controller controller(8, quick());
  for (int window = 0; window < 10; ++window) {
    Observation seen = calm.next();
    seen.warming_up = true;
    seen.learning_rate = 1e-5 * (window + 1);
    EXPECT_EQ(controller.observe(seen).reason, "warm-up");
  }
  EXPECT_EQ(controller.observe(calm.next()).change, Change::freeze);
}

TEST(FreezingController, UnfreezesWhenTheHeldOutLossExceedsItsPredictionTwice) {
  Calm calm;
  Controller controller = frozen_to(3, calm);
  Observation worse = calm.next();
  worse.held_out_loss *= 1.02;
  EXPECT_EQ(controller.observe(worse).change, Change::none);
  EXPECT_NE(Controller(controller).observe(calm.next()).change, Change::unfreeze) << "it has recovered";
  worse = calm.next();
  worse.held_out_loss *= 1.02;
  const Decision decision = controller.observe(worse);
  EXPECT_EQ(decision.change, Change::unfreeze);
  EXPECT_EQ(decision.blocks, 2);
  EXPECT_THAT(decision.reason, HasSubstr("2 windows in a row"));
  // Twice as long as before until it tries again.
  std::vector<std::int64_t> blocks;
  for (int window = 0; window < 4; ++window) blocks.push_back(controller.observe(calm.next()).blocks);
  EXPECT_THAT(blocks, testing::ElementsAre(2, 2, 2, 3));
}

TEST(FreezingController, UnfreezesWhenTheLearningRateRises) {
  Calm calm;
  Controller controller = frozen_to(2, calm);
  Observation seen = calm.next();
  seen.learning_rate = 2e-4;
  const Decision decision = controller.observe(seen);
  EXPECT_EQ(decision.blocks, 1);
  EXPECT_EQ(decision.reason, "the learning rate rises from 0.0001 to 0.0002");
}

TEST(FreezingController, GoesBackToTheLastGoodConfigurationWhenANumberIsMissing) {
  for (const bool loss : {true, false}) {
    Calm calm;
    Controller controller = frozen_to(2, calm);
    Observation broken = calm.next();
    (loss ? broken.held_out_loss : broken.gradients[5]) = kMissing;
    EXPECT_EQ(controller.observe(broken).blocks, 1);
    EXPECT_EQ(controller.observe(broken).blocks, 1) << "that one was good";
  }
}

TEST(FreezingController, NeedsNoNumbersOfFrozenBlocks) {
  Calm calm;
  Controller controller = frozen_to(2, calm);
  Decision decision;
  for (int window = 0; window < 2; ++window) {
    Observation seen = calm.next();
    for (int block = 0; block < 2; ++block) seen.gradients[block] = seen.drifts[block] = kMissing;
    decision = controller.observe(seen);
  }
  EXPECT_EQ(decision.blocks, 3);
}

TEST(FreezingController, ContinuesFromItsState) {
  Calm calm;
  Controller controller(8, quick());
  for (int window = 0; window < 10; ++window) {
    Controller other(8, quick(), controller.state());
    const Observation seen = calm.next();
    EXPECT_EQ(other.observe(seen), controller.observe(seen));
    EXPECT_EQ(other.state(), controller.state());
  }
}

TEST(FreezingController, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Controller(0, quick()), InputError);
  Options options = quick();
  options.cap = 1;
  EXPECT_THROW(Controller(8, options), InputError);
  Calm calm;
  Controller controller(8, quick());
  (void)controller.observe(calm.next());
  Observation few = calm.next();
  few.drifts.pop_back();
  const State before = controller.state();
  EXPECT_THROW((void)controller.observe(few), InputError);
  EXPECT_EQ(controller.state(), before);
  EXPECT_THROW(Controller(7, quick(), before), InputError);
}

TEST(FreezingController, WaitsWhileAnotherChangeIsUnderWay) {
  Calm calm;
  Controller controller(8, quick());
  Decision decision;
  for (int window = 0; window < 5; ++window) {
    Observation seen = calm.next();
    seen.hold = true;
    decision = controller.observe(seen);
    EXPECT_EQ(decision.blocks, 0);
  }
  EXPECT_EQ(decision.change, Change::wait);
  EXPECT_THAT(decision.reason, HasSubstr("waits until another change is over"));
  EXPECT_EQ(controller.observe(calm.next()).change, Change::freeze) << "it knew all that it needed";
}

TEST(FreezingController, UndoesAFreezingForAnotherReasonAndWaitsLongerThen) {
  Calm calm;
  Controller controller = frozen_to(2, calm);
  EXPECT_EQ(controller.undo(700, "it saved nothing"), (Decision{700, 1, Change::unfreeze, "it saved nothing"}));
  EXPECT_EQ(controller.state().blocks, 1);
  EXPECT_EQ(controller.state().unfreezings, 1);
  (void)controller.undo(700, "");
  EXPECT_THROW((void)controller.undo(700, ""), InputError);
}

TEST(FreezingController, WhatIsConfirmedIsNotUndoneForAMissingNumber) {
  for (const bool confirmed : {false, true}) {
    Calm calm;
    Controller controller = frozen_to(1, calm);
    if (confirmed) controller.confirm();
    Observation seen = calm.next();
    seen.held_out_loss = kMissing;
    EXPECT_EQ(controller.observe(seen).blocks, confirmed ? 1 : 0);
  }
}

}  // namespace

}  // namespace lowgear::adapt::freezing
