#include "planning/planner/policies/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"

namespace lowgear::planner {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

PolicyTable with_coarse_policy() {
  return PolicyTable({{.name = "coarse",
                       .make =
                           [] {
                             return std::make_unique<LowgearPolicy>(
                                 PlannerOptions{.granularity = PlanGranularity::per_stage_kind});
                           },
                       .solves_frontier = true}});
}

TEST(PolicyTable, HasItsOwnPoliciesAroundThoseThatAProgramPasses) {
  EXPECT_THAT(PolicyTable().names(), ElementsAre("max", "lowgear"));
  EXPECT_THAT(with_coarse_policy().names(), ElementsAre("max", "coarse", "lowgear"));
  EXPECT_THAT(with_coarse_policy().other_names(), ElementsAre("max", "coarse"));
  EXPECT_THAT(with_coarse_policy().other_names(false), ElementsAre("max"));
}

TEST(PolicyTable, NamesThePoliciesThatExist) {
  EXPECT_EQ(error_of([&] { (void)with_coarse_policy().make("corse"); }),
            "no policy is called \"corse\"; did you mean coarse? there are max, coarse, lowgear");
}

class LowgearPolicyTest : public testing::Test {
 protected:
  [[nodiscard]] PolicyPlan plan(std::optional<double> deadline_s) const {
    return PolicyTable().make("lowgear")->plan(sample_.problem(), deadline_s);
  }
  [[nodiscard]] simulator::Timeline replayed(const PolicyPlan& plan) const {
    return replay_clocks(sample_.problem(), plan.clocks_mhz);
  }

  SampleProblem sample_ = four_stages(8);
  double fastest_s_ = replay_clocks(sample_.problem(), max_clocks_mhz(sample_.problem())).time_s;
};

TEST_F(LowgearPolicyTest, LosesNoTimeWithoutADeadline) {
  const simulator::Timeline timeline = replayed(plan(std::nullopt));
  EXPECT_LE(timeline.time_s, fastest_s_ * (1 + 1e-12));
  EXPECT_LT(timeline.energy_j_total,
            replay_clocks(sample_.problem(), max_clocks_mhz(sample_.problem())).energy_j_total);
}

TEST_F(LowgearPolicyTest, UsesLessTheLaterTheDeadline) {
  double before_j = replayed(plan(std::nullopt)).energy_j_total;
  for (const double slowdown : {1.03, 1.1, 1.2}) {
    const simulator::Timeline timeline = replayed(plan(slowdown * fastest_s_));
    EXPECT_LE(timeline.time_s, slowdown * fastest_s_);
    EXPECT_LT(timeline.energy_j_total, before_j);
    before_j = timeline.energy_j_total;
  }
}

TEST_F(LowgearPolicyTest, BelievesWhatAReplayShows) {
  const PolicyPlan found = plan(1.1 * fastest_s_);
  const simulator::Timeline timeline = replayed(found);
  EXPECT_FALSE(found.schedule.has_value()) << "runs the schedule that it was given";
  EXPECT_DOUBLE_EQ(found.own_time_s.value(), timeline.time_s);
  EXPECT_DOUBLE_EQ(found.own_energy_j.value(), timeline.energy_j_total);
  EXPECT_THAT(found.note, HasSubstr(" % above the least energy possible"));
}

TEST_F(LowgearPolicyTest, RefusesDeadlinesThatCannotBeKept) { EXPECT_THROW((void)plan(0.9 * fastest_s_), InputError); }

TEST_F(LowgearPolicyTest, PassesItsOptionsOn) {
  PlannerOptions options;
  options.granularity = PlanGranularity::per_stage_kind;
  const PolicyPlan coarse = LowgearPolicy(options).plan(sample_.problem(), 1.1 * fastest_s_);
  for (std::size_t a = 0; a < coarse.clocks_mhz.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const schedule::ComputeOp& op = sample_.dag().ops[a];
      const schedule::ComputeOp& other = sample_.dag().ops[b];
      const bool is_shared = op.stage == other.stage && op.kind == other.kind;
      EXPECT_TRUE(!is_shared || coarse.clocks_mhz[a] == coarse.clocks_mhz[b]);
    }
  }
}

TEST(MaxClock, RunsEverythingAtItsHighestClock) {
  profile::StageProfile profile(2);
  profile.add(0, OpKind::forward, {1410, 0.05, 15});
  profile.add(0, OpKind::backward, {1395, 0.10, 30});
  profile.add(1, OpKind::forward, {1200, 0.05, 15});
  profile.add(1, OpKind::forward, {1000, 0.06, 14});
  profile.add(1, OpKind::backward, {1200, 0.10, 30});
  const SampleProblem sample(schedule::one_f_one_b_schedule(2, 1), std::move(profile), 80);
  EXPECT_THAT(MaxClockPolicy().plan(sample.problem(), std::nullopt).clocks_mhz,
              testing::ElementsAre(1410, 1395, 1200, 1200));
  EXPECT_THAT(MaxClockPolicy().plan(sample.problem(), 1.0).note, HasSubstr("ignores the deadline"));
}

}  // namespace

}  // namespace lowgear::planner
