#include "estimating/sampling/sampling_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"

namespace lowgear::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Words = std::vector<std::string>;

SamplingOptions parse(const Words& words) { return parse_sampling_options(words); }

TEST(SamplingOptions, SampleEverythingByDefault) {
  const SamplingOptions options = parse({"operators", "--out", "samples"});
  EXPECT_EQ(options.folder, "samples");
  EXPECT_EQ(options.operators.size(), static_cast<std::size_t>(kSampledOperators - 3));
  EXPECT_EQ(options.type, SampleType::bf16);
  EXPECT_TRUE(options.gpu);
  EXPECT_EQ(options.grid.hidden, default_grid().hidden);
  EXPECT_EQ(parse({"collectives", "--out", "samples"}).collectives.size(),
            static_cast<std::size_t>(kSampledCollectives));
}

TEST(SamplingOptions, AreReadInAnyOrder) {
  const SamplingOptions options =
      parse({"operators", "--hidden", "64,128",       "--quick", "--out",     "x",           "--dtype",  "fp32",
             "--device",  "cpu",      "--part",       "2/3",     "--repeats", "7",           "--energy", "0",
             "--window",  "0.5",      "--time-limit", "60",      "--json",    "--operators", "gelu"});
  EXPECT_THAT(options.grid.hidden, ElementsAre(64, 128));
  EXPECT_EQ(options.grid.tp, quick_grid().tp);
  EXPECT_EQ(options.part, (SamplePart{.index = 2, .count = 3}));
  EXPECT_EQ(options.type, SampleType::fp32);
  EXPECT_FALSE(options.gpu);
  EXPECT_EQ(options.repeats, 7);
  EXPECT_EQ(options.energy_points, 0);
  EXPECT_DOUBLE_EQ(options.window_s, 0.5);
  EXPECT_DOUBLE_EQ(options.time_limit_s, 60);
  EXPECT_TRUE(options.json);
  EXPECT_THAT(options.operators, ElementsAre(SampledOperator::gelu));
}

TEST(SamplingOptions, ReadSizesOfMessages) {
  const SamplingOptions options =
      parse({"collectives", "--out", "x", "--min-bytes", "2048", "--max-bytes", "4096", "--collectives", "p2p"});
  EXPECT_EQ(options.sizes.smallest, 2048);
  EXPECT_EQ(options.sizes.largest, 4096);
  EXPECT_THAT(options.collectives, ElementsAre(SampledCollective::send));
}

TEST(SamplingOptions, OfACurveHaveTheirOwnDefaults) {
  const SamplingOptions options = parse({"curve", "--out", "x"});
  EXPECT_EQ(options.subject, SamplingSubject::curve);
  EXPECT_DOUBLE_EQ(options.window_s, 2.2);
  EXPECT_DOUBLE_EQ(options.time_limit_s, 540);
  EXPECT_FALSE(options.fit_only);
  EXPECT_TRUE(parse({"curve", "--out", "x", "--fit"}).fit_only);
  EXPECT_DOUBLE_EQ(parse({"curve", "--out", "x", "--window", "1"}).window_s, 1);
}

struct BadWords {
  Words words;
  std::string message;
};
class BadSamplingOptions : public ::testing::TestWithParam<BadWords> {};

TEST_P(BadSamplingOptions, SayWhatIsWrong) {
  EXPECT_THAT(error_of([&] { (void)parse(GetParam().words); }), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Words, BadSamplingOptions,
    ::testing::Values(
        BadWords{{}, "say what to sample"}, BadWords{{"kernels"}, "\"kernels\" cannot be sampled"},
        BadWords{{"operators"}, "--out: give the folder"}, BadWords{{"operators", "--uot", "x"}, "did you mean --out?"},
        BadWords{{"operators", "--out"}, "--out: give it a value"},
        BadWords{{"operators", "--out", "x", "--heads", "8", "--head-dim", "64"}, "--heads: give it or --head-dim"},
        BadWords{{"operators", "--out", "x", "--heads", "0"}, "--heads: 0 is not in 1 to"},
        BadWords{{"operators", "--out", "x", "--out", "y"}, "--out: given twice"},
        BadWords{{"operators", "--out", "x", "--part", "0/4"}, "--part: \"0/4\""},
        BadWords{{"operators", "--out", "x", "--part", "5/4"}, "--part"},
        BadWords{{"operators", "--out", "x", "--part", "2"}, "--part"},
        BadWords{{"operators", "--out", "x", "--part", "1/99999999"}, "--part"},
        BadWords{{"operators", "--out", "x", "--hidden", "64,"}, "--hidden"},
        BadWords{{"operators", "--out", "x", "--hidden", "-64"}, "--hidden: -64 is not in 1 to"},
        BadWords{{"operators", "--out", "x", "--tp", "9999999999999999999"}, "--tp"},
        BadWords{{"operators", "--out", "x", "--dtype", "fp8"}, "--dtype: \"fp8\""},
        BadWords{{"operators", "--out", "x", "--device", "gpu"}, "--device"},
        BadWords{{"operators", "--out", "x", "--repeats", "0"}, "--repeats"},
        BadWords{{"operators", "--out", "x", "--window", "nan"}, "--window"},
        BadWords{{"operators", "--out", "x", "--max-bytes", "9"}, "--max-bytes: can only be used with collectives"},
        BadWords{{"collectives", "--out", "x", "--hidden", "64"}, "--hidden: can only be used with operators"},
        BadWords{{"collectives", "--out", "x", "--fit"}, "--fit: can only be used with curve"},
        BadWords{{"curve", "--out", "x", "--hidden", "64"}, "--hidden: can only be used with operators"},
        BadWords{{"curve", "--out", "x", "--dtype", "bf16"},
                 "--dtype: can only be used with operators and collectives"},
        BadWords{{"collectives", "--out", "x", "--max-bytes", "9"}, "--max-bytes: \"9\""}));

}  // namespace
}  // namespace lowgear::sampling
