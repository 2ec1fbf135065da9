#include "client/rank/job_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/core/error.h"
#include "client/listed_variables.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::client {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

RankInfo first_of(int ranks, std::string launcher) {
  RankInfo rank;
  rank.world_size = ranks;
  rank.launcher = std::move(launcher);
  return rank;
}

RankGpu own_gpu(int gpus) {
  RankGpu own;
  own.system = std::make_unique<gpu::FakeGpuSystem>(gpus);
  own.gpu = own.system->gpus().front().get();
  return own;
}

TEST(JobGpus, AreThoseOfTheLocalRanks) {
  const RankGpu own = own_gpu(4);
  EXPECT_EQ(job_gpus(own, first_of(1, "none"), variables({})), std::vector{own.gpu});
  const auto gpus = job_gpus(own, first_of(3, "torchrun"), variables({{"LOCAL_WORLD_SIZE", "3"}}));
  ASSERT_EQ(gpus.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(gpus[static_cast<std::size_t>(rank)]->identity().index, rank);
  const auto chosen =
      job_gpus(own, first_of(2, "Slurm"), variables({{"SLURM_NNODES", "1"}, {"CUDA_VISIBLE_DEVICES", "3,0"}}));
  ASSERT_EQ(chosen.size(), 2U);
  EXPECT_EQ(chosen[0]->identity().index, 3);
}

TEST(JobGpus, AreRefusedWhereTheyAreNotKnown) {
  const RankGpu own = own_gpu(4);
  const auto refused = [&](int ranks, const Environment& environment) {
    return [&own, ranks, environment] { (void)job_gpus(own, first_of(ranks, "torchrun"), environment); };
  };
  EXPECT_THAT(refused(2, variables({})), ThrowsMessage<InputError>(HasSubstr("LOCAL_WORLD_SIZE")));
  EXPECT_THAT(refused(16, variables({{"LOCAL_WORLD_SIZE", "8"}})), ThrowsMessage<InputError>(HasSubstr("16 ranks")));
  EXPECT_THAT(refused(2, variables({{"LOCAL_WORLD_SIZE", "2"}, {"CUDA_VISIBLE_DEVICES", "0"}})),
              ThrowsMessage<InputError>(HasSubstr("only its own GPU")));
  EXPECT_THAT(refused(2, variables({{"LOCAL_WORLD_SIZE", "2"}, {"CUDA_VISIBLE_DEVICES", "1,2"}})),
              ThrowsMessage<InputError>(HasSubstr("none of those")));
}

}  // namespace
}  // namespace lowgear::client
