#include "app/cli/arguments/profile_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "app/cli/run_lowgear.h"
#include "base/core/error_of.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseClocks, TakesListsAndRangesInTheirOrder) {
  EXPECT_THAT(parse_clocks("1410,1395,1410000e-2"), ElementsAre(1410, 1395, 14100));
  EXPECT_THAT(parse_clocks("1410-1365/15"), ElementsAre(1410, 1395, 1380, 1365));
  EXPECT_THAT(parse_clocks("200-230/20"), ElementsAre(200, 220));
  EXPECT_THAT(parse_clocks("810"), ElementsAre(810));
  EXPECT_THAT(parse_clocks("1410MHz,1.38GHz"), ElementsAre(1410, 1380));
  EXPECT_THAT(parse_clocks("1410MHz-1380MHz/15MHz"), ElementsAre(1410, 1395, 1380));
}

TEST(ParseClocks, RefusesAnythingElse) {
  for (const char* text : {"", ",", "1410,", "a", "1410-855", "1410-855/0", "1410/15", "-5", "0", "100001", "1-2-3/1",
                           "1410.5", "1410W"}) {
    EXPECT_THAT(error_of([&] { (void)parse_clocks(text); }), HasSubstr("is not a clock")) << text;
  }
  EXPECT_THAT(error_of([] { (void)parse_clocks("1410,1410"); }), HasSubstr("named twice"));
}

TEST(RefuseToOverwrite, FindsInputsUnderOtherNames) {
  const TemporaryFolder folder;
  const std::string input = write_text(folder / "in.csv", "x");
  std::filesystem::create_directory(folder / "rank-0");
  std::filesystem::create_symlink(input, folder / "link.csv");
  const auto error = [&](const std::filesystem::path& output) {
    return error_of([&] { refuse_to_overwrite(output, {input, (folder / "rank-0").string()}); });
  };
  EXPECT_THAT(error(folder / "rank-0/../in.csv"), HasSubstr("write somewhere else"));
  EXPECT_THAT(error(folder / "link.csv"), HasSubstr("write somewhere else"));
  EXPECT_THAT(error(folder / "rank-0/units.csv"), HasSubstr("write somewhere else"));
  refuse_to_overwrite(folder / "out.csv", {input, (folder / "rank-0").string()});
}

TEST(LoadMerak, OrdersFilesByNumberAndNeedsBothOfAPair) {
  const TemporaryFolder folder;
  for (const int rank : {10, 2, 1}) {
    write_text(folder / ("instructions-" + std::to_string(rank) + ".csv"), "instruction,start,end\n");
    write_text(folder / ("time-energy-" + std::to_string(rank) + ".csv"), "time,energy\n");
  }
  const formats::MerakRun run{1, 1, 1, {1410}};
  std::vector<int> ranks;
  for (const profile::Recording& recording : load_merak(folder / ".", run)) ranks.push_back(recording.rank);
  EXPECT_THAT(ranks, ElementsAre(1, 2, 10));
  std::filesystem::remove(folder / "time-energy-2.csv");
  EXPECT_THAT(error_of([&] { (void)load_merak(folder / ".", run); }), HasSubstr("there is no time-energy-2.csv"));
}

}  // namespace
}  // namespace lowgear::cli
