#include "client/agent/agent_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "base/core/eventually.h"
#include "base/core/temporary_folder.h"
#include "client/test_agent.h"

namespace lowgear::client {

namespace {

HeldPlan plan(std::uint64_t from_iteration, int version) {
  HeldPlan plan;
  plan.message.plan_json = "plan " + std::to_string(version);
  plan.from_iteration = from_iteration;
  plan.version = version;
  return plan;
}

TEST(HeldPlans, CountFromTheNextIterationWhenFollowedAtOnce) {
  HeldPlans plans;
  plans.follow_now(plan(0, 3), 5);
  EXPECT_TRUE(plans.followed());
  EXPECT_EQ(plans.version_of(4), 0) << "it began under no plan";
  EXPECT_EQ(plans.version_of(5), 3);
  EXPECT_EQ(plans.version_of(9), 3);
}

TEST(HeldPlans, BecomeCurrentOnceTheirIterationHasBegun) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  EXPECT_FALSE(plans.begin_next(7, true)) << "iterations 0 to 6 have begun";
  EXPECT_EQ(plans.current()->version, 1);
  EXPECT_TRUE(plans.begin_next(8, true));
  EXPECT_EQ(plans.current()->version, 2);
  EXPECT_FALSE(plans.begin_next(8, true)) << "nothing waits any more";
  EXPECT_EQ(plans.version_of(6), 1);
  EXPECT_EQ(plans.version_of(7), 2);
}

TEST(HeldPlans, AreReplacedByNewerOnesBeforeTheirIteration) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.follow_later(plan(9, 3), 6);
  EXPECT_EQ(plans.version_of(8), 1);
  EXPECT_EQ(plans.version_of(9), 3);
}

TEST(HeldPlans, CountAsNoneWhereTheAgentMayHaveBegunTheOneThatIsReplaced) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.follow_later(plan(9, 3), 8);
  EXPECT_EQ(plans.version_of(6), 1);
  EXPECT_EQ(plans.version_of(7), 0);
  EXPECT_EQ(plans.version_of(8), 0);
  EXPECT_EQ(plans.version_of(9), 3);
}

TEST(HeldPlans, StayForTheNextAgentAndCountNoLonger) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.lose_agent(6);
  EXPECT_FALSE(plans.followed());
  EXPECT_EQ(plans.version_of(4), 1);
  EXPECT_EQ(plans.version_of(5), 0) << "it was under way";
  EXPECT_EQ(plans.version_of(7), 0) << "no agent has it";
  ASSERT_TRUE(plans.current());
  EXPECT_EQ(plans.current()->message.plan_json, "plan 1");
  const std::optional<HeldPlan> waiting = plans.take_next();
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->version, 2);
  EXPECT_FALSE(plans.take_next());
}

HeldPlan plan_of_one_iteration(std::uint64_t iteration, std::uint32_t full_from) {
  HeldPlan made = plan(iteration, 0);
  made.message.trials = {{.first_iteration = full_from, .iterations = kUntilNextPlan, .clock_mhz = 1410}};
  return made;
}

TEST(HeldPlans, OfOneIterationCountForThatAlone) {
  HeldPlans plans;
  plans.follow_later(plan_of_one_iteration(5, 6), 5);
  EXPECT_TRUE(plans.followed_in(5));
  EXPECT_FALSE(plans.followed_in(6)) << "at full clocks";
  plans.follow_later(plan_of_one_iteration(7, 8), 6);
  EXPECT_TRUE(plans.followed_in(7));
  plans.follow_later(plan_of_one_iteration(8, 8), 8);
  EXPECT_FALSE(plans.followed_in(8)) << "a plan of full clocks";
  plans.lose_agent(8);
  EXPECT_FALSE(plans.followed_in(7));
}

TEST(HeldPlans, OfOneIterationAreNotHandedOverAgain) {
  HeldPlans plans;
  EXPECT_FALSE(plans.current_again());
  plans.follow_later(plan_of_one_iteration(5, 6), 5);
  ASSERT_TRUE(plans.begin_next(6, true));
  EXPECT_FALSE(plans.current_again()) << "the next iteration would have its clocks";
  HeldPlan tried = plan(7, 2);
  tried.message.trials = {{.first_iteration = 8, .iterations = 3, .clock_mhz = 1410}};
  plans.follow_later(tried, 6);
  ASSERT_TRUE(plans.begin_next(8, true));
  ASSERT_TRUE(plans.current_again());
  EXPECT_TRUE(plans.current_again()->message.trials.empty());
  EXPECT_EQ(plans.current_again()->version, 0);
}

TEST(HeldPlans, AreNotFollowedWhenTheyBeginWithoutAnAgent) {
  HeldPlans plans;
  plans.follow_later(plan(7, 2), 5);
  plans.lose_agent(6);
  EXPECT_TRUE(plans.begin_next(8, false));
  EXPECT_FALSE(plans.followed());
}

TEST(HeldPlans, LoseTheirVersionsWithTheServersJob) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.forget_versions(6);
  EXPECT_TRUE(plans.followed()) << "the clocks stay";
  EXPECT_EQ(plans.current()->version, 0);
  EXPECT_EQ(plans.version_of(5), 0);
  EXPECT_EQ(plans.version_of(8), 0);
  EXPECT_EQ(plans.take_next()->version, 0);
}

TEST(HeldPlans, AreForgotten) {
  HeldPlans plans;
  plans.follow_now(plan(0, 1), 0);
  plans.follow_later(plan(7, 2), 5);
  plans.forget();
  EXPECT_FALSE(plans.current());
  EXPECT_FALSE(plans.take_next());
  EXPECT_EQ(plans.version_of(3), 1) << "which was followed is still known";
}

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using Offer = AgentLease::Offer;

class AgentLeaseTest : public testing::Test {
 protected:
  void start_agent(TestAgentBehaviour behaviour = {}) {
    agent_.reset();  // or its end would remove the new one's socket
    agent_ = std::make_unique<TestAgent>(socket(), std::move(behaviour));
  }
  void take_lease() {
    AgentLeaseOptions options;
    options.socket = socket();
    options.hello.gpu = "GPU-1";
    options.hello.rank = 5;
    options.timeout = kPatience;
    options.reconnect_after = 0ms;
    lease_ = std::make_unique<AgentLease>(std::move(options));
  }
  static ipc::PlanMessage plan(std::string text) {
    ipc::PlanMessage plan;
    plan.plan_json = std::move(text);
    return plan;
  }
  Offer offer(std::uint64_t from_iteration, int version) {
    return lease_->offer(plan(std::to_string(version)), from_iteration, version).offer;
  }
  void restart_agent(TestAgentBehaviour behaviour = {}) {
    agent_.reset();
    while (lease_->status().has_lease()) lease_->keep();
    start_agent(std::move(behaviour));
    while (!lease_->status().has_lease()) lease_->keep();
  }

  [[nodiscard]] std::string socket() const { return folder_ / "lease.sock"; }

  TemporaryFolder folder_;
  std::unique_ptr<TestAgent> agent_;
  std::unique_ptr<AgentLease> lease_;
};

TEST_F(AgentLeaseTest, OffersPlansWithTheirIteration) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(3, 1), Offer::accepted);
  EXPECT_EQ(agent_->plans().at(0).from_iteration, 3U);
  EXPECT_FALSE(lease_->status().has_plan) << "it waits";
  for (std::uint64_t i = 0; i < 5; ++i) lease_->iteration_begins(i);
  EXPECT_TRUE(lease_->status().has_plan);
  EXPECT_EQ(lease_->plan_version(2), 0);
  EXPECT_EQ(lease_->plan_version(3), 1);
  EXPECT_EQ(offer(4, 2), Offer::too_late) << "has begun";
  EXPECT_EQ(agent_->plans().size(), 1U) << "the agent is not even asked";
  EXPECT_EQ(lease_->plan_version(4), 1);
  EXPECT_EQ(offer(std::uint64_t{1} << 40U, 2), Offer::refused);
}

TEST_F(AgentLeaseTest, KnowsHowLongBeforeTheirUnitsClocksAreRequested) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(3, 1), Offer::accepted) << "a plan that names no lead";
  EXPECT_EQ(lease_->clock_lead_s(), 0);
  for (const char* text : {R"({"clock_lead_s":0.025})", R"({"clock_lead_s":0.01})"}) {
    EXPECT_EQ(lease_->offer(plan(text), 4, 2).offer, Offer::accepted);
    EXPECT_EQ(lease_->clock_lead_s(), 0.025) << "the longest";
  }
}

TEST_F(AgentLeaseTest, CountsNothingForAPlanThatTheAgentDoesNotTake) {
  start_agent({.refuse = {}, .refuse_plan = {}, .plans_are_too_late = true});
  take_lease();
  EXPECT_EQ(offer(3, 1), Offer::too_late);
  lease_->iteration_begins(3);
  EXPECT_EQ(lease_->plan_version(3), 0);
  lease_.reset();
  start_agent({.refuse = {}, .refuse_plan = "no"});
  take_lease();
  EXPECT_EQ(offer(9, 1), Offer::refused);
  EXPECT_EQ(lease_->plan_version(9), 0);
}

TEST_F(AgentLeaseTest, HasNoLeaseWithoutAnAgent) {
  take_lease();
  EXPECT_EQ(offer(3, 1), Offer::no_lease);
  EXPECT_FALSE(lease_->status().problem.empty());
}

TEST_F(AgentLeaseTest, CountsNothingForAPlanThatWasReplacedBeforeItBegan) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(2, 1), Offer::accepted);
  EXPECT_EQ(offer(4, 2), Offer::accepted);
  for (std::uint64_t i = 0; i < 6; ++i) lease_->iteration_begins(i);
  EXPECT_EQ(lease_->plan_version(2), 0);
  EXPECT_EQ(lease_->plan_version(3), 0);
  EXPECT_EQ(lease_->plan_version(4), 2);
}

/// The plan that was followed at once, and the one that waits for its iteration.
TEST_F(AgentLeaseTest, HandsOverBothPlansWhenTheAgentComesBack) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(0, 1), Offer::accepted);
  lease_->iteration_begins(0);
  lease_->iteration_begins(1);
  EXPECT_EQ(offer(6, 2), Offer::accepted);
  restart_agent();
  const std::vector<ipc::PlanMessage> plans = agent_->plans();
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].plan_json, "1");
  EXPECT_FALSE(plans[0].from_iteration);
  EXPECT_EQ(plans[1].plan_json, "2");
  EXPECT_EQ(plans[1].from_iteration, 6U);
  for (std::uint64_t i = 2; i < 8; ++i) lease_->iteration_begins(i);
  EXPECT_EQ(lease_->plan_version(0), 1);
  EXPECT_EQ(lease_->plan_version(1), 0) << "the agent was away during a part of it";
  EXPECT_EQ(lease_->plan_version(2), 1);
  EXPECT_EQ(lease_->plan_version(6), 2);
}

TEST_F(AgentLeaseTest, HandsOverThePlanThatWaitsThoughTheAgentRefusesTheOneBefore) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(0, 1), Offer::accepted);
  lease_->iteration_begins(0);
  EXPECT_EQ(offer(6, 2), Offer::accepted);
  restart_agent({.refuse = {}, .refuse_plan = "no", .refuse_only = "1"});
  ASSERT_EQ(agent_->plans().size(), 2U);
  EXPECT_EQ(agent_->plans()[1].from_iteration, 6U);
  EXPECT_THAT(lease_->status().problem, HasSubstr("now refused: no"));
  for (std::uint64_t i = 1; i < 8; ++i) lease_->iteration_begins(i);
  EXPECT_EQ(lease_->plan_version(5), 0);
  EXPECT_EQ(lease_->plan_version(6), 2);
  EXPECT_TRUE(lease_->status().has_plan);
  EXPECT_THAT(lease_->status().problem, IsEmpty());
}

TEST_F(AgentLeaseTest, CountsNothingForAPlanThatWaitedAndThatTheAgentRefusesOnceItIsBack) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(0, 1), Offer::accepted);
  lease_->iteration_begins(0);
  EXPECT_EQ(offer(6, 2), Offer::accepted);
  restart_agent({.refuse = {}, .refuse_plan = "no"});
  for (std::uint64_t i = 1; i < 8; ++i) lease_->iteration_begins(i);
  EXPECT_FALSE(lease_->status().has_plan);
  EXPECT_EQ(lease_->plan_version(6), 0);
  EXPECT_THAT(lease_->status().problem, HasSubstr("now refused: no"));
}

TEST_F(AgentLeaseTest, LetsAPlanGoWhoseIterationBeganWhileTheAgentWasAway) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(2, 1), Offer::accepted);
  agent_.reset();
  while (lease_->status().has_lease()) lease_->keep();
  for (std::uint64_t i = 0; i < 5; ++i) lease_->iteration_begins(i);
  EXPECT_EQ(lease_->plan_version(3), 0) << "no process set clocks";
  start_agent();
  while (!lease_->status().has_lease()) lease_->keep();
  EXPECT_EQ(lease_->plan_version(5), 1) << "it is the plan by now";
  EXPECT_TRUE(lease_->status().has_plan);
}

TEST_F(AgentLeaseTest, LeavesALeaseAloneThatAPersonHasEndedUntilAPlanIsLoaded) {
  start_agent();
  take_lease();
  lease_->load_plan(plan("loaded"));
  EXPECT_EQ(offer(3, 1), Offer::accepted);
  agent_->end_lease("released by root");
  lease_->keep();
  EXPECT_FALSE(lease_->status().has_lease());
  EXPECT_FALSE(lease_->status().has_plan);
  EXPECT_THAT(lease_->status().problem, HasSubstr("the lease was ended: released by root"));
  lease_->keep();
  EXPECT_EQ(offer(5, 2), Offer::no_lease) << "what a server plans does not count";
  lease_->keep();
  EXPECT_EQ(agent_->hellos().size(), 1U);

  lease_->load_plan(plan("anew"));
  EXPECT_TRUE(lease_->status().has_plan);
  EXPECT_EQ(lease_->status().reconnects, 1U);
  EXPECT_THAT(lease_->status().problem, IsEmpty());
  EXPECT_EQ(agent_->plans().size(), 3U);
  EXPECT_EQ(agent_->plans().back().plan_json, "anew");
  EXPECT_EQ(offer(5, 2), Offer::accepted);
}

TEST_F(AgentLeaseTest, HearsThatItsLeaseWasEndedWhenItHandsOverAPlan) {
  start_agent();
  take_lease();
  agent_->end_lease("released by root");
  EXPECT_THROW(lease_->load_plan(plan("1")), LeaseRefused);
  EXPECT_THAT(lease_->status().problem, HasSubstr("released by root"));
  lease_->keep();
  EXPECT_EQ(agent_->hellos().size(), 1U);
}

TEST_F(AgentLeaseTest, HearsThatItsLeaseWasEndedInTheSameBreathAsThePlanWasTaken) {
  TestAgentBehaviour behaviour;
  behaviour.end_with_plan = "released by root";
  start_agent(behaviour);
  take_lease();
  lease_->load_plan(plan("1"));
  while (lease_->status().has_lease()) lease_->keep();
  EXPECT_THAT(lease_->status().problem, HasSubstr("released by root"));
  lease_->keep();
  EXPECT_EQ(agent_->hellos().size(), 1U) << "it is not taken again";
}

/// The agent is away when the program asks again: its plan, and no older one, is handed over once it is back.
TEST_F(AgentLeaseTest, AsksAgainForAnEndedLeaseOnceTheAgentIsThere) {
  start_agent();
  take_lease();
  lease_->load_plan(plan("old"));
  agent_->end_lease("released by root");
  lease_->keep();
  agent_.reset();
  EXPECT_THROW(lease_->load_plan(plan("new")), Error);
  start_agent();
  lease_->keep();
  ASSERT_EQ(agent_->plans().size(), 1U);
  EXPECT_EQ(agent_->plans()[0].plan_json, "new");
}

TEST_F(AgentLeaseTest, ContinuesWithThePlanThatItHasWhenAnotherIsRefused) {
  start_agent();
  take_lease();
  lease_->load_plan(plan("good"));
  EXPECT_EQ(offer(6, 1), Offer::accepted);
  agent_->refuse_plans("1001 MHz is not supported");
  EXPECT_THROW(lease_->load_plan(plan("bad")), LeaseRefused);
  EXPECT_TRUE(lease_->status().has_plan);
  EXPECT_THAT(lease_->status().problem, HasSubstr("the plan loaded last was refused: 1001 MHz"));
  restart_agent();
  const std::vector<ipc::PlanMessage> plans = agent_->plans();
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].plan_json, "good");
  EXPECT_EQ(plans[1].from_iteration, 6U) << "the one that waits goes on to";
  lease_->load_plan(plan("better"));
  EXPECT_THAT(lease_->status().problem, IsEmpty());
}

TEST_F(AgentLeaseTest, GoesBackToThePlanThatItHadWhenOneLoadedWithoutAnAgentIsRefused) {
  start_agent();
  take_lease();
  lease_->load_plan(plan("good"));
  agent_.reset();
  while (lease_->status().has_lease()) lease_->keep();
  EXPECT_THROW(lease_->load_plan(plan("bad")), Error);
  start_agent({.refuse = {}, .refuse_plan = "no"});
  lease_->keep();
  EXPECT_FALSE(lease_->status().has_plan);
  ASSERT_EQ(agent_->plans().size(), 2U);
  EXPECT_EQ(agent_->plans()[0].plan_json, "bad");
  EXPECT_EQ(agent_->plans()[1].plan_json, "good");
  EXPECT_THAT(lease_->status().problem, HasSubstr("refused"));
  restart_agent();
  ASSERT_EQ(agent_->plans().size(), 1U) << "the refused one is not handed over again";
  EXPECT_EQ(agent_->plans()[0].plan_json, "good");
  EXPECT_TRUE(lease_->status().has_plan);
}

TEST_F(AgentLeaseTest, SaysWhichUnitsThePlanDoesNotName) {
  start_agent();
  take_lease();
  lease_->load_plan(plan("plan"));
  EXPECT_THAT(lease_->status().problem, IsEmpty());
  agent_->set_unplanned(12, {.type = ipc::UnitEventType::unit_begin, .kind = 1, .stage = 7, .microbatch = 3});
  EXPECT_THAT(lease_->status().problem,
              HasSubstr("the plan has no backward of stage 7, microbatch 3 for rank 5: no clock is set"));
  EXPECT_THAT(lease_->status().problem, HasSubstr("12 so far"));
}

TEST_F(AgentLeaseTest, ForgetsVersionsButNotPlans) {
  start_agent();
  take_lease();
  EXPECT_EQ(offer(0, 7), Offer::accepted);
  lease_->iteration_begins(0);
  lease_->iteration_begins(1);
  lease_->forget_versions();
  EXPECT_EQ(lease_->plan_version(2), 0);
  EXPECT_TRUE(lease_->status().has_plan);
}

}  // namespace

}  // namespace lowgear::client
