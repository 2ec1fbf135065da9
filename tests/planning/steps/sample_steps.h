#pragma once

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/progress.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"
#include "planning/steps/step_run.h"

namespace lowgear::steps {

struct Quiet final : Progress {
  void update(std::string_view /*activity*/, double /*fraction*/) override {}
};

inline constexpr double kBlockingW = 80;

/// Stages with six clocks, whose forwards and backwards differ: a unit of work takes some 50 and 100 ms.
[[nodiscard]] profile::StageProfile sample_profile(int stages);
[[nodiscard]] schedule::PipelineDag sample_dag(int stages, int microbatches);

/// What made sample lengths into times: known, so that fits can be compared with it.
inline constexpr double kConstantS = 2e-3;
inline constexpr double kLinearS = 4e-6;
inline constexpr double kAttentionS = 3e-10;

/// Files of `steps` steps of documents with long tails, and their times at full clocks with relative errors of `noise`;
/// backwards take twice as long as forwards, stage s (1 + s / 10) times as long as the first.
struct SampleFiles {
  std::string lengths;
  std::string trace;
};
[[nodiscard]] SampleFiles sample_files(int steps, int replicas, int stages, int microbatches, double noise);

/// Loads of four experts on two ranks, in four layers on two stages, that drift and scatter, and times of their units
/// at full clocks: kConstantS + kLoadS x tokens of the fullest rank, backwards twice as long.
struct LoadedSteps {
  static constexpr int kSteps = 12, kReplicas = 2, kStages = 2, kMicrobatches = 3, kRanks = 2;
  static constexpr double kLoadS = 4e-5;

  Lengths lengths;
  Trace trace;

  /// One step may have other loads than without a change.
  explicit LoadedSteps(int changed_step = -1);
};

/// The work of every op of a random replica: between 0.3 and 3.
[[nodiscard]] std::vector<double> random_work(const schedule::PipelineDag& dag, std::mt19937& random);

}  // namespace lowgear::steps
