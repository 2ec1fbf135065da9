#include "estimating/estimator/search/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <span>
#include <string>

#include "base/core/error.h"
#include "estimating/estimator/costs/roofline_costs.h"
#include "estimating/estimator/iteration/job_energy.h"
#include "estimating/estimator/job/model_catalogue.h"

namespace lowgear::estimator {
namespace {

TrainingJob base_job(const std::string& model = "llama-2-7b", const std::string& gpu = "a100") {
  TrainingJob job;
  job.model = named_model(model);
  job.gpu = named_gpu(gpu);
  job.cluster = default_cluster(job.gpu);
  job.batch = {16, 1, 4096};
  return job;
}

struct Sources {
  explicit Sources(const TrainingJob& job) : operators(job.gpu), links(job.cluster) {}
  [[nodiscard]] CostSources get() const { return {operators, links}; }

  RooflineCosts operators;
  LinkCosts links;
};

/// Every layout that counts up to the limits allow, whether it makes sense or not, looked at one by one: an oracle
/// that shares no enumeration with the search.
std::vector<SearchResult> brute_force(const TrainingJob& base, int gpus) {
  const Sources sources(base);
  std::vector<SearchResult> results;
  TrainingJob job = base;
  for (int dp = 1; dp <= gpus; ++dp) {
    for (int tp = 1; tp <= std::min(gpus, base.cluster.gpus_per_node); ++tp) {
      for (int pp = 1; pp <= gpus; ++pp) {
        for (int cp = 1; cp <= gpus; ++cp) {
          if (dp * tp * pp * cp != gpus) continue;
          for (int chunks = 1; chunks <= 2; ++chunks) {
            for (int ep = 1; ep <= dp * cp; ++ep) {
              for (int micro = 1; micro <= 4; ++micro) {
                for (const bool sequence_parallel : {false, true}) {
                  for (const auto recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                    for (int zero = 0; zero <= 3; ++zero) {
                      const SearchLayout layout{
                          {dp, tp, pp, chunks, ep, cp, sequence_parallel}, micro, recompute, zero};
                      apply(layout, job);
                      const bool uneven =
                          chunks > 1 && ((job.model.layers % pp == 0 && job.model.layers % (pp * chunks) != 0) ||
                                         job.batch.global % (micro * dp) != 0 || job.microbatches() % pp != 0);
                      const bool nothing_to_share = (zero > 0 && dp * cp == 1) || (sequence_parallel && tp == 1);
                      if (uneven || nothing_to_share || find_fault(job)) continue;
                      const MemoryEstimate memory = estimate_memory(job);
                      if (!memory.within_capacity()) continue;
                      const IterationEstimate estimate = estimate_iteration(job, sources.get());
                      results.push_back(
                          {layout, estimate.time_s, estimate.error_s, estimate_energy(job, estimate).total_j(),
                           quick_planned_energy_j(job, estimate), memory.ranks[memory.fullest_rank()].total(),
                           estimate.model_flops_per_gpu_s, memory.fit() == MemoryFit::near_limit});
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
  return results;
}

struct SmallSpace {
  std::string name;
  std::string model;
  std::string gpu;
  int gpus;
  std::int64_t global_batch;
  SearchObjective objective;
};

class AgainstBruteForce : public testing::TestWithParam<SmallSpace> {};

TEST_P(AgainstBruteForce, FindsTheSameWinner) {
  const SmallSpace& space = GetParam();
  TrainingJob job = base_job(space.model, space.gpu);
  job.batch.global = space.global_batch;
  const Prices prices{.usd_per_gpu_hour = 2, .usd_per_kwh = 0.1, .co2_g_per_kwh = 0};
  const Sources sources(job);
  const SearchLimits limits{
      .gpus = space.gpus, .max_virtual_stages = 2, .max_context_parallel = space.gpus, .max_micro_batch = 4};
  std::vector<SearchResult> found = evaluate(job, enumerate_layouts(job, limits).layouts, sources.get()).results;
  std::vector<SearchResult> all = brute_force(job, space.gpus);
  ASSERT_FALSE(all.empty());
  ASSERT_FALSE(found.empty());
  rank(found, space.objective, prices);
  rank(all, space.objective, prices);
  EXPECT_EQ(describe(found.front().layout), describe(all.front().layout));
  EXPECT_EQ(value_of(found.front(), space.objective, prices), value_of(all.front(), space.objective, prices));
  EXPECT_LE(found.size(), all.size());
}

INSTANTIATE_TEST_SUITE_P(
    SmallSpaces, AgainstBruteForce,
    testing::Values(SmallSpace{"dense_time", "llama-2-7b", "a100", 8, 16, SearchObjective::time},
                    SmallSpace{"dense_energy", "llama-2-7b", "a100", 8, 16, SearchObjective::energy},
                    SmallSpace{"dense_cost", "llama-2-7b", "h100", 4, 12, SearchObjective::cost},
                    SmallSpace{"experts_time", "mixtral-8x7b", "b200", 8, 16, SearchObjective::time},
                    SmallSpace{"odd_batch", "llama-2-7b", "h100", 8, 24, SearchObjective::energy}),
    [](const auto& space) { return space.param.name; });

TEST(EnumerateLayouts, GivesValidDifferentLayoutsOfAllGpus) {
  TrainingJob job = base_job("mixtral-8x7b", "h100");
  job.batch.global = 64;
  const SearchSpace space = enumerate_layouts(job, {.gpus = 16});
  ASSERT_GT(space.layouts.size(), 100U);
  for (std::size_t i = 0; i < space.layouts.size(); ++i) {
    apply(space.layouts[i], job);
    EXPECT_FALSE(find_fault(job)) << describe(space.layouts[i]);
    EXPECT_EQ(space.layouts[i].parallel.gpus(), 16);
    const auto rest = std::span(space.layouts).subspan(i + 1);
    EXPECT_EQ(std::ranges::find(rest, space.layouts[i]), rest.end()) << describe(space.layouts[i]);
  }
}

TEST(EnumerateLayouts, KeepsTensorParallelismWithinANodeUnlessAsked) {
  TrainingJob job = base_job();
  job.cluster.gpus_per_node = 4;
  const auto most_tp = [&](bool across) {
    int most = 0;
    for (const SearchLayout& layout : enumerate_layouts(job, {.gpus = 16, .tensor_across_nodes = across}).layouts) {
      most = std::max(most, layout.parallel.tp);
    }
    return most;
  };
  EXPECT_EQ(most_tp(false), 4);
  EXPECT_EQ(most_tp(true), 16);
}

TEST(EnumerateLayouts, TriesVirtualStagesOfUnequalSizeWhereRanksCannotBeEqual) {
  TrainingJob job = base_job("llama-3.1-405b", "h100");  // 126 layers
  job.batch.global = 64;
  const auto virtual_stages = [&job](int pp) {
    std::set<int> found;
    SearchLimits limits{.gpus = 8 * pp};
    limits.fixed.tp = 8;
    limits.fixed.pp = pp;
    for (const SearchLayout& layout : enumerate_layouts(job, limits).layouts) {
      found.insert(layout.parallel.virtual_stages);
    }
    return found;
  };
  EXPECT_EQ(virtual_stages(2), (std::set<int>{1, 3, 7}));
  EXPECT_EQ(virtual_stages(16), (std::set<int>{1, 2, 3, 4, 5, 6, 7})) << "8 x 16 stages are more than the layers";
}

TEST(EnumerateLayouts, KeepsTheJobsGroupsOfShards) {
  TrainingJob job = base_job("llama-2-7b", "h100");
  job.shard_size = 4;
  const SearchSpace space = enumerate_layouts(job, {.gpus = 16});
  ASSERT_FALSE(space.layouts.empty());
  for (const SearchLayout& layout : space.layouts) {
    EXPECT_EQ(layout.parallel.dp * layout.parallel.cp % 4, 0);
    EXPECT_GE(layout.zero, 1) << "ZeRO 0 shards nothing";
    EXPECT_EQ(layout.shard_size, 4);
  }
}

TEST(EnumerateLayouts, KeepsToWhatIsFixedWhateverTheBounds) {
  TrainingJob job = base_job("mixtral-8x7b", "h100");
  job.batch.global = 256;
  const FixedLayout fixed{.dp = 1,
                          .tp = 2,
                          .pp = 2,
                          .virtual_stages = 16,
                          .ep = 4,
                          .cp = 16,
                          .micro_batch = 32,
                          .recompute = Recompute::selective,
                          .zero = 1};
  const SearchSpace space = enumerate_layouts(job, {.gpus = 64, .fixed = fixed});
  ASSERT_EQ(space.layouts.size(), 2U) << "with and without sequence parallelism";
  const SearchLayout whole{{1, 2, 2, 16, 4, 16, false}, 32, Recompute::selective, 1};
  EXPECT_EQ(space.layouts.front(), whole);
}

TEST(EnumerateLayouts, SaysWhatIsWrongWithTheFirst) {
  const SearchSpace space = enumerate_layouts(base_job(), {.gpus = 12});
  EXPECT_TRUE(space.layouts.empty());
  ASSERT_TRUE(space.fault);
  EXPECT_EQ(space.fault->what, "12 GPUs do not fill nodes of 8");
  EXPECT_EQ(space.fault->fix, "give 8 or 16 GPUs, or another gpus_per_node");
}

TEST(EnumerateLayouts, RefusesImpossibleCountsOfGpus) {
  EXPECT_THROW((void)enumerate_layouts(base_job(), {.gpus = 0}), InputError);
  EXPECT_THROW((void)enumerate_layouts(base_job(), {.gpus = kMaxJobGpus + 1}), InputError);
}

TEST(EnumerateLayouts, FindsNothingWhereNothingDivides) {
  TrainingJob job = base_job();  // 32 layers
  job.batch.global = 1;
  EXPECT_TRUE(enumerate_layouts(job, {.gpus = 37, .max_context_parallel = 1}).layouts.empty());
}

TEST(Evaluate, LeavesOutWhatDoesNotFit) {
  const TrainingJob job = base_job("llama-3-70b", "a100");
  const Sources sources(job);
  const SearchSpace space = enumerate_layouts(job, {.gpus = 4});
  const SearchOutcome outcome = evaluate(job, space.layouts, sources.get());
  EXPECT_TRUE(outcome.results.empty());
  EXPECT_EQ(outcome.too_large, static_cast<std::int64_t>(space.layouts.size()));
}

TEST(Evaluate, GivesTheSameInSlicesOfAnySize) {
  const TrainingJob job = base_job();
  const Sources sources(job);
  const SearchSpace space = enumerate_layouts(job, {.gpus = 8});
  std::vector<SearchResult> whole = evaluate(job, space.layouts, sources.get()).results;
  SearchOutcome pieces;
  for (std::size_t begin = 0; begin < space.layouts.size(); begin += 7) {
    const auto slice = std::span(space.layouts).subspan(begin, std::min<std::size_t>(7, space.layouts.size() - begin));
    pieces.append(evaluate(job, slice, sources.get()));
  }
  std::shuffle(pieces.results.begin(), pieces.results.end(), std::mt19937(1));
  rank(whole, SearchObjective::time, {});
  rank(pieces.results, SearchObjective::time, {});
  ASSERT_EQ(whole.size(), pieces.results.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].layout, pieces.results[i].layout) << i;
  }
}

SearchResult result_of(int tp, double time_s, double planned_j) {
  return {.layout = {.parallel = {.dp = 8 / tp, .tp = tp}},
          .time_s = time_s,
          .error_s = 0,
          .energy_j = planned_j,
          .planned_energy_j = planned_j,
          .memory_bytes = 1,
          .model_flops_per_gpu_s = 1};
}

TEST(ParetoFront, HoldsWhatNoOtherBeatsInBoth) {
  const std::vector<SearchResult> results{result_of(1, 3, 10), result_of(2, 1, 30), result_of(4, 2, 20),
                                          result_of(8, 2, 25), result_of(1, 4, 10)};
  EXPECT_EQ(pareto_front(results), (std::vector<std::size_t>{1, 2, 0}));
  EXPECT_TRUE(pareto_front({}).empty());
}

TEST(Rank, OrdersByTheObjective) {
  std::vector<SearchResult> results{result_of(1, 3, 10), result_of(2, 1, 30), result_of(4, 2, 20)};
  rank(results, SearchObjective::time, {});
  EXPECT_EQ(results.front().layout.parallel.tp, 2);
  rank(results, SearchObjective::energy, {});
  EXPECT_EQ(results.front().layout.parallel.tp, 1);
  rank(results, SearchObjective::cost, {.usd_per_gpu_hour = 1, .usd_per_kwh = 1e6});
  EXPECT_EQ(results.front().layout.parallel.tp, 1) << "energy is all that counts";
}

TEST(Prices, AddGpusAndEnergy) {
  const Prices prices{.usd_per_gpu_hour = 2, .usd_per_kwh = 0.5, .co2_g_per_kwh = 400};
  EXPECT_DOUBLE_EQ(prices.cost_usd(1800, 7.2e6, 4), 4 + 1);
  EXPECT_DOUBLE_EQ(prices.co2_g(7.2e6), 800);
}

TEST(CompareTimes, SumsToTheDifferenceOfTheIterations) {
  TrainingJob job = base_job();
  const Sources sources(job);
  const SearchLayout winner{{.dp = 4, .tp = 2, .pp = 1}, 1, Recompute::none, 1};
  const SearchLayout other{{.dp = 1, .tp = 2, .pp = 4}, 1, Recompute::full, 0};
  double winner_s = 0;
  double other_s = 0;
  for (const TimeDifference& part : compare_times(job, winner, other, sources.get())) {
    winner_s += part.winner_s;
    other_s += part.rival_s;
  }
  const auto time_of = [&](const SearchLayout& layout) {
    apply(layout, job);
    return estimate_iteration(job, sources.get()).time_s;
  };
  EXPECT_NEAR(winner_s, time_of(winner), 1e-9);
  EXPECT_NEAR(other_s, time_of(other), 1e-9);
}

TEST(SearchLayout, IsDescribedAndCanBeAskedForAgain) {
  const SearchLayout layout{{2, 8, 4, 3, 2, 2, true}, 4, Recompute::full, 1};
  EXPECT_EQ(describe(layout),
            "dp 2, tp 8 with sequence parallelism, pp 4 x 3 virtual stages, ep 2, cp 2, microbatch 4, full "
            "recomputation, ZeRO 1");
  EXPECT_EQ(options_of(layout),
            "--dp 2 --tp 8 --pp 4 --virtual-stages 3 --ep 2 --cp 2 --sequence-parallel --microbatch 4 --recompute full "
            "--zero 1");
  EXPECT_EQ(options_of({{.dp = 1, .tp = 2, .pp = 1}, 1, Recompute::none, 0}),
            "--dp 1 --tp 2 --pp 1 --virtual-stages 1 --ep 1 --cp 1 --no-sequence-parallel --microbatch 1 --recompute "
            "none --zero 0")
      << "a job file may have others";
  const SearchLayout groups{{.dp = 8, .tp = 2, .pp = 1}, 1, Recompute::none, 3, 4};
  EXPECT_THAT(describe(groups), testing::EndsWith("ZeRO 3 in groups of 4"));
  EXPECT_THAT(options_of(groups), testing::EndsWith("--zero 3 --shard-size 4"));
}

}  // namespace
}  // namespace lowgear::estimator
