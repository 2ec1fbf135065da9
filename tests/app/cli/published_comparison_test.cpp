#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

const std::filesystem::path kData = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus";

/// A measured profile of the artifact of Perseus, SOSP'24.
struct PublishedProfile {
  std::string file;
  std::string blocking_power_w;
  std::string unit_s;
};

const PublishedProfile kGpt3OnA100{"gpt3-175b+a100_sxm_bf16.csv", "83.64", "0.001"};
const PublishedProfile kBloomOnA40{"bloom+a40_bf16.csv", "70.38", "0.0001"};

/// Intrinsic savings of table 6, in per cent.
struct PublishedSaving {
  const PublishedProfile* profile;
  int microbatches;
  double perseus_pct;
  double envpipe_pct;
};

std::vector<std::string> command(const std::string& verb, const PublishedProfile& profile, int microbatches) {
  return {verb,
          "--profile",
          (kData / "stage_profile" / profile.file).string(),
          "--stages",
          "8",
          "--microbatches",
          std::to_string(microbatches),
          "--schedule",
          "1f1b",
          "--blocking-power",
          profile.blocking_power_w,
          "--perseus-unit",
          profile.unit_s};
}

class Published : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kData)) {
      GTEST_SKIP() << "SKIPPED: the reference data in ../shared/data is not there, so nothing was compared with "
                      "published numbers";
    }
  }
};

TEST_F(Published, CompareReproducesTable6) {
  const std::vector<PublishedSaving> table = {
      {&kGpt3OnA100, 12, 15.202, 14.08}, {&kGpt3OnA100, 24, 14.190, 13.42}, {&kGpt3OnA100, 48, 13.617, 13.07},
      {&kGpt3OnA100, 96, 13.319, 12.88}, {&kBloomOnA40, 12, 6.974, 6.09},   {&kBloomOnA40, 24, 4.488, 3.21},
      {&kBloomOnA40, 48, 3.123, 1.63},   {&kBloomOnA40, 96, 2.406, 0.80},
  };
  for (const PublishedSaving& expected : table) {
    SCOPED_TRACE(expected.profile->file + " " + std::to_string(expected.microbatches));
    std::vector<std::string> arguments = command("compare", *expected.profile, expected.microbatches);
    arguments.insert(arguments.end(), {"--policies", "perseus,envpipe-offline", "--json"});
    const ProgramResult result = run_lowgear(arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json json = parse_json(result.out, "stdout");
    EXPECT_NEAR(json["rows"][0]["published_saving_pct"], expected.perseus_pct, 0.02);
    EXPECT_NEAR(json["rows"][1]["published_saving_pct"], expected.envpipe_pct, 0.2);
  }
}

TEST_F(Published, PlanWithPerseusWritesItsFrontier) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = command("plan", kGpt3OnA100, 12);
  arguments.insert(arguments.end(), {"--policy", "perseus", "--out", (folder / "out").string()});
  const ProgramResult result = run_lowgear(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const CsvTable ours(read_file(folder / "out/frontier.csv"), "frontier.csv");
  const CsvTable theirs(read_file(kData / "frontier/a100_sxm/gpt3-175b_bf16_mb12.csv"), "gpt3-175b_bf16_mb12.csv");
  ASSERT_EQ(ours.rows(), theirs.rows());
  for (std::size_t row = 0; row < theirs.rows(); ++row) {
    const std::size_t from_slowest = ours.rows() - 1 - row;
    EXPECT_NEAR(ours.number(from_slowest, 0), theirs.number(row, 0), 1e-9);
    EXPECT_NEAR(ours.number(from_slowest, 1), theirs.number(row, 1), 1e-4 * theirs.number(row, 1));
  }
}

}  // namespace
}  // namespace lowgear::cli
