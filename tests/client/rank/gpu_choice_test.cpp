#include "client/rank/gpu_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/core/error.h"
#include "client/listed_variables.h"
#include "hardware/gpu/fake_gpu.h"

namespace lowgear::client {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

Environment sees(std::string list) {
  return [list = std::move(list)](std::string_view name) {
    return name == "CUDA_VISIBLE_DEVICES" ? std::optional(list) : std::nullopt;
  };
}

const Environment kSeesAll = [](std::string_view) { return std::nullopt; };

TEST(GpuChoice, TakesTheGpuThatCudaGives) {
  gpu::FakeGpuSystem system(3);
  EXPECT_EQ(choose_gpu(system, 1, kSeesAll).identity().index, 1);
  EXPECT_EQ(choose_gpu(system, 1, sees("2, 0")).identity().index, 0);
  EXPECT_EQ(choose_gpu(system, 1, sees("2")).identity().index, 2) << "this process' own";
  EXPECT_EQ(choose_gpu(system, 0, sees("GPU-00000000-0000-0000-0000-000000000001")).identity().index, 1);
  EXPECT_EQ(choose_gpu(system, 1, sees("2,1,-1,0")).identity().index, 1);
  EXPECT_THROW((void)choose_gpu(system, 3, kSeesAll), InputError);
  EXPECT_THROW((void)choose_gpu(system, 2, sees("2,1,-1,0")), InputError) << "CUDA shows what stands before the -1";
  EXPECT_THROW((void)choose_gpu(system, 0, sees("3")), InputError);
}

TEST(GpuChoice, HasNoGpuWhereItIsShownNone) {
  gpu::FakeGpuSystem system(2);
  for (const char* list : {"", " ", "-1", "-1,0", "NoDevFiles"}) {
    EXPECT_THAT([&] { (void)choose_gpu(system, 0, sees(list)); },
                ThrowsMessage<gpu::GpuError>(HasSubstr("this process sees no GPU")))
        << "CUDA_VISIBLE_DEVICES=" << list;
  }
  EXPECT_THROW((void)choose_gpu(gpu::FakeGpuSystem(0), 0, kSeesAll), gpu::GpuError);
}

TEST(GpuChoice, TrustsNoNumberWhileAGpuDoesNotAnswer) {
  gpu::FakeGpuSystem system(3);
  system.lose(0);
  const auto names_it = ThrowsMessage<gpu::GpuError>(AllOf(HasSubstr("GPU number 0"), HasSubstr("UUID")));
  EXPECT_THAT([&] { (void)choose_gpu(system, 0, kSeesAll); }, names_it) << "GPU 1 is another rank's";
  EXPECT_THAT([&] { (void)choose_gpu(system, 0, sees("1")); }, names_it);
  EXPECT_EQ(choose_gpu(system, 0, sees("GPU-00000000-0000-0000-0000-000000000002")).identity().index, 2);
  EXPECT_THAT([&] { (void)choose_gpu(system, 0, sees("GPU-00000000-0000-0000-0000-000000000000")); },
              ThrowsMessage<gpu::GpuError>(HasSubstr("GPU is lost")));
}

TEST(GpuChoice, TakesNoWholeGpuForThePartThatAProcessHas) {
  gpu::FakeGpuSystem system(2);
  gpu::GpuIdentity identity = system.fake(1).identity();
  identity.mig_enabled = true;
  system.fake(1).set_identity(identity);
  const auto says_why = ThrowsMessage<InputError>(AllOf(HasSubstr("MIG is on"), HasSubstr("lowgear_options.gpu")));
  EXPECT_THAT([&] { (void)choose_gpu(system, 1, kSeesAll); }, says_why);
  EXPECT_THAT([&] { (void)choose_gpu(system, 0, sees("1")); }, says_why);
  EXPECT_THAT([&] { (void)choose_gpu(system, 0, sees(identity.uuid)); }, says_why);
  EXPECT_THAT([&] { (void)choose_gpu(system, 0, sees("MIG-8d9b")); }, ThrowsMessage<InputError>(HasSubstr("a part")));
  EXPECT_EQ(choose_gpu(system, 0, kSeesAll).identity().index, 0);
}

TEST(GpuChoice, TakesNoOtherRanksGpuWhenOneIsLeft) {
  gpu::FakeGpuSystem system(2);
  system.lose(1);
  EXPECT_THROW((void)choose_gpu(system, 1, kSeesAll), gpu::GpuError);
  system.lose(0);
  EXPECT_THROW((void)choose_gpu(system, 0, kSeesAll), gpu::GpuError) << "all are lost";
}

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
              ThrowsMessage<InputError>(HasSubstr("not one that the local ranks would have")));
}

}  // namespace

}  // namespace lowgear::client
