#include "client/rank/rank_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::client {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Environment with(Variables variables) {
  return [variables = std::move(variables)](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string refusal_of_four_ranks_here(Variables variables) {
  return error_of([&] { require_all_ranks_here(with(std::move(variables)), 4); });
}

TEST(RankEnvironment, ReadsEveryLauncher) {
  const RankInfo torch = rank_from_environment(with({{"RANK", "5"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "8"}}));
  EXPECT_EQ(torch.rank, 5);
  EXPECT_EQ(torch.local_rank, 1);
  EXPECT_EQ(torch.world_size, 8);
  EXPECT_EQ(torch.launcher, "torchrun");
  const RankInfo slurm = rank_from_environment(
      with({{"SLURM_PROCID", "2"}, {"SLURM_LOCALID", "2"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}}));
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.launcher, "Slurm");
  EXPECT_EQ(slurm.job, "77");
  EXPECT_EQ(rank_from_environment(with({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}})).launcher,
            "Open MPI");
  EXPECT_EQ(rank_from_environment(with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})).launcher, "MPICH");
  EXPECT_EQ(rank_from_environment(with({})).launcher, "none");
}

TEST(RankEnvironment, TellsOneStartOfAJobFromTheNext) {
  const auto run = [](std::map<std::string, std::string> variables) {
    return rank_from_environment(with(std::move(variables))).run;
  };
  EXPECT_EQ(run({}), "");
  EXPECT_EQ(run({{"LOWGEAR_RUN", "mine"}, {"SLURM_JOB_ID", "77"}}), "mine");
  EXPECT_EQ(run({{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "1"}}), "slurm-77-1");
  EXPECT_EQ(run({{"SLURM_JOB_ID", "77"}, {"SLURM_RESTART_COUNT", "2"}}), "slurm-77.2");
  EXPECT_EQ(run({{"TORCHELASTIC_RUN_ID", "none"}}), "");
  EXPECT_EQ(run({{"TORCHELASTIC_RUN_ID", "x"}, {"TORCHELASTIC_RESTART_COUNT", "1"}, {"SLURM_JOB_ID", "77"}}),
            "slurm-77 torch-x")
      << "each node counts torchrun's restarts by itself";
}

TEST(RankEnvironment, SaysForWhomTheJobTrains) {
  const auto user = [](std::map<std::string, std::string> variables) {
    return rank_from_environment(with(std::move(variables))).user;
  };
  EXPECT_EQ(user({{"USER", "root"}}), "") << "the user of a process in a container is not that of the job";
  EXPECT_EQ(user({{"SLURM_JOB_USER", "ada"}}), "ada");
  EXPECT_EQ(user({{"SLURM_JOB_USER", "ada"}, {"LOWGEAR_USER", "grace"}}), "grace");
  EXPECT_EQ(user({{"SLURM_JOB_USER", "ada"}, {"LOWGEAR_USER", ""}}), "ada");
}

TEST(RankEnvironment, SaysWhenLaunchersDisagree) {
  const RankInfo info =
      rank_from_environment(with({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}));
  EXPECT_EQ(info.rank, 1) << "torchrun started the process";
  EXPECT_THAT(info.conflict, HasSubstr("torchrun says rank 1 and Slurm says rank 0"));
}

TEST(RankEnvironment, RefusesNonsense) {
  EXPECT_THROW((void)rank_from_environment(with({{"RANK", "first"}})), InputError);
  EXPECT_THROW((void)rank_from_environment(with({{"RANK", "-1"}})), InputError);
  EXPECT_THROW((void)rank_from_environment(with({{"RANK", "4"}, {"WORLD_SIZE", "4"}})), InputError);
}

TEST(RankEnvironment, OfAProcessThatMeetsNoOthersMayLackTheSize) {
  EXPECT_EQ(rank_from_environment(with({{"RANK", "1"}})).world_size, 2);
}

TEST(RankEnvironment, OfARankThatMeetsOthersHasTheSize) {
  const auto error = [](std::map<std::string, std::string> variables) {
    return error_of([&] { (void)job_rank_from_environment(with(std::move(variables))); });
  };
  EXPECT_EQ(error({{"RANK", "1"}}), "RANK=1 is set and WORLD_SIZE is not: set both, or unset RANK");
  EXPECT_EQ(error({{"RANK", "0"}, {"WORLD_SIZE", ""}}), "RANK=0 is set and WORLD_SIZE is not: set both, or unset RANK");
  EXPECT_EQ(error({{"RANK", "1"}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}),
            "RANK=1 is set and WORLD_SIZE is not: set both, or unset RANK");
  EXPECT_EQ(error({{"SLURM_PROCID", "2"}, {"SLURM_STEP_ID", "0"}}),
            "SLURM_PROCID=2 is set and SLURM_NTASKS is not: set both, or unset SLURM_PROCID");
  EXPECT_EQ(job_rank_from_environment(with({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"PMI_RANK", "1"}})).world_size, 2);
  EXPECT_EQ(job_rank_from_environment(with({{"SLURM_PROCID", "0"}})).world_size, 1) << "a batch script";
  EXPECT_EQ(job_rank_from_environment(with({})).world_size, 1);
}

TEST(RankEnvironment, EveryLauncherCounts) {
  const std::map<std::string, Variables> launchers = {
      {"torchrun", {{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}}},
      {"Open MPI", {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}}},
      {"MVAPICH", {{"MV2_COMM_WORLD_RANK", "3"}, {"MV2_COMM_WORLD_LOCAL_RANK", "1"}, {"MV2_COMM_WORLD_SIZE", "4"}}},
      {"MPICH", {{"PMI_RANK", "3"}, {"MPI_LOCALRANKID", "1"}, {"PMI_SIZE", "4"}}},
      {"LSF", {{"JSM_NAMESPACE_RANK", "3"}, {"JSM_NAMESPACE_LOCAL_RANK", "1"}, {"JSM_NAMESPACE_SIZE", "4"}}},
      {"Flux", {{"FLUX_TASK_RANK", "3"}, {"FLUX_TASK_LOCAL_ID", "1"}, {"FLUX_JOB_SIZE", "4"}}},
      {"Slurm", {{"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "4"}}}};
  for (const auto& [name, variables] : launchers) {
    const RankInfo info = job_rank_from_environment(with(variables));
    EXPECT_EQ(info.launcher, name);
    EXPECT_EQ(info.rank, 3) << name;
    EXPECT_EQ(info.local_rank, 1) << name;
    EXPECT_EQ(info.world_size, 4) << name;
  }
}

TEST(RankEnvironment, VariablesOfSeveralNodesAreNotIgnored) {
  EXPECT_THAT(refusal_of_four_ranks_here({{"NNODES", "2"}, {"NPROC_PER_NODE", "4"}, {"NODE_RANK", "1"}}),
              testing::AllOf(HasSubstr("NNODES=2"), HasSubstr("all 4 ranks"), HasSubstr("torchrun --no-python")));
  for (const char* name : {"PET_NNODES", "NUM_NODES", "SLURM_NNODES"}) {
    EXPECT_THAT(refusal_of_four_ranks_here({{name, "2"}}), HasSubstr(std::string(name) + "=2")) << name;
  }
  EXPECT_THAT(refusal_of_four_ranks_here({{"PET_NNODES", "1:3"}}), HasSubstr("PET_NNODES=3"));
  for (const char* name : {"NODE_RANK", "PET_NODE_RANK", "GROUP_RANK", "MACHINE_RANK"}) {
    EXPECT_THAT(refusal_of_four_ranks_here({{name, "1"}}), HasSubstr("not the only node")) << name;
  }
  for (const char* name : {"NPROC_PER_NODE", "PET_NPROC_PER_NODE"}) {
    EXPECT_THAT(refusal_of_four_ranks_here({{name, "2"}}), HasSubstr("make the job one of 2 ranks")) << name;
  }
}

TEST(RankEnvironment, VariablesOfNodesThatAreNoNumbersAreRefused) {
  EXPECT_EQ(refusal_of_four_ranks_here({{"NNODES", "x"}}),
            "NNODES=x is no number of nodes; expected a whole number from 1, or unset NNODES");
  EXPECT_THAT(refusal_of_four_ranks_here({{"NODE_RANK", "worker-1"}}),
              HasSubstr("NODE_RANK=worker-1 is no rank of a node"));
  for (const char* const name : {"NNODES", "PET_NNODES", "NUM_NODES", "SLURM_NNODES", "NPROC_PER_NODE"}) {
    for (const char* const value : {"0", "-1", "two", "2.5", "1:x", "3:2", ":"}) {
      const std::string given = std::string(name) + "=" + value + " is no number of ";
      EXPECT_THAT(refusal_of_four_ranks_here({{name, value}}), HasSubstr(given));
      EXPECT_THAT(error_of([&, name = name] {
                    (void)names_several_nodes(with({{name, value}}));
                  }),
                  HasSubstr(name == std::string("NPROC_PER_NODE") ? "" : given));
    }
  }
  EXPECT_THAT(refusal_of_four_ranks_here({{"NNODES", "1"}, {"PET_NNODES", "x"}}), HasSubstr("PET_NNODES=x"));
  for (const char* const name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
                                 "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    EXPECT_THAT(error_of([&, name = name] {
                  (void)job_rank_from_environment(with({{name, "x"}}));
                }),
                HasSubstr(std::string(name) + "=x is not a rank or size; expected a whole number from 0"));
    EXPECT_EQ(job_rank_from_environment(with({{name, ""}})).launcher, "none");
  }
}

TEST(RankEnvironment, ASizeWithoutARankIsNotIgnored) {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "FLUX_JOB_SIZE"}) {
    EXPECT_THAT(refusal_of_four_ranks_here({{name, "4"}}), HasSubstr("is set and")) << name;
  }
  EXPECT_EQ(refusal_of_four_ranks_here({{"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "1"}}), "no error") << "an allocation";
}

TEST(RankEnvironment, OneNodeStartsItsRanks) {
  EXPECT_EQ(refusal_of_four_ranks_here({}), "no error");
  EXPECT_EQ(refusal_of_four_ranks_here({{"NNODES", "1"}, {"NPROC_PER_NODE", "4"}, {"NODE_RANK", "0"}}), "no error");
  EXPECT_EQ(refusal_of_four_ranks_here({{"PET_NPROC_PER_NODE", "auto"}, {"NNODES", ""}}), "no error");
  EXPECT_EQ(refusal_of_four_ranks_here({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"GROUP_RANK", "0"}}), "no error");
}

TEST(RankEnvironment, NodesTimesTheirRanksAreTheLaunchersRanks) {
  Variables variables = {
      {"RANK", "3"}, {"LOCAL_RANK", "3"}, {"WORLD_SIZE", "8"}, {"NNODES", "2"}, {"NPROC_PER_NODE", "4"}};
  EXPECT_EQ(job_rank_from_environment(with(variables)).world_size, 8);
  variables["WORLD_SIZE"] = "4";  // torchrun was started for one node
  EXPECT_THAT(error_of([&] { (void)job_rank_from_environment(with(variables)); }),
              HasSubstr("NNODES=2 and NPROC_PER_NODE=4 are not the 4 ranks that torchrun has started"));
  EXPECT_EQ(rank_from_environment(with(variables)).world_size, 4) << "a process that meets no others goes on";
}

TEST(RankEnvironment, KnowsWhetherSeveralNodesTakePart) {
  EXPECT_FALSE(names_several_nodes(with({})));
  EXPECT_FALSE(names_several_nodes(with({{"NNODES", "1"}, {"NODE_RANK", "0"}})));
  EXPECT_TRUE(names_several_nodes(with({{"NNODES", "2"}})));
  EXPECT_TRUE(names_several_nodes(with({{"NODE_RANK", "1"}})));
}

}  // namespace
}  // namespace lowgear::client
