#include "estimating/estimator/public_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/formats/csv.h"
#include "base/core/units.h"
#include "estimating/estimator/memory/memory_estimate.h"
#include "planning/simulator/shared_data.h"

namespace lowgear::estimator {
namespace {

/// One row of a file, of the columns that the mappings read.
std::string file_of(const std::string& row) {
  return "source,gpu,gpus,model,parameters_b,layers,hidden,heads,vocabulary,seq,tp,pp,cp,ep,vp,micro_batch,"
         "global_batch,precision,recompute,step_s,tokens_per_s_per_gpu,memory_gib,note\n" +
         row + "\n";
}

TEST(PublicRows, MptIsGpt2ShardedByFsdp) {
  const PublishedRun run = llm_foundry_runs(file_of("MosaicML,A100 40GB,16,MPT-1b,1.3,24,2048,16,50368,1024,,,,,,4,128,"
                                                    "bf16 / MP mode PURE,full activation checkpointing,,20000,,"),
                                            "f.csv")
                               .at(0);
  EXPECT_EQ(run.job.gpu.name, "a100-40gb-sxm");
  EXPECT_EQ(run.job.zero, 3);
  EXPECT_EQ(run.job.parallel, (ParallelLayout{.dp = 16}));
  EXPECT_EQ(run.job.microbatches(), 2);
  EXPECT_EQ(run.job.recompute, Recompute::full);
  EXPECT_TRUE(run.job.model.tied_embeddings && run.job.model.qkv_biases && run.job.model.mlp_biases);
  EXPECT_EQ(run.job.model.max_positions, 1024);
  EXPECT_DOUBLE_EQ(run.measured_s, 128 * 1024 / (20000.0 * 16));
}

TEST(PublicRows, ReducedModelsKeepTheirWidth) {
  const PublishedRun run = dgxc_runs(file_of("NVIDIA,H100,96,\"Llama-3.1-405B (or reduced layers, see layers)\",,21,,,,"
                                             "8192,8,3,2,,7,1,126,FP8,,5.63,,,"),
                                     "f.csv")
                               .at(0);
  EXPECT_EQ(run.job.model.layers, 21);
  EXPECT_EQ(run.job.model.hidden, 16384);
  EXPECT_EQ(run.job.parallel,
            (ParallelLayout{.dp = 2, .tp = 8, .pp = 3, .virtual_stages = 7, .cp = 2, .sequence_parallel = true}));
  EXPECT_EQ(run.job.schedule, "interleaved");
  EXPECT_EQ(run.job.dtype, DataType::fp8);
  EXPECT_EQ(run.measured_s, 5.63);
}

TEST(PublicRows, NemotronHasAPlainMlpAndGroupedQueries) {
  const PublishedRun run =
      dgxc_runs(file_of("NVIDIA,H100,16,Nemotron4-15B,15,,,,,4096,4,1,,,,4,64,BF16,,2.812,,,"), "f.csv").at(0);
  EXPECT_EQ(run.job.model.mlp, model::MlpKind::plain);
  EXPECT_EQ(run.job.model.kv_heads, 8);
  EXPECT_NEAR(static_cast<double>(parameter_count(run.job.model)), 15.6e9, 0.2e9);
}

TEST(PublicRows, FlagPerfTakesTheBatchFromNotesAndScripts) {
  const auto batch_of = [](const std::string& source, const std::string& note) {
    const std::string row = source + ",A800 80GB,8,,,,,,,2048,,,,,,3,,,,,3900,70," + note;
    return flagperf_runs(file_of(row), "f.csv").at(0).job.batch.global;
  };
  EXPECT_EQ(batch_of("FlagPerf llama2_7b-deepspeed", "LBS=3"), 3 * 8);
  EXPECT_EQ(batch_of("FlagPerf llama2_7b-deepspeed", "LBS=3 GAS=64"), 64 * 3 * 8);
  EXPECT_EQ(batch_of("FlagPerf aquila2_7b-flagscale", ""), 9 * 3 * 8);
}

TEST(PublicRows, FlagPerfsLlama3IsWhatItsScriptAsksMegatronFor) {
  const PublishedRun run =
      flagperf_runs(file_of("FlagPerf llama3_8B-megatron,A100 80GB,8,,,,,,,8192,1,2,,,,1,512,bf16,,,3698,76,"), "f.csv")
          .at(0);
  EXPECT_EQ(run.job.dropout, 0.1) << "Megatron's default";
  EXPECT_EQ(run.job.model.positions, model::PositionKind::learned);
  EXPECT_TRUE(run.job.model.mlp_biases);
  EXPECT_FALSE(find_fault(run.job));
}

TEST(PublicRows, A800HasTheLinksThatItsRowsRanOn) {
  const PublishedRun run =
      flagperf_runs(file_of("FlagPerf llama2_7b-deepspeed,A800 80GB,8,,,,,,,4096,,,,,,1,,,,,3564,57,"), "f.csv").at(0);
  EXPECT_EQ(run.job.cluster.intra_node.bytes_per_s, 200 * kGiga);
  EXPECT_EQ(run.job.zero, 3);
  EXPECT_EQ(run.measured_gib, 57);
}

TEST(PublicRows, SayWhichCellIsUnknown) {
  EXPECT_THAT(
      error_of([] { (void)dgxc_runs(file_of("NVIDIA,H900,16,GPT-3 175B,,,,,,2048,4,8,,,,1,64,BF16,,2,,,"), "f.csv"); }),
      testing::HasSubstr("f.csv:2:8: the gpu \"H900\""));
}

void expect_valid(const std::vector<PublishedRun>& runs, std::size_t rows) {
  ASSERT_EQ(runs.size(), rows);
  for (const PublishedRun& run : runs) {
    const std::optional<JobFault> fault = find_fault(run.job);
    EXPECT_FALSE(fault) << run.name << ": " << fault->member << ": " << fault->what;
    EXPECT_FALSE(find_fault(run.job.model)) << run.name;
  }
}

TEST(PublicRows, TorchtitanAndMlperf) {
  expect_valid(torchtitan_runs(), 16);
  expect_valid(mlperf_runs(), 2);
}

TEST(PublicRows, EveryRowIsAValidJob) {
  const std::string mpt = "public-rows/training_llmfoundry_mpt_a100.csv";
  const auto text = simulator::read_shared(mpt);
  if (!text) GTEST_SKIP() << simulator::kNoSharedData;
  const std::vector<PublishedRun> runs = llm_foundry_runs(*text, mpt);
  expect_valid(runs, 139);
  const CsvTable table(*text, mpt);
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const double stated = table.number(row, table.column("parameters_b")) * 1e9;
    EXPECT_NEAR(static_cast<double>(parameter_count(runs[row].job.model)), stated, 1e-6 * stated) << runs[row].name;
  }
  const std::string dgxc = "public-rows/training_dgxc_benchmarking.csv";
  expect_valid(dgxc_runs(simulator::read_shared(dgxc).value(), dgxc), 116);
  const std::string flagperf = "public-rows/training_flagperf.csv";
  const std::vector<PublishedRun> measured = flagperf_runs(simulator::read_shared(flagperf).value(), flagperf);
  expect_valid(measured, 31);
  const auto failed = std::ranges::find_if_not(measured, &PublishedRun::ran);
  ASSERT_NE(failed, measured.end());
  EXPECT_EQ(estimate_memory(failed->job).fit(), MemoryFit::exceeds) << "it ran out of memory";
}

}  // namespace
}  // namespace lowgear::estimator
