#include "server/perseus/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"

namespace lowgear::server::perseus {
namespace {

using ::testing::HasSubstr;

class PerseusSettingsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "lowgear-perseus-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static std::string refusal(std::string_view scheduler, std::string_view args, std::string_view mode = "") {
    return lowgear::error_of([&] { static_cast<void>(read_perseus_settings(scheduler, args, mode)); });
  }
  [[nodiscard]] std::string solution_args(const std::string& more = "") const {
    return R"({"solution_path": ")" + folder.string() + "\"" + more + "}";
  }

  std::filesystem::path folder;
};

TEST_F(PerseusSettingsTest, ArgumentsHaveTheArtifactsDefaults) {
  const Settings profiler = read_perseus_settings("InstructionProfiler", "", "frequency");
  EXPECT_EQ(profiler.mode, Mode::frequency);
  EXPECT_EQ(profiler.arguments.warmup_step_ratio, 0.1);
  EXPECT_EQ(profiler.arguments.minimum_power_state, 850);
  EXPECT_EQ(default_perseus_mode("InstructionProfiler"), "frequency");
  EXPECT_EQ(default_perseus_mode("ZeusGlobalPowerLimit"), "power limit");
  EXPECT_EQ(read_perseus_settings("ZeusGlobalPowerLimit", "", "unspecified").mode, Mode::power_limit);
  EXPECT_EQ(read_perseus_settings("AllMaxFrequency", R"({"num_iters": 7})", "").arguments.num_iters, 7);
}

TEST_F(PerseusSettingsTest, WhatIsNotThereIsRefusedByName) {
  EXPECT_THAT(refusal("PointSoluton", ""),
              HasSubstr("no scheduler \"PointSoluton\"; schedulers are AllMaxFrequency, "));
  EXPECT_THAT(refusal("AllMaxFrequency", R"({"iters": 1})"),
              HasSubstr("$.iters: AllMaxFrequency has no such argument; it takes num_iters"));
  EXPECT_THAT(refusal("TwoFrequencies", R"({"forward_freq": 900})"), HasSubstr("backward_freq"));
  EXPECT_THAT(refusal("Lowgear", "{}"), HasSubstr("blocking_power_w"));
  EXPECT_THAT(refusal("Lowgear", R"({"blocking_power_w": [80, -1]})"), HasSubstr("$.blocking_power_w[1]"));
  EXPECT_THAT(refusal("Lowgear", R"({"blocking_power_w": []})"), HasSubstr("no power"));
  EXPECT_THAT(refusal("AllMaxFrequency", "[]"), HasSubstr("no object"));
  EXPECT_THAT(refusal("AllMaxFrequency", "", "power limit"), HasSubstr("AllMaxFrequency sets frequency states"));
  EXPECT_THAT(refusal("InstructionProfiler", ""), HasSubstr("set the mode"));
  EXPECT_THAT(refusal("InstructionProfiler", "", "fast"), HasSubstr("no mode \"fast\""));
  EXPECT_THAT(refusal("ZeusLocalPowerState", R"({"balanced_phase": "load"})", "frequency"),
              HasSubstr("$.balanced_phase"));
}

TEST_F(PerseusSettingsTest, PlansOfAFolderRunInTheOrderOfTheirNames) {
  write_file_atomically(folder / "freqs_pipeline_00002.py", "[[1200, 1200]]\n# Iteration 2: total cost 1 \n");
  write_file_atomically(folder / "freqs_pipeline_00001.py", "[[900, 900]]");
  write_file_atomically(folder / "readme.txt", "no plan");
  const auto forwards = read_perseus_settings("PointSolution", solution_args(), "frequency").solutions;
  ASSERT_EQ(forwards->size(), 2U);
  EXPECT_EQ(forwards->front().stages[0][0].clock_mhz, 900);
  const auto backwards = read_perseus_settings("PointSolution3D", solution_args(", \"reverse\": true"), "frequency");
  EXPECT_EQ(backwards.solutions->front().stages[0][0].clock_mhz, 1200);
}

TEST_F(PerseusSettingsTest, APlanIsDataAndNoProgram) {
  write_file_atomically(folder / "plan.py", "__import__('os').system('true')");
  EXPECT_THAT(refusal("PointSolution", solution_args(), "frequency"), HasSubstr("plan.py:1:1"));
}

TEST_F(PerseusSettingsTest, APathWithoutPlansIsRefused) {
  EXPECT_THAT(refusal("PointSolution", solution_args(), "frequency"), HasSubstr("no .py files"));
  EXPECT_THAT(refusal("PointSolution", R"({"solution_path": "/nowhere"})", "frequency"), HasSubstr("/nowhere"));
  EXPECT_THAT(refusal("PointSolution", R"({"solution_path": "/nowhere.py"})", "frequency"), HasSubstr("/nowhere.py"));
}

TEST_F(PerseusSettingsTest, OtherPlansHaveAnotherFingerprint) {
  write_file_atomically(folder / "plan.py", "[[900, 900]]");
  const std::string first = read_perseus_settings("PointSolution", solution_args(), "frequency").fingerprint();
  EXPECT_EQ(read_perseus_settings("PointSolution", solution_args(), "frequency").fingerprint(), first);
  write_file_atomically(folder / "plan.py", "[[900, 1200]]");
  EXPECT_NE(read_perseus_settings("PointSolution", solution_args(), "frequency").fingerprint(), first);
  EXPECT_NE(read_perseus_settings("AllMaxFrequency", "", "").fingerprint(),
            read_perseus_settings("AllMaxFrequency", R"({"num_iters": 2})", "").fingerprint());
}

TEST_F(PerseusSettingsTest, InfoSaysWhatClientsRead) {
  Settings settings = read_perseus_settings("ZeusGlobalPowerLimit", R"({"eta_knob": 1})", "");
  EXPECT_EQ(perseus_server_info(settings).dump(),
            R"({"scheduler":"ZeusGlobalPowerLimit","scheduler_args":{"eta_knob":1},"log_level":"INFO",)"
            R"("mode":"power limit","dump_data":false,"dump_dir":""})");
  settings.dump_dir = "dump";
  EXPECT_EQ(perseus_server_info(settings)["dump_data"], true);
  settings.log_level = read_perseus_log_level("debug");
  EXPECT_EQ(perseus_server_info(settings)["log_level"], "DEBUG");
}

TEST_F(PerseusSettingsTest, LogLevelsAreThoseOfPython) {
  EXPECT_EQ(read_perseus_log_level(""), "INFO");
  EXPECT_EQ(read_perseus_log_level("Warning"), "WARNING");
  EXPECT_THROW((void)read_perseus_log_level("verbose"), InputError);
}

}  // namespace
}  // namespace lowgear::server::perseus
