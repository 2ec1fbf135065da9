#include "server/job/job_targets.h"

#include <gtest/gtest.h>

#include "server/simulated_job.h"

namespace lowgear::server {
namespace {

TEST(JobTargets, AnswersWhatIsSetAlreadyWithTheDecisionThatHasSetIt) {
  JobTargets targets(small_job(2));
  const api::PowerCap limit{.watts = 300};
  const JobTargets::Change first = targets.set_power_cap(limit);
  EXPECT_EQ(first.set_by, 0);
  targets.note(first, 7);
  EXPECT_EQ(targets.set_power_cap(limit).set_by, 7);
  const JobTargets::Change none = targets.set_power_cap({});
  EXPECT_EQ(none.set_by, 0);
  EXPECT_EQ(none.reason, "no power cap");
  EXPECT_FALSE(targets.power_cap());
}

TEST(JobTargets, MakesADecisionOfDefaultsThatWereSetByNone) {
  const protocol::JobSpec spec = small_job(2);
  JobTargets targets(spec);
  const JobTargets::Change change = targets.set_settings(spec.slowdown_pct, {});
  EXPECT_EQ(change.set_by, 0);
  targets.note(change, 3);
  EXPECT_EQ(targets.set_settings(spec.slowdown_pct, spec.guard_pct).set_by, 3);
  EXPECT_EQ(targets.set_settings({}, spec.guard_pct + 1).set_by, 0);
}

TEST(JobTargets, KnowsStragglersByRank) {
  JobTargets targets(small_job(2));
  targets.note(targets.set_straggler(1, 1.5, false), 1);
  EXPECT_EQ(targets.set_straggler(1, 1.5, false).set_by, 1);
  EXPECT_EQ(targets.set_straggler(0, 1.5, false).set_by, 0);
  const JobTargets::Change gone = targets.set_straggler(1, 1, false);
  EXPECT_EQ(gone.set_by, 0);
  targets.note(gone, 2);
  EXPECT_FALSE(targets.slow().contains(1));
  EXPECT_EQ(targets.set_straggler(1, 1, false).set_by, 2);
  EXPECT_EQ(targets.set_straggler(1, 1, true).set_by, 0);  // its reports say otherwise
}

TEST(JobTargets, AllowWhatASignalAllowsWhereThatIsMore) {
  protocol::JobSpec spec = small_job(2);
  spec.slowdown_pct = 3;
  spec.guard_pct = 2;
  JobTargets targets(spec);
  EXPECT_EQ(targets.guard_limit_pct(), 5);
  EXPECT_TRUE(targets.set_signal(10));
  EXPECT_FALSE(targets.set_signal(10));
  EXPECT_EQ(targets.allowed_slowdown_pct(), 10);
  EXPECT_EQ(targets.guard_limit_pct(), 12);
  EXPECT_EQ(targets.slowdown_pct(), 3);
  EXPECT_TRUE(targets.set_signal(1));
  EXPECT_EQ(targets.allowed_slowdown_pct(), 3);
}

TEST(JobTargets, AreStoredAndRestored) {
  JobTargets targets(small_job(2));
  targets.note(targets.set_power_cap(api::PowerCap{.scope = api::CapScope::node, .swing_w = 50}), 1);
  targets.note(targets.set_straggler(1, 1.5, false), 2);
  targets.note(targets.set_settings(7, 8), 3);
  Json state;
  targets.write_state(state);
  JobTargets restored(small_job(2));
  restored.restore(JsonView(state, "state"));
  Json again;
  restored.write_state(again);
  EXPECT_EQ(again.dump(), state.dump());
  EXPECT_EQ(restored.set_straggler(1, 1.5, false).set_by, 2);
  state.erase("set_by");  // of an older server
  JobTargets older(small_job(2));
  older.restore(JsonView(state, "state"));
  EXPECT_EQ(older.set_settings(7, 8).set_by, 0);
}

}  // namespace
}  // namespace lowgear::server
