#include "estimating/estimator/published_runs.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "estimating/estimator/public_rows.h"
#include "planning/simulator/shared_data.h"

/// How far estimates are from published iterations. Nothing is fitted on any of these rows: costs come from data
/// sheets, from sampled operators and from microbenchmarks (gpu_tables.cpp, roofline_costs.cpp, HostCosts). Limits are
/// what is reached, rounded up; bench/ACCURACY.md has the rows.
namespace lowgear::estimator {
namespace {

void expect_within(const std::vector<PublishedRun>& runs, std::size_t rows, double mean_pct, double largest_pct) {
  ASSERT_EQ(runs.size(), rows);
  const std::vector<Comparison> comparisons = compare(runs);
  EXPECT_LE(mean_absolute_pct(comparisons), mean_pct);
  EXPECT_LE(largest_absolute_pct(comparisons), largest_pct);
}

TEST(PublishedRuns, MegatronOnA100) { expect_within(sc21_runs(), 10, 6, 9.5); }

TEST(PublishedRuns, MegatronOnA100InManySizes) { expect_within(sc21_scaling_runs(), 6, 2.1, 4.2); }

TEST(PublishedRuns, MegatronCoreOnH100) { expect_within(megatron_core_runs(), 9, 8.9, 31); }

TEST(PublishedRuns, RecomputationAndSequenceParallelism) { expect_within(korthikanti_runs(), 8, 2, 5.2); }

/// The same model on the same machine took 21 % less for a sequence in the SC'21 paper's table 2, which is estimated
/// well: DeepSpeed's pipeline of 2021 lost what no publication explains.
TEST(PublishedRuns, TuringNlg) { expect_within(turing_nlg_runs(), 3, 23, 25); }

TEST(PublishedRuns, TrainerOnH200) { expect_within(trainer_runs(), 14, 6, 12); }

TEST(PublishedRuns, TorchtitanOnA100AndH100) { expect_within(torchtitan_runs(), 16, 8.7, 35); }

TEST(PublishedRuns, MlperfOnH100) { expect_within(mlperf_runs(), 2, 9.5, 18); }

TEST(PublishedRuns, LlmFoundryOnA100) {
  const std::string file = "public-rows/training_llmfoundry_mpt_a100.csv";
  const auto text = simulator::read_shared(file);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  expect_within(llm_foundry_runs(*text, file), 139, 7.3, 28);
}

TEST(PublishedRuns, DgxcOnH100AndGb200) {
  const std::string file = "public-rows/training_dgxc_benchmarking.csv";
  const auto text = simulator::read_shared(file);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  expect_within(dgxc_runs(*text, file), 116, 10.8, 30);
}

TEST(PublishedRuns, FlagPerfOnA100AndH100) {
  const std::string file = "public-rows/training_flagperf.csv";
  const auto text = simulator::read_shared(file);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  expect_within(flagperf_runs(*text, file), 31, 14, 33);
}

TEST(PublishedRuns, VtrainOnManyNodes) {
  const std::string file = "vtrain/ground_truth_multi.csv";
  const auto text = simulator::read_shared(file);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  expect_within(vtrain_cluster_runs(*text, file), 59, 7.3, 40);
}

TEST(PublishedRuns, VtrainOnOneNode) {
  const std::string file = "vtrain/ground_truth_single.csv";
  const auto text = simulator::read_shared(file);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  expect_within(vtrain_node_runs(*text, file), 850, 8.5, 27);
}

}  // namespace
}  // namespace lowgear::estimator
