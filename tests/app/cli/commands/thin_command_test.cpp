#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ThinCommand : public ::testing::Test {
 protected:
  ThinCommand() {
    std::filesystem::create_directory(folder_ / "plans");
    for (int number = 0; number < 11; ++number) {
      write_text(folder_ / "plans" / fmt::format("freqs_pipeline_{:05}.py", number),
                 fmt::format("[\n[{}, 1410],\n]\n# Iteration {}: total cost 1 \n", 1000 + number, number));
    }
    write_text(folder_ / "plans" / "job.log", "");
  }

  [[nodiscard]] ProgramResult thin(const std::string& keep) const {
    return run_lowgear(
        {"plan", "--thin", (folder_ / "plans").string(), "--keep", keep, "--out", (folder_ / "out").string()});
  }
  /// Numbers of the plans that were kept.
  [[nodiscard]] std::vector<int> kept(const std::string& keep) const {
    const ProgramResult result = thin(keep);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<int> numbers;
    for (int number = 0; number < 11; ++number) {
      const std::string name = fmt::format("freqs_pipeline_{:05}.py", number);
      if (!std::filesystem::exists(folder_ / "out" / name)) continue;
      numbers.push_back(number);
      EXPECT_EQ(read_file(folder_ / "out" / name), read_file(folder_ / "plans" / name));
    }
    return numbers;
  }

  TemporaryFolder folder_;
};

TEST_F(ThinCommand, KeepsEveryNthAndTheLastAsLowtimesScript) {
  EXPECT_THAT(kept("every:4"), ElementsAre(0, 4, 8, 10));
  EXPECT_THAT(kept("every:5"), ElementsAre(0, 5, 10));
  EXPECT_THAT(kept("every:50"), ElementsAre(0, 10));
}

TEST_F(ThinCommand, KeepsSoManyEvenly) {
  EXPECT_THAT(kept("3"), ElementsAre(0, 5, 10));
  EXPECT_THAT(kept("1"), ElementsAre(10));
  EXPECT_EQ(kept("all").size(), 11U);
  EXPECT_EQ(kept("500").size(), 11U);
  const Json record = parse_json(read_file(folder_ / "out" / "thinned.json"), "thinned.json");
  EXPECT_EQ(record["plans"], 11);
  EXPECT_EQ(record["kept"], 11);
}

TEST_F(ThinCommand, RefusesWhatItCannotThin) {
  for (const char* keep : {"0", "-1", "every:0", "every:", "half"}) {
    const ProgramResult result = thin(keep);
    EXPECT_EQ(result.exit_code, 2) << keep;
    EXPECT_THAT(result.err, HasSubstr("every:50")) << keep;
  }
  std::filesystem::create_directory(folder_ / "empty");
  EXPECT_EQ(
      run_lowgear({"plan", "--thin", (folder_ / "empty").string(), "--keep", "2", "--out", (folder_ / "out").string()})
          .exit_code,
      2);
  write_text(folder_ / "plans" / "freqs_pipeline_00010.py", "import os");
  EXPECT_THAT(refusal_of(thin("2")), HasSubstr("freqs_pipeline_00010.py:1:1"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(ThinCommand, ReplacesNoFilesOfOthers) {
  const std::string plans = (folder_ / "plans").string();
  const ProgramResult result = run_lowgear({"plan", "--thin", plans, "--keep", "2", "--out", plans});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "plans" / "freqs_pipeline_00005.py"));
}

}  // namespace
}  // namespace lowgear::cli
