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

class EmulateCommand : public ::testing::Test {
 protected:
  EmulateCommand() { profile_ = write_text(folder_ / "profile.csv", small_profile(3)); }

  [[nodiscard]] ProgramResult emulate(std::vector<std::string> others) const {
    others.insert(others.begin(), {"published", "emulate", "--profile", profile_, "--blocking-power", "70"});
    return run_lowgear(others);
  }

  TemporaryFolder folder_;
  std::string profile_;
};

TEST_F(EmulateCommand, ShowsStrongScalingByDegreeOfTheStraggler) {
  const std::vector<std::string> scaling = {"--microbatches",    "6,12", "--global-microbatches", "48",
                                            "--tensor-parallel", "8",    "--straggler",           "1.1,1.3"};
  std::vector<std::string> with_json = scaling;
  with_json.emplace_back("--json");
  const ProgramResult result = emulate(with_json);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["figures"], "emulated");
  ASSERT_EQ(json["clusters"].size(), 2U);
  EXPECT_EQ(json["clusters"][0]["pipelines"], 8);
  EXPECT_EQ(json["clusters"][0]["gpus"], 8 * 8 * 3);
  EXPECT_EQ(json["clusters"][1]["gpus"], 4 * 8 * 3);
  for (const Json& cluster : json["clusters"]) {
    ASSERT_EQ(cluster["stragglers"].size(), 2U);
    EXPECT_LT(cluster["stragglers"][0]["energy_j"], cluster["stragglers"][0]["baseline_j"]);
  }
  const ProgramResult text = emulate(scaling);
  EXPECT_THAT(text.out, HasSubstr("192"));
  EXPECT_THAT(text.out, HasSubstr("emulated: "));
}

TEST_F(EmulateCommand, AStragglerOfAnyDegreeIsWaitedForAtTheLeastEnergy) {
  const ProgramResult result = emulate({"--microbatches", "6", "--pipelines", "4", "--straggler", "100,1e6", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json cluster = parse_json(result.out, "stdout")["clusters"][0];
  EXPECT_GT(cluster["stragglers"][1]["time_s"], cluster["stragglers"][0]["time_s"]);
}

TEST_F(EmulateCommand, RefusesClustersThatDoNotAddUp) {
  EXPECT_THAT(refusal_of(emulate({"--microbatches", "5", "--global-microbatches", "48"})),
              HasSubstr("does not divide"));
  EXPECT_EQ(emulate({"--microbatches", "6", "--global-microbatches", "48", "--pipelines", "8"}).exit_code, 2);
  EXPECT_EQ(emulate({"--microbatches", "6", "--straggler", "0.9"}).exit_code, 2);
  EXPECT_EQ(emulate({}).exit_code, 2);
}

}  // namespace
}  // namespace lowgear::cli
