#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ProgramResult estimate_from(const std::string& folder, const std::vector<std::string>& others = {"--gpu", "a100"}) {
  std::vector<std::string> arguments = {"estimate", "--model", "llama-2-7b", "--gpus",      "8",   "--global-batch",
                                        "8",        "--seq",   "2048",       "--operators", folder};
  arguments.insert(arguments.end(), others.begin(), others.end());
  return run_lowgear(arguments);
}

/// A norm that takes as long as a hundred GB/s move its tensors.
std::string slow_norm() {
  std::string text = "b,l,dim,F_dur(us),B_dur(us)\n";
  for (int length = 512; length <= 4096; length += 512) {
    for (const int width : {2048, 4096, 8192}) {
      const double us = 4.0 * length * width / 100e3;
      text += fmt::format("1,{},{},{},{}\n", length, width, us, 1.5 * us);
    }
  }
  return text;
}

TEST(EstimateFromSamples, TakesTimesFromThemAndSaysWhatIsNotInThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "operator");
  write_text(folder / "operator/NVIDIAA100-SXM4-80GB_RMSlayernorm_bf16.csv", slow_norm());
  const ProgramResult sampled = estimate_from(folder.path().string(), {"--gpu", "a100", "--json"});
  ASSERT_EQ(sampled.exit_code, 0) << sampled.err;
  const Json json = parse_json(sampled.out, "out");
  const Json plain = parse_json(run_lowgear({"estimate", "--model", "llama-2-7b", "--gpu", "a100", "--gpus", "8",
                                             "--global-batch", "8", "--seq", "2048", "--json"})
                                    .out,
                                "out");
  EXPECT_GT(json["iteration"]["time_s"].get<double>(), 1.05 * plain["iteration"]["time_s"].get<double>());
  const std::string text = estimate_from(folder.path().string()).out;
  EXPECT_THAT(text, HasSubstr("note: linear: no samples; taken from the GPU's data sheet"));
  EXPECT_THAT(text, Not(HasSubstr("rms_norm: no samples")));
}

/// A mixture of experts that computes at 20 TFLOP/s.
std::string slow_experts() {
  std::string text = "mp,b,l,dim,moe_num_experts,intermediate_size,top_k,F_dur(us),B_dur(us)\n";
  for (int length = 1024; length <= 4096; length += 1024) {
    for (const int width : {7168, 14336}) {
      const double us = 2.0 * 3 * 2 * length * 4096 * width / 20e6;
      text += fmt::format("1,1,{},4096,8,{},2,{},{}\n", length, width, us, 2 * us);
    }
  }
  return text;
}

TEST(EstimateFromSamples, SaysWhetherExpertsWereSampled) {
  const TemporaryFolder folder;
  write_text(folder / "NVIDIAA100-SXM4-80GB_RMSlayernorm_bf16.csv", slow_norm());
  const std::vector<std::string> arguments = {"estimate", "--model",     "mixtral-8x7b",        "--gpu", "a100",
                                              "--gpus",   "8",           "--global-batch",      "8",     "--seq",
                                              "2048",     "--operators", folder.path().string()};
  const std::string parts = run_lowgear(arguments).out;
  EXPECT_THAT(parts, HasSubstr("note: gated_experts: no samples; made of its products, permutations and activation"));
  write_text(folder / "NVIDIAA100-SXM4-80GB_gated_moe_bf16.csv", slow_experts());
  const std::string whole = run_lowgear(arguments).out;
  EXPECT_THAT(whole, HasSubstr("note: gated_experts: taken from samples of the whole layer"));
  EXPECT_THAT(whole, Not(HasSubstr("gated_experts: no samples")));
}

TEST(EstimateFromSamples, ReadsTheProjectsOwn) {
  const std::filesystem::path data = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "data";
  const std::string operators = estimate_from((data / "h100-sxm").string(), {"--gpu", "h100-sxm"}).out;
  EXPECT_THAT(operators, HasSubstr("estimated iteration"));
  EXPECT_THAT(operators, Not(HasSubstr("note: linear: no samples")));
  const std::string collectives = estimate_from((data / "h200-sxm").string(), {"--gpu", "h200-sxm", "--tp", "2"}).out;
  EXPECT_THAT(collectives, HasSubstr("note: linear: no samples"));
  EXPECT_THAT(collectives, Not(HasSubstr("all_reduce of 1 x 2 GPUs: no samples")));
}

TEST(EstimateFromSamples, SaysWhereSamplesAreOfNoKnownGpu) {
  const TemporaryFolder folder;
  const auto note = folder.path().string() + ": its samples are of CPU, which is not in the catalogue";
  write_text(folder / "CPU_RMSlayernorm_bf16.csv", slow_norm());
  EXPECT_THAT(estimate_from(folder.path().string()).out, HasSubstr(note));
  write_text(folder / "NVIDIAA100-SXM4-80GB_RMSlayernorm_bf16.csv", slow_norm());
  EXPECT_THAT(estimate_from(folder.path().string()).out, Not(HasSubstr(note))) << "those of the GPU are taken";
}

TEST(EstimateFromSamples, RefusesWrongColumnsWithTheirLine) {
  const TemporaryFolder folder;
  const std::string path =
      write_text(folder / "NVIDIAA100-SXM4-80GB_linear1_bf16.csv", "mp,b,l,F_dur(us),B_dur(us)\n1,2,3,4,5\n");
  EXPECT_THAT(refusal_of(estimate_from(folder.path().string())), HasSubstr(path + ":1: there is no column \"dim\""));
}

TEST(EstimateFromSamples, RefusesRowsThatCannotBeWithTheirLine) {
  const TemporaryFolder folder;
  const std::string path = write_text(folder / "NVIDIAA100-SXM4-80GB_RMSlayernorm_bf16.csv",
                                      "b,l,dim,F_dur(us),B_dur(us)\n1,2048,4096,50,60\n1,2048,4096,0,60\n");
  EXPECT_THAT(refusal_of(estimate_from(folder.path().string())),
              HasSubstr(path + ":3:13: a time of 0 us cannot have been measured"));
}

TEST(EstimateFromSamples, RefusesEmptySets) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal_of(estimate_from(folder.path().string())), HasSubstr("has no sampling files"));
  const std::string path =
      write_text(folder / "NVIDIAA100-SXM4-80GB_RMSlayernorm_bf16.csv", "b,l,dim,F_dur(us),B_dur(us)\n");
  EXPECT_THAT(refusal_of(estimate_from(folder.path().string())), HasSubstr(path + ": has no samples"));
  EXPECT_EQ(estimate_from((folder / "absent").string()).exit_code, 2);
}

TEST(EstimateFromSamples, RefusesAnotherGpus) {
  const TemporaryFolder folder;
  write_text(folder / "NVIDIAGH200120GB_RMSlayernorm_bf16.csv", slow_norm());
  EXPECT_THAT(refusal_of(estimate_from(folder.path().string())),
              HasSubstr("was sampled on NVIDIAGH200120GB, not on a100-80gb-sxm"));
}

TEST(EstimateByThePublishedFormula, ReproducesThePublishedExample) {
  const std::filesystem::path data = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/operators";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "NOT CHECKED: ../shared/data/operators is absent";
  const Json json = json_of({"estimate", "--peer-formula", "--job", (data / "configs/llemma_7b_4_2_2_P.yml").string(),
                             "--operators", (data / "perlmutter").string()});
  EXPECT_NEAR(json["time_s"].get<double>() / 9.5088100905, 1, 0.03);
  EXPECT_EQ(json["stages"]["middle"]["layers"], 9);
  EXPECT_NEAR(json["time_s"],
              json["pipeline_s"].get<double>() + json["gradients_s"].get<double>() + json["update_s"].get<double>(),
              1e-9);
}

TEST(EstimateByThePublishedFormula, NeedsAFileOfThePublishedTool) {
  const TemporaryFolder folder;
  EXPECT_THAT(run_lowgear({"estimate", "--peer-formula"}).err, HasSubstr("there is no job; give a file"));
  const std::string own = write_text(folder / "job.yaml", "model: llama-2-7b\n");
  EXPECT_THAT(refusal_of({"estimate", "--peer-formula", "--job", own}),
              HasSubstr(own + ": is not a job of the published estimator"));
  EXPECT_THAT(refusal_of({"estimate", "--peer-formula", "--job", own, "--tp", "4"}), HasSubstr("leave --tp 4 out"));
  EXPECT_EQ(run_lowgear({"estimate", "--peer-formula", "--job", own, "--plan"}).exit_code, 2);
}

TEST(EstimateByThePublishedFormula, SaysWhichSamplesAreMissing) {
  const TemporaryFolder folder;
  const std::string job = write_text(
      folder / "job.yml",
      "{'gpu_name': 'G', 'operator_data_folder': './o', 'nccl_data_folder': './n', 'training_config': [1, 1, 1, 4, 32, "
      "4096, 4096, 8, 4], 'comm_bucket': 1000, 'encoders': 32, 'function_list': ['linear1'], 'encoder_function_list': "
      "['linear1'], 'layernorm_name': 'layernorm', 'fwd_syncs': 2, 'bwd_syncs': 2}\n");
  EXPECT_THAT(refusal_of({"estimate", "--peer-formula", "--job", job}),
              HasSubstr("operator_data_folder: there is no folder \"./o\", neither next to the job nor in "
                        "the current folder; give the folder that has the folders operator and nccl with "
                        "--operators"));
  std::filesystem::create_directory(folder / "o");
  std::filesystem::create_directory(folder / "n");
  EXPECT_THAT(run_lowgear({"estimate", "--peer-formula", "--job", job}).err, HasSubstr("o/G.csv"));
}

/// The tool's users keep jobs in one folder and samples in another, and call it from the folder above both.
TEST(EstimateByThePublishedFormula, LooksForTheFoldersOfAJobInTheCurrentFolderToo) {
  const std::filesystem::path data = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/operators";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "NOT CHECKED: ../shared/data/operators is absent";
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "target_config");
  std::filesystem::create_directories(folder / "regressors");
  std::filesystem::copy_file(data / "configs/llemma_7b_4_2_2_P.yml", folder / "target_config/job.yml");
  std::filesystem::create_directory_symlink(std::filesystem::canonical(data / "perlmutter"),
                                            folder / "regressors/Perlmutter");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const ProgramResult result = run_lowgear({"estimate", "--peer-formula", "--job", "./target_config/job.yml"});
  std::filesystem::current_path(before);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("iteration 9.5"));
}

TEST(EstimateExamples, AreListedShownAndEstimated) {
  EXPECT_THAT(run_lowgear({"estimate", "--examples"}).out, HasSubstr("llemma_7b_4_2_2_V"));
  const ProgramResult shown = run_lowgear({"estimate", "--show-example", "llemma-7b-vista"});
  EXPECT_THAT(shown.out, HasSubstr("training_config: [4, 2, 2, 4, 32, 4096, 4096, 8, 1]"));
  const ProgramResult estimated = run_lowgear({"estimate", "--example", "llemma-7b-vista", "--json"});
  ASSERT_EQ(estimated.exit_code, 0) << estimated.err;
  const double time_s = parse_json(estimated.out, "out")["time_s"];
  EXPECT_NEAR(time_s / 4.7599400279, 1, 0.015);
  // What is shown can be changed and read again, by the published formula and by Lowgear's own.
  const TemporaryFolder folder;
  const std::string job = write_text(folder / "job.yml", shown.out);
  const ProgramResult again = run_lowgear({"estimate", "--peer-formula", "--job", job, "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(parse_json(again.out, "out")["time_s"], time_s);
  EXPECT_EQ(run_lowgear({"estimate", "--job", job}).exit_code, 0);
}

TEST(EstimateExamples, RefuseOptionsThatChangeThem) {
  EXPECT_THAT(run_lowgear({"estimate", "--example", "llemma-7b-vista", "--tp", "4"}).err,
              HasSubstr("leave --tp 4 out"));
  EXPECT_THAT(run_lowgear({"estimate", "--example", "llama"}).err, HasSubstr("there are llemma-7b-perlmutter"));
  EXPECT_EQ(run_lowgear({"estimate", "--example", "llemma-7b-vista", "--plan"}).exit_code, 2);
}

TEST(SampleByAPublishedFile, OptionsOverrideItAndItsSubjectMustMatch) {
  const TemporaryFolder folder;
  const std::string file = write_text(
      folder / "linear1.yml",
      "{'kernel_name': 'linear1', 'columns_name': ['mp', 'b', 'l', 'dim', 'F_dur(us)', 'B_dur(us)'], 'shapes': [1, 16, "
      "2048, 1024], 'run': 'get_one',}\n");
  const std::string out = (folder / "samples").string();
  EXPECT_THAT(refusal_of({"sample", "collectives", "--config", file, "--out", out}),
              HasSubstr("call lowgear sample operators"));
  // What the file says was read, without its tp, which is given, when the last option is refused.
  const ProgramResult options = run_lowgear({"sample", "operators", "--config", file, "--out", out, "--tp", "none"});
  EXPECT_EQ(options.exit_code, 2);
  EXPECT_THAT(options.err, HasSubstr("--tp"));
  EXPECT_THAT(options.err, testing::Not(HasSubstr("given twice")));
  const std::string other = write_text(folder / "other.yml", "{'kernel_name': 'conv', 'columns_name': ['mp']}\n");
  EXPECT_THAT(run_lowgear({"sample", "operators", "--config", other, "--out", out}).err, HasSubstr("other.yml:1:17"));
}

TEST(SampleByAPublishedFile, WidthsOfHeadsReplaceItsNumbersOfThem) {
  const TemporaryFolder folder;
  const std::string file = write_text(
      folder / "flash.yml",
      "{'kernel_name': 'flash_atten', 'columns_name': ['mp', 'b', 'h', 'l', 'dim'], 'shapes': [1, 4, 16, 1024, 2048], "
      "'run': 'get_one',}\n");
  const auto error_with = [&](const std::string& option) {
    return run_lowgear(
               {"sample", "operators", "--config", file, "--out", (folder / "out").string(), option, "0", "--tp", "1"})
        .err;
  };
  EXPECT_THAT(error_with("--head-dim"), HasSubstr("--head-dim: 0 is not in 1 to"));
  EXPECT_THAT(error_with("--heads"), HasSubstr("--heads: 0 is not in 1 to"));
}

}  // namespace
}  // namespace lowgear::cli
