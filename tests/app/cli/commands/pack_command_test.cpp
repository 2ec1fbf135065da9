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

constexpr const char* kJobs =
    "job,gpus,busy_pct,sm_active_pct,memory_gib,power_w,iteration_s\n"
    "probe,1,40,15,9,170,0.2\n"
    "tune,1,50,20,12,190,\n"
    "large,2,98,80,60,620,1.5\n";

class PackCommand : public ::testing::Test {
 protected:
  [[nodiscard]] ProgramResult pack(const std::string& jobs, const std::vector<std::string>& others = {}) const {
    std::vector<std::string> words = {"pack", write_text(folder_ / "jobs.csv", jobs), "--gpu", "h100-sxm"};
    words.insert(words.end(), others.begin(), others.end());
    return run_lowgear(words);
  }
  [[nodiscard]] Json packed(const std::string& jobs, std::vector<std::string> others = {}) const {
    others.emplace_back("--json");
    const ProgramResult result = pack(jobs, others);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "stdout");
  }
  [[nodiscard]] std::string refusal(const std::string& jobs, const std::vector<std::string>& others = {}) const {
    return refusal_of(pack(jobs, others));
  }

  TemporaryFolder folder_;
};

TEST_F(PackCommand, PrintsWhichJobsShare) {
  const ProgramResult result = pack(kJobs);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 GPUs in place of 4, by mps; 1 freed, which stay in the node at 68 W each"));
  EXPECT_THAT(result.out, HasSubstr("saved 52.5 W of"));
  EXPECT_THAT(result.out, HasSubstr("probe + large: probe would be 7.5 % slower, more than 5 %"));
  EXPECT_THAT(result.out, HasSubstr("not measured together"));
}

TEST_F(PackCommand, WritesTheSameAsJson) {
  const Json json = packed(kJobs, {"--freed", "used", "--margin", "0"});
  EXPECT_EQ(json.at("figures"), "planned");
  EXPECT_EQ(json.at("gpus_packed"), 3);
  EXPECT_DOUBLE_EQ(json.at("saved_w").at("predicted").get<double>(), 120.5);
  EXPECT_DOUBLE_EQ(json.at("saved_w").at("low").get<double>(), 120.5);
  EXPECT_EQ(json.at("groups").at(0).at("jobs").at(1).at("job"), "tune");
  EXPECT_DOUBLE_EQ(json.at("groups").at(0).at("jobs").at(0).at("iteration_s").get<double>(), 0.2);
  EXPECT_TRUE(json.at("refused").is_null());
}

TEST_F(PackCommand, ReadsWhatMonitorMeasured) {
  write_text(folder_ / "a.json",
             R"({"simulated": true, "gpus": [{"mean_utilisation_percent": 10, "mean_power_w": 130}]})");
  const std::string jobs = "job,memory_gib,measurement\na,5,a.json\nb,5,a.json\n";
  const Json json = packed(jobs);
  EXPECT_EQ(json.at("gpus_packed"), 1);
  EXPECT_EQ(json.at("simulated_loads"), true);
  EXPECT_THAT(pack(jobs).out, HasSubstr("SIMULATED"));
  EXPECT_THAT(refusal("job,memory_gib,measurement\na,5,none.json\n"), HasSubstr("none.json"));
}

TEST_F(PackCommand, RefusesWhereTheModeForbidsSharing) {
  const ProgramResult exclusive = pack(kJobs, {"--by", "time-slicing", "--compute-mode", "exclusive-process"});
  EXPECT_EQ(exclusive.exit_code, 1);
  EXPECT_THAT(exclusive.out, HasSubstr("no GPU can be shared: the GPUs' compute mode is exclusive-process"));
  EXPECT_EQ(pack(kJobs, {"--compute-mode", "exclusive-process"}).exit_code, 0);
  const ProgramResult mig = pack(kJobs, {"--mig"});
  EXPECT_EQ(mig.exit_code, 1);
  EXPECT_THAT(mig.out, HasSubstr("MIG mode"));
}

TEST_F(PackCommand, RefusesWrongInput) {
  EXPECT_THAT(refusal("job\na\n"), HasSubstr("memory_gib"));
  EXPECT_THAT(refusal("job,memory_gib,busy_pct,power_w\na,1,10,20\n"), HasSubstr("draws 20 W, less than a GPU"));
  EXPECT_THAT(refusal("job,memory_gib,busy_pct,power_w\na,100,10,200\n"), HasSubstr("holds 100 GiB"));
  EXPECT_THAT(refusal(kJobs, {"--jobs-per-gpu", "5"}), HasSubstr("--jobs-per-gpu"));
  EXPECT_THAT(refusal(kJobs, {"--idle-power", "200"}), HasSubstr("must rise in this order"));
  EXPECT_THAT(refusal(kJobs, {"--by", "magic"}), HasSubstr("--by"));
  EXPECT_EQ(run_lowgear({"pack", (folder_ / "none.csv").string(), "--gpu", "h100-sxm"}).exit_code, 2);
}

}  // namespace
}  // namespace lowgear::cli
