/// The policies against the results that the authors of Perseus published (SOSP'24 artifact). Skipped where these are
/// absent.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/core/files/file.h"
#include "base/core/formats/csv.h"
#include "planning/planner/policies/clock_choice.h"
#include "planning/planner/policies/sample_problem.h"
#include "rivals/policies/envpipe/envpipe_offline.h"
#include "rivals/policies/perseus/exponential_fit.h"
#include "rivals/policies/perseus/perseus_policy.h"
#include "rivals/policies/published_profile.h"

namespace lowgear::policies {
namespace {

constexpr int kStages = 8;

planner::SampleProblem emulation(const PublishedPipeline& pipeline, int microbatches) {
  return {schedule::one_f_one_b_schedule(kStages, microbatches), pipeline.read(), pipeline.blocking_power_w};
}

std::string pipeline_name(const PublishedPipeline* pipeline, int microbatches) {
  const std::string model = pipeline == &kGpt3OnA100 ? "Gpt3OnA100" : "BloomOnA40";
  return model + "With" + std::to_string(microbatches) + "Microbatches";
}

class PublishedTables : public testing::Test {
 protected:
  void SetUp() override {
    if (!published_data_present()) GTEST_SKIP() << kNoPublishedData;
  }
};

struct FitCase {
  const PublishedPipeline* pipeline;
  int stage;
  OpKind kind;
  double fastest_j;  ///< at the ends of the curve, by SciPy 1.10's curve_fit from the same starts
  double slowest_j;
  double tolerance;  ///< relative
};

TEST_F(PublishedTables, FitsAsSciPyDoes) {
  // Of Bloom's forwards the optimum is a straight line, which an exponential approaches without end: where that stops
  // is a matter of rounding.
  const std::vector<FitCase> cases = {
      {&kGpt3OnA100, 0, OpKind::backward, 37.3619615044, 23.140592615, 1e-7},
      {&kGpt3OnA100, 0, OpKind::forward, 19.5502026451, 12.3717273891, 1e-7},
      {&kGpt3OnA100, 7, OpKind::backward, 38.5399893187, 23.795756075, 1e-7},
      {&kGpt3OnA100, 7, OpKind::forward, 20.2786521938, 12.922421429, 1e-7},
      {&kBloomOnA40, 0, OpKind::backward, 55.5937415312, 37.6503343493, 1e-7},
      {&kBloomOnA40, 0, OpKind::forward, 30.3924839015, 20.5456882719, 1e-4},
      {&kBloomOnA40, 7, OpKind::backward, 51.2543963678, 33.6565064371, 1e-7},
      {&kBloomOnA40, 7, OpKind::forward, 28.7365243433, 18.5397763254, 1e-4},
  };
  for (const FitCase& expected : cases) {
    const profile::StageProfile profile = expected.pipeline->read();
    const PerseusCurve curve = perseus_curve(profile.measurements(expected.stage, expected.kind),
                                             expected.pipeline->unit_s, expected.pipeline->blocking_power_w);
    EXPECT_TRUE(curve.fit.has_value());
    EXPECT_NEAR(curve.effective_energy_j.front(), expected.fastest_j, expected.tolerance * expected.fastest_j);
    EXPECT_NEAR(curve.effective_energy_j.back(), expected.slowest_j, expected.tolerance * expected.slowest_j);
  }
}

struct FrontierCase {
  const PublishedPipeline* pipeline;
  int microbatches;
  const char* file;
  double tolerance;  ///< relative, of energy
};

class PublishedFrontiers : public testing::TestWithParam<FrontierCase> {};

TEST_P(PublishedFrontiers, AreReproducedRowByRow) {
  if (!published_data_present()) GTEST_SKIP() << kNoPublishedData;
  const FrontierCase& expected = GetParam();
  const auto path = published_path(std::string("frontier/") + expected.file);
  const CsvTable table(read_file(path), path.filename());
  const std::size_t time = table.column("time");
  const std::size_t energy = table.column("energy");

  const planner::SampleProblem sample = emulation(*expected.pipeline, expected.microbatches);
  const auto rows = PerseusModel(sample.problem(), expected.pipeline->unit_s).frontier();
  ASSERT_EQ(rows.size(), table.rows());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    ASSERT_NEAR(rows[row].time_s, table.number(row, time), 1e-9);
    ASSERT_NEAR(rows[row].energy_j, table.number(row, energy), expected.tolerance * rows[row].energy_j);
  }
}

std::string frontier_name(const testing::TestParamInfo<FrontierCase>& test) {
  return pipeline_name(test.param.pipeline, test.param.microbatches);
}

INSTANTIATE_TEST_SUITE_P(Perseus, PublishedFrontiers,
                         testing::Values(FrontierCase{&kGpt3OnA100, 12, "a100_sxm/gpt3-175b_bf16_mb12.csv", 1e-8},
                                         FrontierCase{&kGpt3OnA100, 24, "a100_sxm/gpt3-175b_bf16_mb24.csv", 1e-8},
                                         FrontierCase{&kGpt3OnA100, 96, "a100_sxm/gpt3-175b_bf16_mb96.csv", 1e-8},
                                         FrontierCase{&kBloomOnA40, 12, "a40/bloom_bf16_mb12.csv", 1e-5}),
                         frontier_name);

struct SavingCase {
  const PublishedPipeline* pipeline;
  int microbatches;
  double perseus_pct;
  double envpipe_pct;
};

class PublishedSavings : public testing::TestWithParam<SavingCase> {};

TEST_P(PublishedSavings, AreThoseOfPerseusAndOfItsEnvPipe) {
  if (!published_data_present()) GTEST_SKIP() << kNoPublishedData;
  const SavingCase& expected = GetParam();
  const planner::SampleProblem sample = emulation(*expected.pipeline, expected.microbatches);
  const planner::PlanningProblem problem = sample.problem();
  const planner::PolicyPlan perseus = PerseusPolicy(expected.pipeline->unit_s).plan(problem, std::nullopt);
  const double time_s = perseus.own_time_s.value();
  EXPECT_NEAR(perseus_intrinsic_saving_pct(problem, time_s, perseus.own_energy_j.value()), expected.perseus_pct, 0.002);

  const planner::PolicyPlan envpipe = EnvPipeOfflinePolicy(expected.pipeline->unit_s).plan(problem, std::nullopt);
  const simulator::Timeline replayed = replay_clocks(problem, envpipe.clocks_mhz);
  EXPECT_NEAR(perseus_intrinsic_saving_pct(problem, time_s, replayed.energy_j_total), expected.envpipe_pct, 0.025);
}

std::string saving_name(const testing::TestParamInfo<SavingCase>& test) {
  return pipeline_name(test.param.pipeline, test.param.microbatches);
}

/// Intrinsic savings of table 6, from the artifact's data with more digits than printed.
INSTANTIATE_TEST_SUITE_P(
    Table6, PublishedSavings,
    testing::Values(SavingCase{&kGpt3OnA100, 12, 15.202, 14.08}, SavingCase{&kGpt3OnA100, 24, 14.190, 13.42},
                    SavingCase{&kGpt3OnA100, 48, 13.617, 13.07}, SavingCase{&kGpt3OnA100, 96, 13.319, 12.88},
                    SavingCase{&kBloomOnA40, 12, 6.974, 6.09}, SavingCase{&kBloomOnA40, 24, 4.488, 3.21},
                    SavingCase{&kBloomOnA40, 48, 3.123, 1.63}, SavingCase{&kBloomOnA40, 96, 2.406, 0.80}),
    saving_name);

/// Real time and energy are 10 and 80 times those of the emulation. The published GPT-3 runs were costed at a path time
/// that is up to 0.04 % off their replay.
TEST_F(PublishedTables, PlansWhatTheArtifactsEnvPipePlans) {
  const CsvTable table(read_file(published_path("envpipe_result.csv")), "envpipe_result.csv");
  int checked = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const bool gpt3 = table.text(row, table.column("model")) == "gpt3-175b";
    const PublishedPipeline& pipeline = gpt3 ? kGpt3OnA100 : kBloomOnA40;
    const auto microbatches = static_cast<int>(table.integer(row, table.column("num_microbatches")));
    const planner::SampleProblem sample = emulation(pipeline, microbatches);
    const planner::PolicyPlan plan = EnvPipeOfflinePolicy(pipeline.unit_s).plan(sample.problem(), std::nullopt);
    const simulator::Timeline replayed = replay_clocks(sample.problem(), plan.clocks_mhz);
    const double energy_j = table.number(row, table.column("energy"));
    const double time_s = table.number(row, table.column("iteration_time"));
    EXPECT_NEAR(80 * replayed.energy_j_total, energy_j, (gpt3 ? 3e-4 : 1e-7) * energy_j) << row;
    EXPECT_NEAR(10 * replayed.time_s, time_s, 5e-4 * time_s) << row;
    ++checked;
  }
  EXPECT_EQ(checked, 8);
}

TEST_F(PublishedTables, TheArtifactsEnvPipeTakes86StepsOnGpt3) {
  const planner::SampleProblem sample = emulation(kGpt3OnA100, 12);
  EXPECT_EQ(EnvPipeOfflinePolicy(kGpt3OnA100.unit_s).plan(sample.problem(), std::nullopt).note, "86 reconfigurations");
}

}  // namespace
}  // namespace lowgear::policies
