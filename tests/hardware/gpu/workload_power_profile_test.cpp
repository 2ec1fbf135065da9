#include "hardware/gpu/workload_power_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lowgear::gpu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(WorkloadPowerProfile, EveryNumberHasANameThatLeadsBackToIt) {
  for (std::size_t profile = 0; profile < kWorkloadPowerProfileLimit; ++profile) {
    EXPECT_EQ(find_workload_power_profile(workload_power_profile_name(profile)), profile);
  }
  EXPECT_EQ(workload_power_profile_name(7), "llm_training");
  EXPECT_EQ(workload_power_profile_name(14), "mig");
  EXPECT_EQ(workload_power_profile_name(15), "profile_15");
}

TEST(WorkloadPowerProfile, OtherNamesAreNone) {
  for (const char* name : {"", "LLM_TRAINING", "training", "profile_", "profile_7", "profile_255", "profile_15x",
                           "profile_-1", "profile_99999999999999999999"}) {
    EXPECT_EQ(find_workload_power_profile(name), std::nullopt) << name;
  }
}

TEST(WorkloadPowerProfile, SetsAreListedByNumber) {
  EXPECT_THAT(names(WorkloadPowerProfileSet()), IsEmpty());
  EXPECT_EQ(to_string(WorkloadPowerProfileSet()), "none");
  WorkloadPowerProfileSet set(0b1000'0100);
  set.set(254);
  EXPECT_THAT(names(set), ElementsAre("compute", "llm_training", "profile_254"));
  EXPECT_EQ(to_string(set), "compute, llm_training, profile_254");
}

}  // namespace
}  // namespace lowgear::gpu
