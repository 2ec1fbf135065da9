#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planning/planner/policies/envpipe_options.h"
#include "planning/profile/stage_profile.h"
#include "planning/schedule/dag.h"

namespace lowgear::planner {

/// EnvPipe's reconfiguration (Choi et al., USENIX ATC 2023), a decision for each training step: walks back from the
/// last unit of the first rank, to the previous unit of the rank where receiving was quick and to the sender where it
/// was not. On that path `balanced` raises all units of lowest clock, `greedy` the last unit that can rise, by three
/// steps. A path within the outer envelope is left as it is. Ends after eleven steps without a change. Clocks never
/// fall. Differences: the walk does not fall off the start of a stage; clocks are kept to those of the profile.
class EnvPipeReconfiguration {
 public:
  /// `dag` and `profile` must outlive it. `clocks_mhz`: by op, each in the profile.
  EnvPipeReconfiguration(const schedule::PipelineDag& dag, const profile::StageProfile& profile,
                         const EnvPipeOptions& options, std::vector<int> clocks_mhz);

  /// What a step decided.
  struct Step {
    std::vector<int> path;    ///< ops, the last one first
    std::vector<int> raised;  ///< ops whose clock rises with the next training step
  };

  /// One training step. `receive_s`: by op, how long it took to get its input, wait and transfer; 0 where nothing is
  /// received. The first step sets the threshold: the shortest receive of the last rank, times the scale.
  Step step(std::span<const double> receive_s);

  /// Whether the loop has ended; further steps are allowed.
  [[nodiscard]] bool is_finished() const;
  [[nodiscard]] const std::vector<int>& clocks_mhz() const { return clocks_mhz_; }
  /// By op: the op on another rank whose result it receives, or -1.
  [[nodiscard]] const std::vector<int>& senders() const { return senders_; }

 private:
  [[nodiscard]] const schedule::ComputeOp& op(int index) const;
  [[nodiscard]] bool is_first_of_rank(int index) const;
  void set_threshold(std::span<const double> receive_s);
  [[nodiscard]] std::vector<int> find_path(std::span<const double> receive_s) const;
  [[nodiscard]] bool can_rise(int unit) const;
  void raise_clock(int unit, int by_mhz);
  [[nodiscard]] std::vector<int> units_to_raise(std::span<const int> path) const;

  const schedule::PipelineDag* dag_;
  const profile::StageProfile* profile_;
  EnvPipeOptions options_;
  std::vector<int> clocks_mhz_;  ///< by op
  std::vector<int> senders_;
  std::vector<bool> envelope_;  ///< by op
  std::optional<double> threshold_s_;
  int unchanged_steps_ = 0;
};

/// A step as EnvPipe prints it: a line `Stage s | ` for each rank, then for each unit its kind and microbatch, its
/// clock in MHz and its receive in ms, `[F0 1350 0.0]` on the path. `clocks_mhz` and `receive_s` by op.
[[nodiscard]] std::string envpipe_step_text(const schedule::PipelineDag& dag, std::span<const int> clocks_mhz,
                                            std::span<const double> receive_s, std::span<const int> path);

}  // namespace lowgear::planner
