#include "rivals/evaluation/policy_experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear::evaluation {
namespace {

using policies::EnvPipeOptions;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kJobs = "jobs: [{name: a, job: a.yaml, settings: [batch.global=16]}]\n";
constexpr const char* kPolicyArms =
    "arms:\n"
    "  - {name: base, policy: max}\n"
    "  - {name: envelope, policy: envpipe, envpipe: {type: envelope, scheduling: ours, reconfig: greedy, gpu: v100}}\n"
    "  - {name: ours, policy: lowgear, within: envelope}\n";

std::string policy_refusal(const std::string& text) {
  return lowgear::error_of([&] { (void)parse_policy_experiment(text, "e.yaml"); });
}

std::string refusal_of_arm(const std::string& arm) {
  return policy_refusal(std::string(kJobs) + "arms:\n  - {name: base, policy: max}\n  - {" + arm + "}\n");
}

TEST(ParsePolicyExperiment, ReadsEverything) {
  const PolicyExperiment file =
      parse_policy_experiment("title: \"Figure 9\"\nbaseline: envelope\n" + std::string(kJobs) + kPolicyArms, "e.yaml");
  EXPECT_EQ(file.title, "Figure 9");
  EXPECT_EQ(file.baseline, "envelope");
  ASSERT_EQ(file.jobs.size(), 1U);
  EXPECT_EQ(file.jobs[0].job, "a.yaml");
  EXPECT_THAT(file.jobs[0].settings, ElementsAre("batch.global=16"));
  ASSERT_EQ(file.arms.size(), 3U);
  EXPECT_EQ(file.arms[1].envpipe.type, EnvPipeOptions::Type::envelope);
  EXPECT_EQ(file.arms[1].envpipe.order, EnvPipeOptions::Order::own);
  EXPECT_EQ(file.arms[1].envpipe.reconfiguration, EnvPipeOptions::Reconfiguration::greedy);
  EXPECT_EQ(file.arms[1].envpipe.start_clock_mhz, 1530);
  EXPECT_EQ(file.arms[1].envpipe.lowest_clock_mhz, 810);
  EXPECT_THAT(file.arms[0].within, IsEmpty());
  EXPECT_EQ(file.arms[2].within, "envelope");
}

TEST(ParsePolicyExperiment, ComparesWithTheFirstArmByDefault) {
  EXPECT_EQ(parse_policy_experiment(std::string(kJobs) + kPolicyArms, "e.yaml").baseline, "base");
}

TEST(ParsePolicyExperiment, DiffersFromAnExperimentThatTrains) {
  EXPECT_TRUE(compares_policies(std::string(kJobs) + kPolicyArms, "e.yaml"));
  EXPECT_FALSE(compares_policies("train: job.yaml\nseeds: [1]\n", "e.yaml"));
}

TEST(ParsePolicyExperiment, RefusesWithFileLineAndColumn) {
  EXPECT_THAT(policy_refusal(kJobs), HasSubstr("e.yaml:1:1"));
  EXPECT_THAT(policy_refusal("jobs: []\n" + std::string(kPolicyArms)), HasSubstr("e.yaml:1:7: jobs: there are 0 jobs"));
  EXPECT_THAT(policy_refusal("seeds: [1]\n" + std::string(kJobs) + kPolicyArms), HasSubstr("e.yaml:1:1"));
  EXPECT_THAT(policy_refusal("jobs: [{name: a, job: b}, {name: a, job: b}]\n" + std::string(kPolicyArms)),
              HasSubstr("e.yaml:1:34: jobs[1].name: the name \"a\" occurs twice"));
  EXPECT_THAT(policy_refusal("jobs: [{name: a, job: b, settings: [global]}]\n" + std::string(kPolicyArms)),
              HasSubstr("\"global\" is not a setting"));
  EXPECT_THAT(policy_refusal(std::string(kJobs) + "arms: [{name: a, policy: max}]\n"), HasSubstr("e.yaml:2:7"));
  EXPECT_THAT(policy_refusal("baseline: none\n" + std::string(kJobs) + kPolicyArms),
              HasSubstr("e.yaml:1:11: baseline"));
}

TEST(ParsePolicyExperiment, RefusesArmsThatMeanNothing) {
  EXPECT_THAT(refusal_of_arm("name: a, policy: fast"), HasSubstr("e.yaml:4:23: arms[1].policy: there is no policy"));
  EXPECT_THAT(refusal_of_arm("name: a, policy: lowgear, within: later"), HasSubstr("there is no arm \"later\" before"));
  EXPECT_THAT(refusal_of_arm("name: a, policy: max, in_order_of: base"), HasSubstr("is for policy lowgear"));
  EXPECT_THAT(refusal_of_arm("name: a, policy: envpipe, within: base"), HasSubstr("EnvPipe cannot aim at a time"));
  const std::string settings = "envpipe: {type: envelope, scheduling: ours, reconfig: ";
  EXPECT_THAT(refusal_of_arm("name: a, policy: max, " + settings + "greedy}"), HasSubstr("is for policy envpipe"));
  EXPECT_THAT(refusal_of_arm("name: a, policy: envpipe, " + settings + "greedy, gpu: b300, start_clock: 1920}"),
              HasSubstr("lists no clocks of the GPU"));
  EXPECT_THAT(refusal_of_arm("name: a, policy: envpipe, " + settings + "brave}"),
              HasSubstr("\"brave\" is not known to EnvPipe; write one of default, greedy, balanced"));
}

}  // namespace
}  // namespace lowgear::evaluation
