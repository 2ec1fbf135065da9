#include "planning/adapt/techniques/technique_controller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/core/error_of.h"
#include "planning/adapt/techniques/technique_job.h"

namespace lowgear::adapt {

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void iterate(TechniqueJob& job, TechniqueController& controller, int iterations) {
  for (int i = 0; i < iterations; ++i) job.iterate(controller);
}

/// Technique and change of each decision, without drops.
std::vector<std::string> changes(const TechniqueJob& job) {
  std::vector<std::string> texts;
  for (const TechniqueDecision& decision : job.decisions) {
    if (decision.change == TechniqueChange::drop) continue;
    texts.push_back(std::string(name(decision.technique)) + " " + std::string(name(decision.change)));
  }
  return texts;
}

const TechniqueDecision& last_of(const TechniqueJob& job, TechniqueChange change) {
  const auto found = std::find_if(job.decisions.rbegin(), job.decisions.rend(),
                                  [&](const TechniqueDecision& decision) { return decision.change == change; });
  EXPECT_NE(found, job.decisions.rend()) << name(change);
  return *found;
}

TEST(TechniqueController, AdoptsThePointThatIsShownToSaveEnergyWithinTheBound) {
  TechniqueJob job;
  job.has_windows = false;
  TechniqueController controller(slowdown_options());
  iterate(job, controller, 200);
  EXPECT_EQ(controller.current(), (Configuration{0, 1}));
  EXPECT_EQ(controller.last_good(), controller.current());
  EXPECT_THAT(changes(job), ElementsAre("slowdown try", "slowdown adopt"));
  EXPECT_THAT(last_of(job, TechniqueChange::adopt).reason,
              testing::AllOf(HasSubstr("low: -9.89 % energy"), HasSubstr("interval of the energy: -10.")));
  EXPECT_THAT(last_of(job, TechniqueChange::drop).reason, HasSubstr("slow is 19.97 % slower than full"));
}

TEST(TechniqueController, StaysAtFullSpeedWhereNoPointIsShownToSave) {
  TechniqueJob job;
  job.has_windows = false;
  job.point_energies = {1, 1, 1};
  job.point_times = {1, 1, 1};
  job.noise = 0.01;
  TechniqueController controller(slowdown_options());
  iterate(job, controller, 400);
  EXPECT_THAT(changes(job), ElementsAre("slowdown try", "slowdown reject"));
  EXPECT_EQ(controller.current(), Configuration{});
  EXPECT_THAT(job.decisions.back().reason, HasSubstr("no point is shown to save energy"));
}

TEST(TechniqueController, AdoptsAFrozenBlockAfterTurnsWithAndWithoutItAndALossTest) {
  TechniqueJob job;
  TechniqueController controller(freezing_options());
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

TEST(TechniqueController, UndoesAFrozenBlockThatSavesNothingAndTriesItLaterEachTime) {
  TechniqueJob job;
  job.block_energy = 1;
  TechniqueController controller(freezing_options());
  iterate(job, controller, 3000);
  EXPECT_EQ(controller.current().frozen_blocks, 0);
  std::vector<std::int64_t> attempts;
  for (const TechniqueDecision& decision : job.decisions) {
    EXPECT_NE(decision.change, TechniqueChange::adopt);
    if (decision.change == TechniqueChange::attempt) attempts.push_back(decision.steps_done);
  }
  ASSERT_GE(attempts.size(), 3U);
  EXPECT_GT(attempts[2] - attempts[1], attempts[1] - attempts[0]);
  EXPECT_THAT(last_of(job, TechniqueChange::reject).reason, HasSubstr("no gain is shown"));
}

TEST(TechniqueController, DoesNotAdoptAFrozenBlockThatFailsTheLossTest) {
  TechniqueJob job;
  job.held_out = [](const Configuration& now) { return now.frozen_blocks > 0 ? 2.1 : 2.0; };
  TechniqueController controller(freezing_options());
  iterate(job, controller, 400);
  EXPECT_THAT(changes(job), testing::Not(Contains("freezing adopt")));
  EXPECT_THAT(changes(job), Contains("freezing cut off"));
  EXPECT_EQ(controller.last_good().frozen_blocks, 0);
  EXPECT_THAT(last_of(job, TechniqueChange::cut_off).reason, HasSubstr("held-out loss of 2.10000 exceeds"));
}

TEST(TechniqueController, FreezingWaitsForASearchAndASearchFollowsFreezing) {
  TechniqueJob job;
  TechniqueController controller(both_options());
  iterate(job, controller, 600);
  EXPECT_EQ(controller.current(), (Configuration{2, 1}));
  EXPECT_THAT(changes(job),
              ElementsAre("slowdown try", "freezing wait", "slowdown adopt", "freezing try", "freezing try",
                          "freezing adopt", "slowdown try", "freezing wait", "slowdown adopt", "freezing try",
                          "freezing try", "freezing adopt", "slowdown try", "slowdown adopt"));
}

TEST(TechniqueController, ChangesOneThingAtATime) {
  TechniqueJob job;
  TechniqueController controller(both_options());
  Configuration good = controller.last_good();
  for (int i = 0; i < 600; ++i) {
    const Configuration now = controller.current();
    EXPECT_FALSE(now.frozen_blocks != good.frozen_blocks && now.point != good.point) << i;
    job.iterate(controller);
    good = controller.last_good();
  }
}

TEST(TechniqueController, WhatIsCutOffEndsInTheLastGoodConfiguration) {
  for (const bool switches : {true, false}) {
    TechniqueJob job;
    TechniqueController controller(both_options());
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
    EXPECT_THAT(last_of(job, TechniqueChange::cut_off).reason,
                HasSubstr(switches ? "20 iterations in a row had no time or energy" : "could not switch"));
  }
}

TEST(TechniqueController, AMissingHeldOutLossCutsATrialOff) {
  TechniqueJob job;
  TechniqueController controller(freezing_options());
  while (controller.current().frozen_blocks == 0) job.iterate(controller);
  job.held_out = [](const Configuration&) { return kMissing; };
  iterate(job, controller, 11);
  EXPECT_EQ(controller.current(), Configuration{});
  EXPECT_THAT(changes(job).back(), "freezing cut off");
  iterate(job, controller, 200);
  EXPECT_THAT(changes(job).back(), "freezing cut off") << "nothing is tried without it";
}

TEST(TechniqueController, UnfreezingDoesNotWait) {
  TechniqueJob job;
  TechniqueController controller(both_options());
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

TEST(TechniqueController, AStateDoesNotContainWhatIsBeingTried) {
  TechniqueJob job;
  TechniqueController controller(both_options());
  std::set<bool> kinds;
  for (int i = 0; i < 600; ++i) {
    job.iterate(controller);
    const TechniqueState state = controller.state();
    const TechniqueController continued(both_options(), state);
    EXPECT_EQ(continued.current(), controller.last_good());
    EXPECT_EQ(continued.last_good(), controller.last_good());
    kinds.insert(controller.current() == controller.last_good());
  }
  EXPECT_EQ(kinds.size(), 2U) << "nothing was tried when a state was taken";
}

TEST(TechniqueController, RefusesWhatCannotBe) {
  const auto error = [](const TechniqueOptions& options, const TechniqueState& state) {
    return error_of([&] { (void)TechniqueController(options, state); });
  };
  EXPECT_THAT(error({}, {}), HasSubstr("there is none"));
  TechniqueOptions one = slowdown_options();
  one.points = {"full"};
  EXPECT_THAT(error(one, {}), HasSubstr("1 points; give 2"));
  EXPECT_THAT(error(slowdown_options(), {.good = {0, 3}, .freezing = {}}), HasSubstr("point 3"));
  EXPECT_THAT(error(slowdown_options(), {.good = {1, 0}, .freezing = {}}), HasSubstr("1 frozen block"));
  EXPECT_THAT(error(freezing_options(), {.good = {1, 0}, .freezing = {}}), HasSubstr("two numbers of frozen blocks"));
}

using ::testing::HasSubstr;

/// A run that was continued once, with all that may happen in one.
std::string recorded(unsigned seed) {
  TechniqueJob job;
  job.random.seed(seed);
  job.noise = 0.004;
  job.held_out = [&](const Configuration& now) {
    if (job.steps_done % 70 == 0) return kMissing;
    return 2.0 + (now.frozen_blocks > 1 ? 0.03 : 0);
  };
  job.broken = [&](IterationSeen& seen) {
    if (job.steps_done % 13 == 0) seen.energy_j = kMissing;
    if (job.steps_done == 200 + static_cast<int>(seed)) seen.switched = false;
  };
  std::string text;
  TechniqueState state;
  for (int run = 0; run < 2; ++run) {
    TechniqueController controller(both_options(), state);
    text += write_technique_header(both_options(), state, job.steps_done) + "\n";
    job.text.clear();
    for (int i = 0; i < 400; ++i) job.iterate(controller);
    text += job.text;
    const Json document = technique_state_json(controller.state());
    state = technique_state_of(JsonView(document, "state"));
    EXPECT_EQ(technique_state_json(state), document) << "what is missing is not equal to itself, but as null";
  }
  return text;
}

TEST(TechniqueRecord, ReplaysToTheSameDecisionsBitForBit) {
  std::size_t decisions = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const std::vector<TechniqueRecord> records = read_technique_records(recorded(seed), "log");
    ASSERT_EQ(records.size(), 2U);
    for (const TechniqueRecord& record : records) {
      const std::vector<std::vector<TechniqueDecision>> replayed = replay(record);
      ASSERT_EQ(replayed.size(), record.steps.size());
      for (std::size_t step = 0; step < replayed.size(); ++step) {
        EXPECT_EQ(replayed[step], record.steps[step].decisions) << step;
        decisions += replayed[step].size();
      }
    }
  }
  EXPECT_GT(decisions, 100U);
}

TEST(TechniqueRecord, NamesTheLineThatIsWrong) {
  const std::string text = recorded(1);
  const auto error = [](const std::string& lines) {
    return error_of([&] { (void)read_technique_records(lines, "log"); });
  };
  EXPECT_THAT(error(text.substr(text.find('\n') + 1)), HasSubstr("log:1: $: the first line is no header"));
  EXPECT_THAT(error(text + "{}\n"), HasSubstr("log:803: $: the member \"iteration\" is missing"));
  std::string wrong = text;
  wrong.replace(wrong.find("techniques/1"), 12, "techniques/9");
  EXPECT_THAT(error(wrong), HasSubstr("lowgear.techniques/9"));
  wrong = text;
  wrong.replace(wrong.find("\"adopt\""), 7, "\"allow\"");
  EXPECT_THAT(error(wrong), HasSubstr("\"allow\" is unknown"));
}

}  // namespace

}  // namespace lowgear::adapt
