#include "rivals/policies/envpipe/envpipe_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear::policies {
namespace {

using testing::HasSubstr;

std::string config_with(const std::string& settings) {
  return R"({"train_batch_size": 9, "fp16": {"enabled": true}, "envpipe": {)" + settings + "}}";
}

std::string config_error(const std::string& text) {
  return error_of([&] { (void)read_envpipe_config(text, "ds_config.json"); });
}

TEST(EnvPipeConfig, IsReadAsEnvPipeReadsIt) {
  const EnvPipeOptions options =
      read_envpipe_config(config_with(R"("type": "envelope", "scheduling": "1f1b", "reconfig": "greedy", "gpu": "a100",
                "reconfigure_threshold_scale": "10")"),
                          "ds_config.json");
  EXPECT_EQ(options.type, EnvPipeOptions::Type::envelope);
  EXPECT_EQ(options.order, EnvPipeOptions::Order::given);
  EXPECT_EQ(options.reconfiguration, EnvPipeOptions::Reconfiguration::greedy);
  EXPECT_EQ(options.threshold_scale, 10);
  EXPECT_EQ(options.start_clock_mhz, 1350);
  EXPECT_EQ(options.lowest_clock_mhz, 810);
  const EnvPipeOptions least = read_envpipe_config(
      config_with(
          R"("type": "baseline", "scheduling": "ours", "reconfig": "default", "reconfigure_threshold_scale": 8)"),
      "ds_config.json");
  EXPECT_EQ(least.type, EnvPipeOptions::Type::baseline);
  EXPECT_EQ(least.order, EnvPipeOptions::Order::own);
  EXPECT_EQ(least.reconfiguration, EnvPipeOptions::Reconfiguration::off);
  EXPECT_EQ(least.threshold_scale, 8);
  EXPECT_FALSE(least.start_clock_mhz);
}

TEST(EnvPipeConfig, NamesWhatIsWrong) {
  EXPECT_THAT(config_error("{}"), HasSubstr("envpipe"));
  EXPECT_THAT(config_error(config_with(R"("type": "envpipe", "scheduling": "1f1b", "reconfig": "default")")),
              testing::AllOf(HasSubstr("$.envpipe.type"), HasSubstr("baseline, uniform, envelope")));
  EXPECT_THAT(config_error(config_with(R"("type": "uniform", "scheduling": "1f1b")")), HasSubstr("reconfig"));
  EXPECT_THAT(
      config_error(config_with(R"("type": "uniform", "scheduling": "1f1b", "reconfig": "default",
                                 "reconfigure_treshold_scale": 8)")),
      testing::AllOf(HasSubstr("$.envpipe.reconfigure_treshold_scale"), HasSubstr("type, scheduling, reconfig")))
      << "a setting that is not read is not ignored";
  EXPECT_THAT(config_error(config_with(R"("type": "uniform", "scheduling": "1f1b", "reconfig": "default",
                                 "reconfigure_threshold_scale": "four")")),
              HasSubstr("reconfigure_threshold_scale"));
}

TEST(EnvPipeConfig, AGpuThatEnvPipeDoesNotListNeedsItsClocks) {
  EnvPipeOptions options = read_envpipe_config(
      config_with(R"("type": "uniform", "scheduling": "1f1b", "reconfig": "default", "gpu": "newarch")"), "ds.json");
  const auto error = [](const EnvPipeOptions& given) { return error_of([&] { require_valid(given); }); };
  EXPECT_THAT(error(options), testing::AllOf(HasSubstr("newarch"), HasSubstr("v100, rtx3090, a100, a6000"),
                                             HasSubstr("--envpipe-start-clock and --envpipe-lowest-clock")));
  options.start_clock_mhz = 1980;
  EXPECT_THAT(error(options), HasSubstr("newarch")) << "one of both";
  options.lowest_clock_mhz = 900;
  EXPECT_EQ(error(options), "no error");
}

}  // namespace
}  // namespace lowgear::policies
