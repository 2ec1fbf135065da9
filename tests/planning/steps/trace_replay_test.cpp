#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "base/core/formats/csv.h"
#include "planning/schedule/generators.h"
#include "planning/simulator/shared_data.h"
#include "planning/steps/sample_steps.h"
#include "planning/steps/step_run.h"

namespace lowgear::steps {
namespace {

/// A trace of the reference data; empty when it is not there.
std::string shared_trace(const std::string& name) {
  const auto path = std::filesystem::path(LOWGEAR_SOURCE_DIR) / "../shared/data/straggler_traces" / (name + ".csv.gz");
  if (!std::filesystem::exists(path)) return "";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(("gzip -dc '" + path.string() + "'").c_str(), "r"), pclose);
  std::string text;
  std::array<char, 65536> block{};
  for (std::size_t read = 0; (read = fread(block.data(), 1, block.size(), pipe.get())) > 0;)
    text.append(block.data(), read);
  return text;
}

/// The first stage of Perseus' GPT-3 175B on A100, for every stage: the GPUs of the traces are not stated.
profile::StageProfile borrowed_curve(int stages) {
  const std::string name = "perseus/stage_profile/gpt3-175b+a100_sxm_bf16.csv";
  const CsvTable table(simulator::read_shared(name).value(), name);
  profile::StageProfile profile(stages);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.integer(row, table.column("stage")) != 0) continue;
    const auto kind = op_kind_from_name(table.text(row, table.column("instruction")));
    for (int stage = 0; stage < stages; ++stage) {
      profile.add(stage, kind.value(),
                  {static_cast<int>(table.integer(row, table.column("frequency"))),
                   table.number(row, table.column("time")), table.number(row, table.column("energy"))});
    }
  }
  return profile;
}

struct Reach {
  const char* trace;
  ClocksPer clocks_per;
  double most_given_pct;     ///< energy of the plan against full clocks, steps that the fit has not seen
  double most_balanced_pct;  ///< the same after balancing
  double from_bound_points;  ///< of the given deal, at most
};

class TraceReplay : public ::testing::TestWithParam<Reach> {};

TEST_P(TraceReplay, SavesEnergyAndIsHardlyLate) {
  constexpr double kA100BlockingW = 83.64;
  const std::string text = shared_trace(GetParam().trace);
  if (text.empty()) GTEST_SKIP() << simulator::kNoSharedData;
  const Trace trace = read_trace(text, GetParam().trace);
  const schedule::PipelineDag dag = build_dag(schedule::one_f_one_b_schedule(trace.stages, trace.microbatches));
  const profile::StageProfile profile = borrowed_curve(trace.stages);
  const std::vector<double> power_w(static_cast<std::size_t>(trace.stages), kA100BlockingW);
  Quiet progress;
  const StepRun run =
      plan_steps(predict_steps(dag, trace, 0), dag, profile, power_w, {.clocks_per = GetParam().clocks_per}, progress);
  for (const Which which : {Which::fitted, Which::held_out}) {
    const StepTotals given = totals(run, Deal::given, Times::recorded, which);
    const StepTotals balanced = totals(run, Deal::balanced, Times::recorded, which);
    const auto change_pct = [](const StepTotals& of, double energy_j) {
      return 100 * (energy_j / of.sums.full_clocks.energy_j - 1);
    };
    const double given_pct = change_pct(given, given.sums.plan.energy_j);
    EXPECT_LE(given_pct, GetParam().most_given_pct);
    EXPECT_LE(given_pct - change_pct(given, given.bound_j), GetParam().from_bound_points);
    EXPECT_LE(change_pct(balanced, balanced.sums.plan.energy_j), GetParam().most_balanced_pct);
    EXPECT_LE(given.mean_lateness, 0.005);
    EXPECT_LE(balanced.mean_lateness, 0.005);
  }
}

INSTANTIATE_TEST_SUITE_P(ByteDance, TraceReplay,
                         ::testing::Values(Reach{"SE", ClocksPer::unit, -25, -12, 3},
                                           Reach{"SE", ClocksPer::replica, -22, -4, 5},
                                           Reach{"AR", ClocksPer::unit, -23, -23, 3},
                                           Reach{"ST", ClocksPer::unit, -13, -13, 3}));

}  // namespace
}  // namespace lowgear::steps
