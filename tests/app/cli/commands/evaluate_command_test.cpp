#include <gtest/gtest.h>

#include <filesystem>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

TEST(EvaluateCommand, ShowsPublishedCellsBesideComputedOnes) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "zeus/A100");
  std::filesystem::create_directories(folder / "runs/gpt3-xl_A100");
  write_text(folder / "zeus/A100/zeus_global.csv", "model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000\n");
  write_text(folder / "runs/gpt3-xl_A100/2.prof.json",
             R"([{"rank":0,"iter_time":[1,1,100.1],"iter_energy":[1,1,868]}])");
  const Json json = json_of({"published", "evaluate", folder.path().string()});
  EXPECT_EQ(json["tables"][0]["table"], "table 3");
  EXPECT_EQ(json["tables"][0]["reproduced"], 2);  // 13.2 % and 0.1 %
  EXPECT_EQ(json["cells"].size(), 184U);
  ASSERT_EQ(json["figure9"].size(), 2U);
  EXPECT_EQ(json["figure9"][0]["method"], "Perseus");
  EXPECT_EQ(json["figure9"][0]["number"], 2);
  EXPECT_EQ(json["figure9"][0]["time_s"], 100.1);
  EXPECT_EQ(json["figure9"][0]["energy_j"], 868);
  EXPECT_EQ(json["figure9"][1]["method"], "Zeus, one limit");
  EXPECT_EQ(json["figure9"][1]["energy_j"], 1000);
  EXPECT_TRUE(json["figure8"].empty()) << "without a stage profile";
  const ProgramResult text = run_lowgear({"published", "evaluate", folder.path().string()});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("table 3: 2 of 40 cells reproduced"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("not in the folders: stage_profile/bloom+a40_bf16.csv"), std::string::npos);
}

TEST(EvaluateCommand, DrawsItsFigures) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "data/zeus/A100");
  write_text(folder / "data/zeus/A100/zeus_global.csv", "model_name,dp,tp,pp,time,energy\ngpt3-xl,1,1,4,100,1000\n");
  const std::string page = (folder / "figures.html").string();
  const ProgramResult run = run_lowgear({"published", "evaluate", (folder / "data").string(), "--html", page});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string text = read_file(page);
  EXPECT_NE(text.find("Figure 7: saving with a straggler"), std::string::npos);
  EXPECT_NE(text.find("Figure 9: measured iterations"), std::string::npos);
  EXPECT_EQ(text.find("Figure 8: what"), std::string::npos) << "nothing to draw";
  EXPECT_NE(text.find("0 of 184 cells"), std::string::npos) << "how many can be checked";
}

std::string window(double time_s, double energy_j) {
  return R"([{"rank":0,"iter_time":[9,9,)" + std::to_string(time_s) + R"(],"iter_energy":[9,9,)" +
         std::to_string(energy_j) + "]}]";
}

TEST(EvaluateCommand, ShowsTheWindowsOfAJobsResults) {
  const TemporaryFolder folder;
  const std::filesystem::path dump = folder / "2026-01-31-12-00-00+merak+my-model+uniform+dp1+pp1+PointSolution";
  std::filesystem::create_directories(dump);
  write_text(dump / "0.prof.json", window(1, 100));
  write_text(dump / "1.prof.json", window(1, 100));
  write_text(dump / "2.prof.json", window(1.1, 80));
  write_text(dump / "2.sched.json", R"([{"rank":0,"power_states":[1200,990]}])");
  write_text(dump / "perseus.json", "{}");
  for (const std::string& given : {dump.string(), folder.path().string()}) {
    const ProgramResult text = run_lowgear({"published", "evaluate", given});
    ASSERT_EQ(text.exit_code, 0) << text.err;
    EXPECT_NE(text.out.find("3 windows, baseline 1.0000 s, 100.0 J (windows 0 and 1)"), std::string::npos) << text.out;
    EXPECT_NE(text.out.find("     2      990-1200   1.1000       80.0      20.00        10.00\n"), std::string::npos)
        << text.out;
    EXPECT_EQ(text.out.find("table 3"), std::string::npos) << "not beside published cells";
  }
  const ProgramResult result = run_lowgear({"published", "evaluate", dump.string(), "--json"});
  const Json json = parse_json(result.out, "stdout")["dumps"][0];
  EXPECT_EQ(json["baseline"]["energy_j"], 100);
  EXPECT_EQ(json["windows"][2]["window"], 2);
  EXPECT_EQ(json["windows"][2]["saving_pct"], 20);
  EXPECT_EQ(json["windows"][0]["saving_pct"], nullptr);
  const ProgramResult html =
      run_lowgear({"published", "evaluate", dump.string(), "--html", (folder / "x.html").string()});
  EXPECT_EQ(html.exit_code, 2);
  EXPECT_NE(html.err.find("--html: draws the figures of Perseus'"), std::string::npos) << html.err;
  std::filesystem::remove(dump / "1.prof.json");
  EXPECT_NE(run_lowgear({"published", "evaluate", dump.string()}).err.find("the baseline is window 0 alone"),
            std::string::npos);
}

TEST(EvaluateCommand, RefusesFoldersWithoutSuchFiles) {
  const TemporaryFolder folder;
  const ProgramResult empty = run_lowgear({"published", "evaluate", folder.path().string()});
  EXPECT_EQ(empty.exit_code, 2);
  EXPECT_NE(empty.err.find("no file of the shape"), std::string::npos) << empty.err;
  EXPECT_EQ(run_lowgear({"published", "evaluate", (folder / "absent").string()}).exit_code, 2);
}

}  // namespace
}  // namespace lowgear::cli
