#include "planning/sharing/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/core/error.h"

namespace lowgear::sharing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr GpuFacts kGpu{
    .memory_gib = 80, .idle_w = 70, .awake_w = 115, .limit_w = 700, .compute_mode = ComputeMode::shared, .mig = false};

JobLoad job(const std::string& name, double busy, double memory_gib = 10, double power_w = 200) {
  return {.name = name,
          .gpus = 1,
          .busy = busy,
          .sm_active = {},
          .memory_gib = memory_gib,
          .power_w = power_w,
          .iteration_s = {}};
}

JobLoad narrow_job(const std::string& name, double busy, double sm_active) {
  JobLoad result = job(name, busy);
  result.sm_active = sm_active;
  return result;
}

std::string refusal(const std::vector<JobLoad>& jobs, const GpuFacts& gpu = kGpu, const PackOptions& options = {}) {
  return check_group(jobs, {0, 1}, gpu, options).refused;
}

TEST(PackJobs, SavesTheSecondAwakeGpu) {
  const std::vector<JobLoad> jobs = {narrow_job("a", 0.5, 0.2), narrow_job("b", 0.5, 0.2)};
  const Packing packing = pack_jobs(jobs, kGpu, {.margin = 0.1});
  ASSERT_EQ(packing.groups.size(), 1U);
  EXPECT_THAT(packing.groups[0].jobs, ElementsAre(0, 1));
  EXPECT_EQ(packing.gpus_apart, 2);
  EXPECT_EQ(packing.gpus_packed, 1);
  // 0.4 + 0.4 of the SMs: nothing gets slower, and the freed GPU sleeps.
  EXPECT_NEAR(packing.saved_w.predicted, 115 - 70, 1e-9);
  EXPECT_NEAR(packing.saved_w.high, 115 - 70, 1e-9);
  EXPECT_NEAR(packing.saved_w.low, 45 * (2 / 1.1 - 1), 1e-9);
  EXPECT_NEAR(packing.apart_w, 400, 1e-9);
  const Packing used = pack_jobs(jobs, kGpu, {.freed = FreedGpus::used, .margin = 0.1});
  EXPECT_NEAR(used.saved_w.predicted, 115, 1e-9);
}

TEST(PackJobs, AccountsForSlowdownAtEqualWork) {
  // Both at 1 + 0.3^2: in 1.09 s a GPU does what two did in 1 s; these then idle for 0.09 s.
  const std::vector<JobLoad> jobs = {job("a", 0.3), job("b", 0.3)};
  const Packing packing = pack_jobs(jobs, kGpu, {.mode = SharingMode::time_slicing, .max_slowdown = 0.1});
  const double apart_j = 2 * (200 * 1 + 70 * 0.09);
  const double shared_j = 115 * 1.09 + 2 * (200 - 115) + 70 * 1.09;
  EXPECT_NEAR(packing.saved_w.predicted, (apart_j - shared_j) / 1.09, 1e-3);
  EXPECT_NEAR(packing.apart_w, apart_j / 1.09, 1e-3);
}

TEST(PackJobs, RefusesPairsWithTheReason) {
  EXPECT_THAT(refusal({job("a", 0.1, 40), job("b", 0.1, 39.5)}), HasSubstr("they need 79.5 GiB of the 79 GiB"));
  EXPECT_THAT(refusal({job("a", 0.9), job("b", 0.9)}), HasSubstr("a would be 81 % slower, more than 5 %"));
  EXPECT_THAT(refusal({narrow_job("a", 0.1, 0.04), narrow_job("b", 0.1, 0.04)}), HasSubstr("above the power limit"));
  // Utilisation that is too low for the power does not count against a job that takes turns.
  EXPECT_EQ(refusal({job("a", 0.05), job("b", 0.05)}, kGpu, {.mode = SharingMode::time_slicing}), "");
  GpuFacts flat = kGpu;
  flat.idle_w = flat.awake_w;
  EXPECT_THAT(refusal({job("a", 0.2), job("b", 0.2)}, flat), HasSubstr("save nothing"));
  EXPECT_EQ(refusal({job("a", 0.2), job("b", 0.2)}), "");
}

TEST(PackJobs, ReportsEveryPairThatCannotShare) {
  const std::vector<JobLoad> jobs = {job("a", 0.2), job("full", 1), job("b", 0.2)};
  const Packing packing = pack_jobs(jobs, kGpu, {});
  ASSERT_EQ(packing.groups.size(), 2U);
  EXPECT_THAT(packing.groups[0].jobs, ElementsAre(0, 2));
  EXPECT_THAT(packing.groups[1].jobs, ElementsAre(1));
  ASSERT_EQ(packing.refusals.size(), 2U);
  EXPECT_THAT(packing.refusals[0].jobs, ElementsAre(0, 1));
  EXPECT_THAT(packing.refusals[1].jobs, ElementsAre(1, 2));
}

TEST(PackJobs, NeverPutsTwoRanksOfAJobOnAGpu) {
  std::vector<JobLoad> jobs = {job("wide", 0.2), job("small", 0.2)};
  jobs[0].gpus = 4;
  const Packing alone = pack_jobs(std::span(jobs).first(1), kGpu, {});
  EXPECT_EQ(alone.gpus_packed, 4);
  const Packing both = pack_jobs(jobs, kGpu, {});
  ASSERT_EQ(both.groups.size(), 1U);
  EXPECT_EQ(both.gpus_packed, 4);  // 5 ranks, but one of each job at most on a GPU
  // Four ranks slow down for one GPU that is saved.
  EXPECT_NEAR(both.saved_w.predicted, 45 * (5 / 1.04 - 4), 1e-3);
}

TEST(PackJobs, SharesNothingWhereTheModeForbidsIt) {
  const std::vector<JobLoad> jobs = {job("a", 0.2), job("b", 0.2)};
  const auto refused = [&](ComputeMode compute_mode, bool mig, SharingMode mode) {
    GpuFacts gpu = kGpu;
    gpu.compute_mode = compute_mode;
    gpu.mig = mig;
    const Packing packing = pack_jobs(jobs, gpu, {.mode = mode});
    EXPECT_EQ(packing.groups.size(), packing.refused.empty() ? 1U : 2U);
    EXPECT_EQ(packing.saved_w.predicted > 0, packing.refused.empty());
    return packing.refused;
  };
  EXPECT_THAT(refused(ComputeMode::exclusive_process, false, SharingMode::time_slicing),
              HasSubstr("exclusive-process"));
  EXPECT_EQ(refused(ComputeMode::exclusive_process, false, SharingMode::mps), "");
  EXPECT_THAT(refused(ComputeMode::prohibited, false, SharingMode::mps), HasSubstr("prohibited"));
  EXPECT_THAT(refused(ComputeMode::shared, true, SharingMode::mps), HasSubstr("MIG"));
  EXPECT_EQ(refused(ComputeMode::shared, false, SharingMode::time_slicing), "");
}

TEST(PackJobs, RefusesInputThatCannotBe) {
  const auto refused = [](const std::vector<JobLoad>& jobs, const GpuFacts& gpu, const PackOptions& options) {
    EXPECT_THROW(static_cast<void>(pack_jobs(jobs, gpu, options)), InputError);
  };
  refused(std::vector<JobLoad>(17, job("a", 0.1)), kGpu, {});
  refused({job("a", 0.1, 81)}, kGpu, {});
  refused({job("a", 0.1, 10, 100)}, kGpu, {});
  refused({job("a", 0.1)}, kGpu, {.max_jobs_per_gpu = 5});
  refused({job("a", 0.1)}, kGpu, {.max_jobs_per_gpu = 1});
  GpuFacts falling = kGpu;
  falling.idle_w = 120;
  refused({job("a", 0.1)}, falling, {});
}

/// Largest saving of all ways to group the jobs from `next` on, by trying them all.
double brute_force(const std::vector<JobLoad>& jobs, std::size_t next, std::vector<std::vector<std::size_t>>& groups,
                   const PackOptions& options) {
  if (next == jobs.size()) {
    double saved_w = 0;
    for (const std::vector<std::size_t>& group : groups) {
      if (group.size() == 1) continue;
      const GroupCheck checked = check_group(jobs, group, kGpu, options);
      if (!checked.refused.empty()) return -1;
      saved_w += checked.group.saved_w.predicted;
    }
    return saved_w;
  }
  double best_w = -1;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].size() == static_cast<std::size_t>(options.max_jobs_per_gpu)) continue;
    groups[i].push_back(next);
    best_w = std::max(best_w, brute_force(jobs, next + 1, groups, options));
    groups[i].pop_back();
  }
  groups.push_back({next});
  best_w = std::max(best_w, brute_force(jobs, next + 1, groups, options));
  groups.pop_back();
  return best_w;
}

TEST(PackJobs, FindsTheBestGrouping) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> share(0, 1);
  int shared = 0;
  for (int round = 0; round < 60; ++round) {
    std::vector<JobLoad> jobs;
    for (int i = 0; i < 6; ++i) {
      const double busy = 0.02 + 0.6 * share(random);
      JobLoad next = job("job" + std::to_string(i), busy, 40 * share(random), 116 + 100 * busy);
      next.gpus = 1 + static_cast<int>(2 * share(random));
      if (round % 2 == 0) next.sm_active = busy * share(random);
      jobs.push_back(std::move(next));
    }
    const PackOptions options{.max_jobs_per_gpu = 2 + round % 3, .max_slowdown = 0.2};
    std::vector<std::vector<std::size_t>> groups;
    const Packing packing = pack_jobs(jobs, kGpu, options);
    EXPECT_NEAR(packing.saved_w.predicted, brute_force(jobs, 0, groups, options), 1e-6);
    EXPECT_LE(packing.saved_w.low, packing.saved_w.predicted);
    EXPECT_GE(packing.saved_w.high, packing.saved_w.predicted);
    std::size_t members = 0;
    for (const Group& group : packing.groups) members += group.jobs.size();
    EXPECT_EQ(members, jobs.size());
    if (packing.groups.size() < jobs.size()) ++shared;
  }
  EXPECT_GT(shared, 30);
}

}  // namespace
}  // namespace lowgear::sharing
