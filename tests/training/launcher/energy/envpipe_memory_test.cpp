#include "training/launcher/energy/envpipe_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error_of.h"
#include "training/launcher/four_rank_job.h"

namespace lowgear::launcher {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TrainConfig with_limit(const std::string& limit) {
  return four_rank_job({"energy.policy=envpipe", "energy.envpipe.memory_limit=" + limit});
}

TEST(EnvPipeMemory, IsOfThePolicyAndOfTheSchedule) {
  // 1F1B holds 4, 3, 2 and 1 of at most 8.
  EXPECT_THAT(with_limit("6,5,3,1").envpipe_memory.extra_activations, ElementsAre(2, 2, 1, 0));
  const TrainConfig scheduled = four_rank_job({"schedule=envpipe", "energy.envpipe.memory_limit=6,5,3,1"});
  EXPECT_THAT(scheduled.envpipe_memory.extra_activations, ElementsAre(2, 2, 1, 0));
  EXPECT_FALSE(scheduled.envpipe) << "no policy changes clocks";
  EXPECT_FALSE(four_rank_job({"schedule=envpipe"}).envpipe_memory.is_stated());
  EXPECT_TRUE(with_limit("1f1b").envpipe_memory.is_stated());
}

TEST(EnvPipeMemory, DividesBytesByWhatActivationsTake) {
  const EnvPipeMemory memory = with_limit("8 MB").envpipe_memory;
  EXPECT_THAT(memory.extra_activations, IsEmpty()) << "not known yet";
  EXPECT_THAT(extra_activations(memory, std::vector<double>{1e6, 2e6, 4e6, 8e6}, 4, 8), ElementsAre(4, 1, 0, 0));
  EXPECT_THAT(error_of([&] { (void)extra_activations(memory, {}, 4, 8); }), HasSubstr("measures it in the steps"));
  EXPECT_THAT(error_of([&] { (void)extra_activations(memory, std::vector<double>(4, 4e6), 4, 8); }),
              HasSubstr("rank 0 holds 4 activations under 1F1B"));
  const EnvPipeMemory held = with_limit("1f1b").envpipe_memory;
  EXPECT_THAT(held.extra_activations, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(held.bytes, IsEmpty());
}

TEST(EnvPipeMemory, RefusesWhatIsNoLimitOfTheJob) {
  const auto error_of_limit = [](const std::string& limit) { return error_of([&] { (void)with_limit(limit); }); };
  EXPECT_THAT(error_of_limit("1GiB,1GiB"), AllOf(HasSubstr("energy.envpipe.memory_limit"), HasSubstr("4 ranks")));
  EXPECT_THAT(error_of_limit("1XB"), HasSubstr("not an amount"));
  EXPECT_THAT(error_of_limit("3"), HasSubstr("rank 0 holds 4 activations under 1F1B"));
  const auto error_when = [](const std::vector<std::string>& settings) {
    return error_of([&] { (void)four_rank_job(settings); });
  };
  EXPECT_THAT(error_when({"energy.envpipe.memory_limit=8"}), HasSubstr("add policy: envpipe"));
  EXPECT_THAT(error_when({"schedule=envpipe", "energy.envpipe.memory_limit=8", "energy.envpipe.type=uniform"}),
              HasSubstr("it is of the policy"));
}

}  // namespace
}  // namespace lowgear::launcher
