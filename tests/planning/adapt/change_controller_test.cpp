#include "planning/adapt/change_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/core/error_of.h"
#include "planning/adapt/changing_job.h"

namespace lowgear::adapt {

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void iterate(ChangingJob& job, ChangeController& controller, int iterations) {
  for (int i = 0; i < iterations; ++i) job.iterate(controller);
}

/// Kind and action of each decision, without drops.
std::vector<std::string> changes(const ChangingJob& job) {
  std::vector<std::string> texts;
  for (const ChangeDecision& decision : job.decisions) {
    if (decision.action == ChangeAction::drop) continue;
    texts.push_back(std::string(name(decision.kind)) + " " + std::string(name(decision.action)));
  }
  return texts;
}

const ChangeDecision& last_of(const ChangingJob& job, ChangeAction action) {
  const auto found = std::find_if(job.decisions.rbegin(), job.decisions.rend(),
                                  [&](const ChangeDecision& decision) { return decision.action == action; });
  EXPECT_NE(found, job.decisions.rend()) << name(action);
  return *found;
}

TEST(ChangeController, AdoptsThePointThatIsShownToSaveEnergyWithinTheBound) {
  ChangingJob job;
  job.has_windows = false;
  ChangeController controller(slowdown_options());
  iterate(job, controller, 200);
  EXPECT_EQ(controller.current(), (Configuration{0, 1}));
  EXPECT_EQ(controller.last_good(), controller.current());
  EXPECT_THAT(changes(job), ElementsAre("slowdown try", "slowdown adopt"));
  EXPECT_THAT(last_of(job, ChangeAction::adopt).reason,
              testing::AllOf(HasSubstr("low: -9.89 % energy"), HasSubstr("interval of the energy: -10.")));
  EXPECT_THAT(last_of(job, ChangeAction::drop).reason, HasSubstr("slow is 19.97 % slower than full"));
}

TEST(ChangeController, StaysAtFullSpeedWhereNoPointIsShownToSave) {
  ChangingJob job;
  job.has_windows = false;
  job.point_energies = {1, 1, 1};
  job.point_times = {1, 1, 1};
  job.noise = 0.01;
  ChangeController controller(slowdown_options());
  iterate(job, controller, 400);
  EXPECT_THAT(changes(job), ElementsAre("slowdown try", "slowdown reject"));
  EXPECT_EQ(controller.current(), Configuration{});
  EXPECT_THAT(job.decisions.back().reason, HasSubstr("no point is shown to save energy"));
}

TEST(ChangeController, SaysThatEveryOtherPointIsTooSlow) {
  ChangingJob job;
  job.has_windows = false;
  job.point_energies = {1, 0.8, 0.7};
  job.point_times = {1, 1.2, 1.4};
  ChangeController controller(slowdown_options());
  iterate(job, controller, 400);
  EXPECT_EQ(controller.current(), Configuration{});
  EXPECT_EQ(job.decisions.front().reason, "3 operating points");
  EXPECT_THAT(last_of(job, ChangeAction::reject).reason,
              testing::AllOf(testing::StartsWith("every other point is too slow: low is "),
                             HasSubstr(" % is allowed; trying cost "), HasSubstr(" and saved ")));
}

TEST(ChangeController, AdoptsAFrozenBlockAfterTurnsWithAndWithoutItAndALossTest) {
  ChangingJob job;
  ChangeController controller(freezing_options());
  iterate(job, controller, 200);
  EXPECT_EQ(controller.current().frozen_blocks, 2) << "the cap";
  EXPECT_THAT(changes(job), ElementsAre("freezing try", "freezing try", "freezing adopt", "freezing try",
                                        "freezing try", "freezing adopt"));
  EXPECT_THAT(job.decisions[1].reason, HasSubstr("1 frozen block: -4.98 % energy"));
  EXPECT_THAT(job.decisions[1].reason, HasSubstr("next is the loss test"));
  // ABBA in blocks of three iterations of 10 s, each after one to settle.
  const auto first = job.decisions.front().steps_done;
  std::vector<std::int64_t> blocks;
  for (std::int64_t i = first; i < first + 30; ++i) {
    blocks.push_back(job.configurations[static_cast<std::size_t>(i)].frozen_blocks);
  }
  EXPECT_THAT(blocks, Contains(0));
  EXPECT_THAT(blocks, Contains(1));
}

TEST(ChangeController, UndoesAFrozenBlockThatSavesNothingAndTriesItLaterEachTime) {
  ChangingJob job;
  job.block_energy = 1;
  ChangeController controller(freezing_options());
  iterate(job, controller, 3000);
  EXPECT_EQ(controller.current().frozen_blocks, 0);
  std::vector<std::int64_t> attempts;
  for (const ChangeDecision& decision : job.decisions) {
    EXPECT_NE(decision.action, ChangeAction::adopt);
    if (decision.action == ChangeAction::attempt) attempts.push_back(decision.steps_done);
  }
  ASSERT_GE(attempts.size(), 3U);
  EXPECT_GT(attempts[2] - attempts[1], attempts[1] - attempts[0]);
  EXPECT_THAT(last_of(job, ChangeAction::reject).reason, HasSubstr("no gain is shown"));
}

TEST(ChangeController, DoesNotAdoptAFrozenBlockThatFailsTheLossTest) {
  ChangingJob job;
  job.held_out = [](const Configuration& now) { return now.frozen_blocks > 0 ? 2.1 : 2.0; };
  ChangeController controller(freezing_options());
  iterate(job, controller, 400);
  EXPECT_THAT(changes(job), testing::Not(Contains("freezing adopt")));
  EXPECT_THAT(changes(job), Contains("freezing cut off"));
  EXPECT_EQ(controller.last_good().frozen_blocks, 0);
  EXPECT_THAT(last_of(job, ChangeAction::cut_off).reason, HasSubstr("held-out loss of 2.10000 exceeds"));
}

TEST(ChangeController, FreezingWaitsForASearchAndASearchFollowsFreezing) {
  ChangingJob job;
  ChangeController controller(both_options());
  iterate(job, controller, 600);
  EXPECT_EQ(controller.current(), (Configuration{2, 1}));
  EXPECT_THAT(changes(job),
              ElementsAre("slowdown try", "freezing wait", "slowdown adopt", "freezing try", "freezing try",
                          "freezing adopt", "slowdown try", "freezing wait", "slowdown adopt", "freezing try",
                          "freezing try", "freezing adopt", "slowdown try", "slowdown adopt"));
}

TEST(ChangeController, ChangesOneThingAtATime) {
  ChangingJob job;
  ChangeController controller(both_options());
  Configuration good = controller.last_good();
  for (int i = 0; i < 600; ++i) {
    const Configuration now = controller.current();
    EXPECT_FALSE(now.frozen_blocks != good.frozen_blocks && now.point != good.point) << i;
    job.iterate(controller);
    good = controller.last_good();
  }
}

TEST(ChangeController, WhatIsCutOffEndsInTheLastGoodConfiguration) {
  for (const bool switches : {true, false}) {
    ChangingJob job;
    ChangeController controller(both_options());
    while (!controller.last_good().frozen_blocks) job.iterate(controller);
    const Configuration good = controller.last_good();
    EXPECT_EQ(good, (Configuration{1, 1}));
    while (controller.current() == good) job.iterate(controller);
    job.broken = [&](IterationSeen& seen) {
      if (switches) seen.energy_j = kMissing;
      if (!switches) seen.switched = false;
    };
    iterate(job, controller, switches ? 20 : 1);
    EXPECT_EQ(controller.current(), good);
    EXPECT_THAT(last_of(job, ChangeAction::cut_off).reason,
                HasSubstr(switches ? "20 iterations in a row had no time or energy" : "could not switch"));
  }
}

TEST(ChangeController, AMissingHeldOutLossCutsATrialOff) {
  ChangingJob job;
  ChangeController controller(freezing_options());
  while (controller.current().frozen_blocks == 0) job.iterate(controller);
  job.held_out = [](const Configuration&) { return kMissing; };
  iterate(job, controller, 11);
  EXPECT_EQ(controller.current(), Configuration{});
  EXPECT_THAT(changes(job).back(), "freezing cut off");
  iterate(job, controller, 200);
  EXPECT_THAT(changes(job).back(), "freezing cut off") << "nothing is tried without it";
}

TEST(ChangeController, UnfreezingDoesNotWait) {
  ChangingJob job;
  ChangeController controller(both_options());
  while (!controller.last_good().frozen_blocks) job.iterate(controller);
  iterate(job, controller, 2);  // the search for the job with a frozen block
  job.held_out = [](const Configuration& now) { return now.frozen_blocks > 0 ? 2.1 : 2.0; };
  const std::size_t before = job.decisions.size();
  iterate(job, controller, 20);
  EXPECT_EQ(controller.last_good().frozen_blocks, 0);
  ASSERT_GE(job.decisions.size(), before + 3);
  EXPECT_THAT(changes(job), Contains("slowdown cut off"));
  EXPECT_THAT(changes(job), Contains("freezing undo"));
  EXPECT_EQ(changes(job).back(), "slowdown try") << "the work has changed again";
}

TEST(ChangeController, AStateDoesNotContainWhatIsBeingTried) {
  ChangingJob job;
  ChangeController controller(both_options());
  std::set<bool> kinds;
  for (int i = 0; i < 600; ++i) {
    job.iterate(controller);
    const ChangeState state = controller.state();
    const ChangeController continued(both_options(), state);
    EXPECT_EQ(continued.current(), controller.last_good());
    EXPECT_EQ(continued.last_good(), controller.last_good());
    kinds.insert(controller.current() == controller.last_good());
  }
  EXPECT_EQ(kinds.size(), 2U) << "nothing was tried when a state was taken";
}

TEST(ChangeController, RefusesWhatCannotBe) {
  const auto error = [](const ChangeOptions& options, const ChangeState& state) {
    return error_of([&] { (void)ChangeController(options, state); });
  };
  EXPECT_THAT(error({}, {}), HasSubstr("neither operating points nor freezing is configured"));
  ChangeOptions one = slowdown_options();
  one.points = {"full"};
  EXPECT_THAT(error(one, {}), HasSubstr("1 operating points; give 2"));
  EXPECT_THAT(error(slowdown_options(), {.good = {0, 3}, .freezing = {}}), HasSubstr("point 3"));
  EXPECT_THAT(error(slowdown_options(), {.good = {1, 0}, .freezing = {}}), HasSubstr("1 frozen block"));
  EXPECT_THAT(error(freezing_options(), {.good = {1, 0}, .freezing = {}}),
              HasSubstr("two different numbers of frozen blocks"));
}

TEST(ChangeController, FreezesAtOnceWhereNoTrialIsAskedFor) {
  ChangingJob job;
  ChangeOptions options = both_options();
  options.freezing->tried = false;
  ChangeController controller(options);
  iterate(job, controller, 600);
  const std::vector<std::string> all = changes(job);
  EXPECT_THAT(all, Contains("freezing adopt").Times(2)) << "the cap";
  EXPECT_THAT(all, testing::Not(Contains("freezing try")));
  EXPECT_EQ(controller.last_good().frozen_blocks, 2);
  EXPECT_THAT(all, Contains("slowdown try").Times(testing::Ge(2))) << "a search follows";
}

}  // namespace

}  // namespace lowgear::adapt
