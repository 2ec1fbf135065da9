#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "planning/adapt/change_record.h"

namespace lowgear::adapt {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

/// A fine-tuning job of 8 blocks and three operating points, and a controller that it obeys. An iteration takes 10 s
/// and 1000 J; each point and each frozen block changes that, and it varies at random. The first blocks change least.
struct ChangingJob {
  std::vector<double> point_energies = {1, 0.9, 0.7};
  std::vector<double> point_times = {1, 1.01, 1.2};
  double block_energy = 0.95;  ///< of each frozen block
  double noise = 0.001;
  int window_iterations = 10;
  std::function<double(const Configuration&)> held_out = [](const Configuration&) { return 2.0; };
  std::function<void(IterationSeen&)> broken = [](IterationSeen&) {};

  /// An iteration, which is recorded in `text` and `decisions`.
  void iterate(ChangeController& controller) {
    const Configuration now = controller.current();
    configurations.push_back(now);
    ChangeStep step;
    ++steps_done;
    if (steps_done % window_iterations == 0 && has_windows) step.window = window(now);
    std::normal_distribution<double> normal(1, noise);
    const auto point = static_cast<std::size_t>(now.point);
    step.iteration = {.steps_done = steps_done,
                      .time_s = 10 * point_times[point] * normal(random),
                      .energy_j = 1000 * point_energies[point] *
                                  std::pow(block_energy, static_cast<double>(now.frozen_blocks)) * normal(random),
                      .counted = !step.window};
    broken(step.iteration);
    if (step.window) step.decisions = controller.observe(*step.window);
    for (ChangeDecision& decision : controller.observe(step.iteration)) step.decisions.push_back(decision);
    decisions.insert(decisions.end(), step.decisions.begin(), step.decisions.end());
    text += write_change_line(step) + "\n";
  }

  [[nodiscard]] freezing::Observation window(const Configuration& now) const {
    freezing::Observation seen{.steps_done = steps_done, .learning_rate = 1e-4, .held_out_loss = held_out(now)};
    for (int block = 0; block < 8; ++block) {
      const bool frozen = block < now.frozen_blocks;
      seen.gradients.push_back(frozen ? kMissing : std::pow(1 + 0.01 * block, steps_done / window_iterations));
      seen.drifts.push_back(frozen ? kMissing : 0.1 * (block + 1));
    }
    return seen;
  }

  bool has_windows = true;
  std::int64_t steps_done = 0;
  std::mt19937 random{5};
  std::vector<Configuration> configurations;  ///< of every iteration
  std::vector<ChangeDecision> decisions;
  std::string text;  ///< lines of the record, without its header
};

[[nodiscard]] inline ChangeOptions slowdown_options() {
  return {.points = {"full", "low", "slow"}, .freezing = {}, .search = {.allowed_slowdown_pct = 3}};
}

[[nodiscard]] inline ChangeOptions freezing_options() {
  ChangeOptions options;
  options.freezing = FreezingChange{
      .blocks = 8,
      .options = {.cap = 0.25, .dwell_windows = 2, .steady_windows = 1, .steady_drift = 0.1, .loss_margin = 0.01}};
  return options;
}

[[nodiscard]] inline ChangeOptions both_options() {
  ChangeOptions options = freezing_options();
  options.points = slowdown_options().points;
  options.search = slowdown_options().search;
  return options;
}

}  // namespace lowgear::adapt
