/// The stage profiles published with Perseus (SOSP'24, ml-energy/zeus branch `kronos`, sosp24_data/emulation), which
/// are not part of this project: these tests skip where they are absent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "planning/profile/options.h"
#include "planning/profile/plausibility.h"
#include "planning/profile/profile_file.h"
#include "planning/profile/stage_profile.h"
#include "planning/profile/summary.h"

namespace lowgear::profile {
namespace {

using testing::IsEmpty;

struct PublishedProfile {
  const char* file;
  int rows;
  int clocks;
  int max_clock_mhz;
  double blocking_power_w;  ///< as measured by the authors for this GPU
};

std::filesystem::path path_of(const PublishedProfile& published) {
  return std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/perseus/stage_profile" / published.file;
}

class PublishedProfiles : public testing::TestWithParam<PublishedProfile> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(path_of(GetParam()))) {
      GTEST_SKIP() << "NOT CHECKED against the published profile, which is absent: " << path_of(GetParam());
    }
    text_ = read_file(path_of(GetParam()));
    profile_ = read_profile_file(text_, GetParam().file).profile;
  }

  [[nodiscard]] std::vector<OpProfileSummary> summaries() const {
    return summarise(profile_, std::vector<double>(8, GetParam().blocking_power_w));
  }

  std::string text_;
  StageProfile profile_;
};

TEST_P(PublishedProfiles, HaveNoRowInDoubt) {
  const std::vector<double> blocking_power_w{GetParam().blocking_power_w};
  const ProfileFile file = read_profile_file(text_, GetParam().file);
  EXPECT_THAT(profile_doubts(file, {.blocking_power_w = blocking_power_w}), IsEmpty());
}

TEST_P(PublishedProfiles, HaveEightStagesAtEveryClock) {
  ASSERT_EQ(profile_.stages(), 8);
  int rows = 0;
  for (const OpProfileSummary& op : summaries()) {
    rows += op.count;
    EXPECT_EQ(op.count, GetParam().clocks);
    EXPECT_EQ(op.max_clock_mhz, GetParam().max_clock_mhz);
    EXPECT_EQ(op.min_clock_mhz, 855);
    EXPECT_EQ(op.clock_step_mhz, 15);
    EXPECT_THAT(op.missing_clocks_mhz, IsEmpty());
  }
  EXPECT_EQ(rows, GetParam().rows);
}

TEST_P(PublishedProfiles, AreReadToTheLastDigit) {
  const CsvTable table(text_, GetParam().file);
  ASSERT_EQ(table.rows(), static_cast<std::size_t>(GetParam().rows));
  const StageProfile again = read_profile_file(write_profile_file({.profile = profile_}), "written").profile;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto stage = static_cast<int>(table.integer(row, table.column("stage")));
    const auto clock_mhz = static_cast<int>(table.integer(row, table.column("frequency")));
    const OpKind kind = op_kind_from_name(table.text(row, table.column("instruction"))).value();
    const Measurement& read = again.at_clock(stage, kind, clock_mhz);
    ASSERT_EQ(read.time_s, std::stod(table.text(row, table.column("time"))));
    ASSERT_EQ(read.energy_j, std::stod(table.text(row, table.column("energy"))));
  }
}

TEST_P(PublishedProfiles, DifferInTheLastStageOnly) {
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    for (int stage = 1; stage < 7; ++stage) {
      EXPECT_EQ(profile_.at_max_clock(stage, kind).time_s, profile_.at_max_clock(0, kind).time_s);
    }
    EXPECT_NE(profile_.at_max_clock(7, kind).time_s, profile_.at_max_clock(0, kind).time_s);
  }
}

TEST_P(PublishedProfiles, HaveHullsOfSevenToTwelveOptions) {
  for (const OpProfileSummary& op : summaries()) {
    EXPECT_GE(op.hull_count, 7) << op.stage << name(op.kind);
    EXPECT_LE(op.hull_count, 12) << op.stage << name(op.kind);
  }
}

TEST_P(PublishedProfiles, KeepMoreOptionsOnEffectiveEnergyThanOnEnergy) {
  for (const OpKind kind : {OpKind::forward, OpKind::backward}) {
    const auto measurements = profile_.measurements(0, kind);
    const std::vector<Option> on_energy = pareto_options(measurements, 0);
    const std::vector<Option> on_effective = pareto_options(measurements, GetParam().blocking_power_w);
    EXPECT_GT(on_effective.size(), on_energy.size());
    EXPECT_GT(on_effective.back().time_s, on_energy.back().time_s);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedProfiles,
                         testing::Values(PublishedProfile{"gpt3-175b+a100_sxm_bf16.csv", 608, 38, 1410, 83.64},
                                         PublishedProfile{"bloom+a40_bf16.csv", 960, 60, 1740, 70.38}),
                         [](const auto& published) { return published.index == 0 ? "gpt3_a100" : "bloom_a40"; });

}  // namespace
}  // namespace lowgear::profile
