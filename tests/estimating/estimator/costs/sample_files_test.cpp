#include "estimating/estimator/costs/sample_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "estimating/estimator/shared_samples.h"

namespace lowgear::estimator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Matrix products of one rank that run at 60 % of the peak, backward at the same rate.
OperatorSamples honest_products(const GpuModel& gpu) {
  OperatorSamples samples{.source = "folder/linear.csv", .function = find_sampled_function("linear1")};
  int line = 1;
  for (std::int64_t sequence = 512; sequence <= 8192; sequence += 512) {
    for (const std::int64_t hidden : {1024, 2048, 4096}) {
      const SampledShape shape{.ranks = 1, .batch = 2, .sequence = sequence, .hidden = hidden};
      const double forward_s =
          flops(*operator_of(*samples.function, shape, Pass::forward, DataType::fp16)) / (0.6 * gpu.fp16_flops);
      samples.rows.push_back({shape, forward_s, 2 * forward_s, ++line});
    }
  }
  return samples;
}

std::size_t discarded(const CleanSamples& clean, const std::string& reason) {
  std::size_t count = 0;
  for (const DiscardedSamples& out : clean.discarded) {
    if (out.reason.find(reason) != std::string::npos) count += out.lines.size();
  }
  return count;
}

TEST(SampleCleaning, KeepsWhatCanBe) {
  const GpuModel gpu = named_gpu("a100");
  const OperatorSamples samples = honest_products(gpu);
  const CleanSamples clean = clean_samples(samples, gpu);
  EXPECT_THAT(clean.discarded, IsEmpty());
  EXPECT_EQ(clean.forward.size(), samples.rows.size());
  EXPECT_EQ(clean.backward.size(), samples.rows.size());
  EXPECT_DOUBLE_EQ(clean.forward[3].time_s, samples.rows[3].forward_s);
}

TEST(SampleCleaning, ThrowsOutWhatIsFasterThanTheGpu) {
  const GpuModel gpu = named_gpu("a100");
  OperatorSamples samples = honest_products(gpu);
  samples.rows[5].forward_s *= 0.5;  // 120 % of the peak
  const CleanSamples clean = clean_samples(samples, gpu);
  ASSERT_EQ(clean.discarded.size(), 1U);
  EXPECT_THAT(clean.discarded[0].lines, ElementsAre(samples.rows[5].line));
  EXPECT_EQ(clean.forward.size(), samples.rows.size() - 1);
  EXPECT_EQ(clean.backward.size(), samples.rows.size());
  EXPECT_EQ(to_string(clean.discarded[0]),
            "linear.csv: 1 of 48 samples removed: forward takes less time than the a100-80gb-sxm needs to compute or "
            "move (line 7)");
}

TEST(SampleCleaning, ThrowsOutBothPassesWhereBackwardIsTheFasterOne) {
  const GpuModel gpu = named_gpu("a100");
  OperatorSamples samples = honest_products(gpu);
  samples.rows[5].forward_s *= 2.5;
  const CleanSamples clean = clean_samples(samples, gpu);
  EXPECT_EQ(discarded(clean, "backward is faster than forward"), 1U);
  EXPECT_EQ(clean.forward.size(), samples.rows.size() - 1);
  EXPECT_EQ(clean.backward.size(), samples.rows.size() - 1);
}

TEST(SampleCleaning, BelievesNothingOfAPassThatIsMostlyImpossible) {
  const GpuModel gpu = named_gpu("a100");
  OperatorSamples samples = honest_products(gpu);
  for (std::size_t i = 0; i < samples.rows.size(); ++i) {
    if (i % 4 != 0) samples.rows[i].backward_s = 1e-5;
  }
  const CleanSamples clean = clean_samples(samples, gpu);
  EXPECT_THAT(clean.backward, IsEmpty());
  EXPECT_EQ(clean.forward.size(), samples.rows.size());
  EXPECT_THAT(to_string(clean.discarded[0]), HasSubstr("in 36 of 48: no time of this pass is used"));
}

TEST(SampleCleaning, ThrowsOutWhatIsFarFromItsNeighbours) {
  const GpuModel gpu = named_gpu("a100");
  OperatorSamples samples = honest_products(gpu);
  samples.rows[40].backward_s *= 30;
  const CleanSamples clean = clean_samples(samples, gpu);
  EXPECT_EQ(discarded(clean, "off the trend of the others"), 1U);
  EXPECT_EQ(clean.backward.size(), samples.rows.size() - 1);
}

TEST(SampleCleaning, LetsSmallTensorsBeFasterThanTheMemory) {
  const GpuModel gpu = named_gpu("a100");
  OperatorSamples samples{.source = "gelu.csv", .function = find_sampled_function("gelu")};
  samples.rows.push_back({{.ranks = 1, .batch = 1, .sequence = 1024, .hidden = 1024}, 2e-6, 3e-6, 2});  // 8 MB, in L2
  EXPECT_THAT(clean_samples(samples, gpu).discarded, IsEmpty());
  samples.rows.push_back({{.ranks = 1, .batch = 16, .sequence = 4096, .hidden = 4096}, 1e-4, 3e-2, 3});  // 42 TB/s
  EXPECT_EQ(discarded(clean_samples(samples, gpu), "takes less time than"), 1U);
}

TEST(SampleCleaning, HalvesAttentionWithoutACausalMask) {
  const GpuModel gpu = named_gpu("a100");
  OperatorSamples samples{.source = "flash.csv", .function = find_sampled_function("flash_atten"), .uncausal = true};
  samples.rows.push_back({{.ranks = 1, .batch = 4, .heads = 32, .sequence = 4096, .hidden = 4096}, 8e-3, 2e-2, 2});
  const CleanSamples clean = clean_samples(samples, gpu);
  EXPECT_DOUBLE_EQ(clean.forward[0].time_s, 4e-3);
  EXPECT_DOUBLE_EQ(clean.backward[0].time_s, 1e-2);
}

TEST(SampleCleaning, ThrowsOutCollectivesThatTookTheSameForAllSizes) {
  CollectiveSamples samples{.source = "allgather.csv", .kind = CollectiveKind::all_gather};
  for (int i = 1; i <= 20; ++i) {
    const double elements = 1e6 * i;
    const bool measured = i % 4 == 0;
    samples.rows.push_back({elements, {8, 1}, measured ? elements * 16 / 25e9 : 118e-6 * (1 + 0.002 * (i % 3)), i + 1});
  }
  const CleanCollectives clean = clean_samples(samples, named_gpu("gh200"));
  EXPECT_EQ(clean.rows.size(), 5U);
  ASSERT_EQ(clean.discarded.size(), 1U);
  EXPECT_THAT(to_string(clean.discarded[0]), HasSubstr("118 us whatever the size"));
}

TEST(SampleCleaning, ThrowsOutCollectivesFasterThanTheMemory) {
  CollectiveSamples samples{.source = "allreduce.csv", .kind = CollectiveKind::all_reduce};
  samples.rows.push_back({1e9, {8, 8}, 5e-3, 2});
  samples.rows.push_back({1e9, {8, 8}, 2e-4, 3});  // 8.75 TB/s
  const CleanCollectives clean = clean_samples(samples, named_gpu("a100"));
  EXPECT_EQ(clean.rows.size(), 1U);
}

/// The defects that research on the published samples names, each found by physics alone.
class PublishedDefects : public ::testing::Test {
 protected:
  static std::optional<CleanSamples> clean(const std::string& folder, const std::string& gpu, const std::string& prefix,
                                           const std::string& function) {
    const std::string name = prefix + "_" + function + "_fp16.csv";
    const auto text = read_shared_samples(folder + "/operator/" + name);
    if (!text) return std::nullopt;
    return clean_samples(parse_operator_samples(*text, name, *find_sampled_function(function), DataType::fp16),
                         named_gpu(gpu));
  }
  static std::optional<CleanSamples> vista(const std::string& function) {
    return clean("vista", "gh200", "NVIDIAGH200120GB", function);
  }
};

TEST_F(PublishedDefects, VistaFlashBackward) {
  const auto clean = vista("flash_atten");
  if (!clean) GTEST_SKIP() << kNoSharedSamples;
  EXPECT_THAT(clean->backward, IsEmpty());
  EXPECT_EQ(clean->forward.size(), 4068U);
  EXPECT_THAT(clean->discarded[0].reason, HasSubstr("in 3936 of 4068"));  // 97 %
}

TEST_F(PublishedDefects, VistaFirstStageOptimizerOutliers) {
  const auto clean = vista("firstStage_optimizer");
  if (!clean) GTEST_SKIP() << kNoSharedSamples;
  EXPECT_EQ(discarded(*clean, "off the trend"), 48U);
  for (const TimedOperator& row : clean->forward) EXPECT_LT(row.time_s, 0.1);
}

TEST_F(PublishedDefects, VistaOptimizersFasterThanMemory) {
  const auto clean = vista("middleStage_optimizer");
  if (!clean) GTEST_SKIP() << kNoSharedSamples;
  EXPECT_GT(discarded(*clean, "than the gh200 needs"), 100U);
}

TEST_F(PublishedDefects, VistaMaskOfHugeTensorsMeasuredInPart) {
  const auto clean = vista("fillmask");
  if (!clean) GTEST_SKIP() << kNoSharedSamples;
  EXPECT_GT(4608 - clean->forward.size(), 900U);
  EXPECT_GT(clean->backward.size(), 4590U);
}

TEST_F(PublishedDefects, VistaAllgatherPlateau) {
  const std::string name = "NVIDIAGH200120GB_allgather_large_fp16_8_1.csv";
  const auto text = read_shared_samples("vista/nccl/" + name);
  if (!text) GTEST_SKIP() << kNoSharedSamples;
  const CleanCollectives clean = clean_samples(
      parse_collective_samples(*text, name, CollectiveKind::all_gather, DataType::fp16), named_gpu("gh200"));
  EXPECT_EQ(clean.rows.size(), 195U - 167U);  // 86 %
}

TEST_F(PublishedDefects, LeaveHonestFilesAlone) {
  for (const char* const function : {"linear1", "linear3", "linear4", "linear_final", "RMSlayernorm", "gelu"}) {
    const auto clean = PublishedDefects::clean("perlmutter", "a100", "NVIDIAA100-SXM4-80GB", function);
    if (!clean) GTEST_SKIP() << kNoSharedSamples;
    EXPECT_THAT(clean->discarded, IsEmpty()) << function;
  }
}

}  // namespace
}  // namespace lowgear::estimator
